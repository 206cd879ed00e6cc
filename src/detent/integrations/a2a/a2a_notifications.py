"""Notifications of A2A about single tasks, which the webhook dispatcher sends."""

from detent.integrations.a2a import a2a_messages as a2a
from detent.operations.context import Core
from detent.operations.outcomes import task_outcome
from detent.operations.registry import Caller
from detent.operations.webhooks import DEAD, MAX_KEPT, Webhook, cursor_name
from detent.store.codec import to_json

#: The dispatcher reads tasks of the project that the webhook belongs to.
NAME = "webhooks"
#: More than the stream of one task has.
MAX_EVENTS = 100_000


def notification(core: Core, hook: Webhook) -> str:
    """The body of a notification: the task as it is now."""
    assert hook.task is not None
    outcome = task_outcome(core, Caller(NAME, project=hook.project), task_id=hook.task)
    return to_json({"task": a2a.task(outcome, hook.base)})


def is_over(core: Core, hook: Webhook) -> bool:
    """Whether the webhook of a task has nothing more to send: the task has ended or was deleted."""
    if hook.task is None:
        return False
    with core.store.read() as view:
        found = list(view.tasks([hook.task]))
        if not found:
            return True
        task, version = found[0]
        if view.lifecycles()[task.lifecycle].ending(task.state, task.retries_left) is None:
            return False
        # The last event may not be readable yet, or not be in the outbox yet.
        last = view.events(0, MAX_EVENTS, stream=hook.task)[-1]
        cursor = view.rows("webhooks")[cursor_name(hook.name)]["position"]
        if last.version < version or last.position > cursor:
            return False
        return all(row.due_at == DEAD for row in view.outbox(hook.target, MAX_KEPT))
