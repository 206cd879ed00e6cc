"""Webhook deliveries for dismissed and handled subtasks."""

import json

from detent.engine.claims import ClaimRequest
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.kernel import commands as c
from detent.operations.context import Core
from tests.integrations.hooks import PERSON, put, submit
from tests.integrations.receiver import Receiver


def test_a_webhook_gets_the_dismissal_from_the_parent(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver, events=["subtask_dismissed", "subtask_handled"], shape="slack")
    submit(core, "p", queue=True)
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    grant, run = claimed.grant, claimed.job.run_id or ""
    for child in ("c", "d"):
        submit(core, child, parent_id="p")
        core.engine.do(c.CancelTask(child), PERSON)
    needs, detail = ("task:d",), {"outcomes": True}
    core.engine.do(c.SuspendRun(grant, run, "w", "subtasks", needs, detail=detail), PERSON)
    core.engine.do(c.DismissSubtask("c", "not <needed>"), PERSON)
    dispatcher.run_once()
    assert [json.loads(each.body)["text"] for each in receiver.received] == [
        "*p* has dealt with the failure of its subtask d (p, project p)",
        "*p* no longer waits for its subtask c, which was dismissed: not &lt;needed&gt; "
        "(p, project p)",
    ]
