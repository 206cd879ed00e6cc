"""The inbox: everything that waits for a person, with the legal actions on it. Reads only."""

from collections.abc import Sequence
from typing import cast

from detent import views
from detent.kernel.entities import Task
from detent.operations import schemas
from detent.operations.actions import Suggestion, actions_on, events_on
from detent.operations.context import Core
from detent.operations.costs import shown_tasks
from detent.operations.registry import Caller, Scope, operation
from detent.operations.waiting_work import (
    WaitingFilter,
    WaitingWork,
    kinds_from,
    kinds_of,
    person_from,
    waiting_work,
)
from detent.operations.why_reasons import budget_raises
from detent.store.port import ReadTransaction

#: Actions that the inbox does not list.
NOT_LISTED = ("run",)


@operation(Scope.READ, "GET", "/api/inbox")
def inbox(
    core: Core,
    caller: Caller,
    *,
    project: str | None = None,
    kind: str | None = None,
    intent: str | None = None,
    assigned_to: str | None = None,
    mine: bool = False,
    unassigned: bool = False,
    snoozed: bool = False,
    item: str | None = None,
) -> schemas.Inbox:
    """List what waits for a person: the highest priority first, then the oldest."""
    person = person_from(caller, assigned_to, mine=mine, unassigned=unassigned)
    wanted = WaitingFilter(project, intent, kinds_from(kind), person, unassigned, snoozed, item)
    with core.store.read() as view:
        found = waiting_work(view, caller, wanted)
        return {
            "count": found.total,
            "snoozed": found.total if snoozed else found.hidden,
            "items": _to_schema(view, caller, found),
            "questions": [cast(schemas.JobQuestion, views.shown(row)) for row in found.questions],
            "refused": list(found.refused),
        }


def _to_schema(
    view: ReadTransaction, caller: Caller, found: WaitingWork
) -> list[schemas.InboxTask]:
    tasks = [task for task, _ in view.tasks([row["id"] for row in found.tasks])]
    legal = actions_on(view, tasks)
    known = {task.id: _actions(view, task, legal[task.id]) for task in tasks}
    events = events_on(view, tasks, caller.actor)
    kinds = kinds_of(view, found.tasks)
    until = {task_id: views.utc(at) for task_id, at in found.snoozes.items()}
    return [
        {
            **row,
            "kind": kinds[row["id"]],
            "actions": known[row["id"]],
            "events": events[row["id"]],
            "snoozed_until": until.get(row["id"]),
        }
        for row in shown_tasks(view, found.tasks)
    ]


def _actions(view: ReadTransaction, task: Task, legal: Sequence[str]) -> list[schemas.Suggestion]:
    own = [Suggestion(each, task.id) for each in legal if each not in NOT_LISTED]
    above = budget_raises(view, task) if task.blocked_by == "budget" else ()
    return [each.to_schema() for each in (*above, *own)]
