"""Subtasks whose failure is settled: handled by the parent's handler, or dismissed by a person."""

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Task, Wait
from detent.kernel.predicates import has_failed, was_settled


def settle_handled(draft: Draft, wait: Wait) -> None:
    """Settle the failed subtasks whose outcomes the handler asked for and receives now.

    A subtask that was retried meanwhile and is live again is not settled.
    """
    parent = draft.task_of(draft.job(wait.job_id))
    if parent is None or not wait.detail.get("outcomes"):
        return
    for name in wait.needs:
        kind, _, child_id = name.partition(":")
        child = draft.find_task(child_id) if kind == "task" else None
        if child is not None and child.parent_id == parent.id and unsettled_failure(draft, child):
            for ancestor in draft.ancestors(child):
                draft.emit(ancestor.id, e.SubtaskHandled(child.id, child.state))


def dismiss(draft: Draft, subtask: Task, reason: str | None) -> bool:
    """Settle a subtask and the failed subtasks below it; live ones below it are not settled.

    Returns False if there was nothing left to settle.
    """
    found = [each for each in draft.tree(subtask) if unsettled_failure(draft, each)]
    for each in found:
        for ancestor in draft.ancestors(each):
            draft.emit(ancestor.id, e.SubtaskDismissed(each.id, each.state, reason))
    return bool(found)


def unsettled_failure(draft: Draft, subtask: Task) -> bool:
    return has_failed(draft, subtask) and not was_settled(draft, subtask)
