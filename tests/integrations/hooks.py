"""Helpers of webhook tests: create a webhook, submit work, and read what was received."""

import json
from typing import Any

from detent.kernel import commands as c
from detent.operations import webhooks as ops
from detent.operations.context import Core
from detent.operations.registry import OWNER
from detent.settings import Settings
from tests.integrations.receiver import Receiver

PERSON = c.Actor("person")
SETTINGS = Settings(webhooks_allow=("127.0.0.0/8",))


def put(core: Core, receiver: Receiver, **wanted: Any) -> dict[str, Any]:
    return dict(ops.put_webhook(core, OWNER, **{"name": "chat", "url": receiver.url, **wanted}))


def listed(core: Core) -> dict[str, Any]:
    (one,) = ops.list_webhooks(core, OWNER)["items"]
    return dict(one)


def submit(core: Core, task_id: str, **more: Any) -> None:
    fields = {"project": "p", "lifecycle": "review", "intent": "dig", "source": "cli", **more}
    core.engine.do(c.SubmitTask(task_id, **fields), PERSON)


def received_events(receiver: Receiver) -> list[str]:
    """The type and subject of each received CloudEvent."""
    found = [json.loads(each.body) for each in receiver.received]
    return [f"{each['type'].removeprefix('detent.')} {each.get('subject', '-')}" for each in found]
