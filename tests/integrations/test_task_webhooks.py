"""Webhooks of single tasks and of single projects: they stay with their task and their project."""

import pytest

from detent.errors import Refused
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.kernel import commands as c
from detent.operations import task_webhooks
from detent.operations import webhooks as ops
from detent.operations.context import Core
from detent.operations.registry import Caller
from tests.integrations.hooks import PERSON, listed, put, received_events, submit
from tests.integrations.receiver import Receiver


def of_a_task(core: Core, receiver: Receiver, task_id: str, name: str = "w") -> None:
    """A webhook of a task that the person created."""
    task_webhooks.put_task_webhook(
        core, Caller("person"), task_id=task_id, name=name, url=receiver.url, base="http://here"
    )


def hooks_of(core: Core, task_id: str) -> list[str]:
    found = task_webhooks.list_task_webhooks(core, Caller("person"), task_id=task_id)
    return [each["name"] for each in found["items"]]


def test_the_webhook_of_a_task_is_deleted_after_410_gone(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    """Paused, it would stay after the end of its task."""
    submit(core, "t")
    of_a_task(core, receiver, "t")
    receiver.answers = [410]
    core.engine.do(c.QueueTask("t"), PERSON)
    dispatcher.run_once()
    assert hooks_of(core, "t") == []
    with core.store.read() as view:
        assert dict(view.rows("webhooks")) == {}


def test_an_own_id_with_a_colon_has_webhooks(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    submit(core, "build:7")
    of_a_task(core, receiver, "build:7")
    assert hooks_of(core, "build:7") == ["w"]
    core.engine.do(c.QueueTask("build:7"), PERSON)
    dispatcher.run_once()
    assert receiver.received


def test_the_webhook_of_another_task_is_not_replaced(core: Core, receiver: Receiver) -> None:
    submit(core, "a")
    submit(core, "a-b")
    of_a_task(core, receiver, "a", "b-c")
    with pytest.raises(Refused, match="Another webhook has the name 'c' of task a-b"):
        of_a_task(core, receiver, "a-b", "c")
    assert (hooks_of(core, "a"), hooks_of(core, "a-b")) == (["b-c"], [])


def test_a_webhook_stays_in_the_project_of_its_token(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    """Also after a token of all projects has changed it."""
    ops.put_webhook(core, Caller("admin", project="p"), name="chat", url=receiver.url)
    put(core, receiver)
    assert listed(core)["projects"] == []
    submit(core, "ours")
    submit(core, "theirs", project="q")
    dispatcher.run_once()
    assert received_events(receiver) == ["task_created ours"]
