"""The inbox: everything that waits for a person, with the legal actions on it. Reads only."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from detent.kernel.entities import Task
from detent.kernel.retention import Ending
from detent.kernel.state_mapping import WAITS_FOR_PERSON
from detent.kernel.task_lifecycle import Phase, TaskState, state_names
from detent.operations import schemas
from detent.operations.actions import Suggestion, actions_on, events_on
from detent.operations.context import Core
from detent.operations.costs import shown_tasks
from detent.operations.cursor_pages import MAX_ROWS, listed, of_project
from detent.operations.refused_intake import refused_rows
from detent.operations.registry import Caller, Scope, operation
from detent.operations.why_reasons import budget_raises
from detent.store.port import ReadTransaction
from detent.store.types import Query

Row = Mapping[str, Any]

#: Reasons of blocked tasks that only a person ends.
ASKING = sorted(each.value for each in WAITS_FOR_PERSON)
#: Actions that the inbox does not list.
NOT_LISTED = ("run",)


@operation(Scope.READ, "GET", "/api/inbox")
def inbox(core: Core, caller: Caller, *, project: str | None = None) -> schemas.Inbox:
    """List what waits for a person, oldest first: questions, reviews, failures, refusals."""
    with core.store.read() as view:
        rows: list[Row] = []
        kinds = _kinds(view)
        for where in kinds:
            rows += _rows(view, of_project(caller, where, project))
        rows += _left_behind(view, of_project(caller, {}, project))
        items = _to_schema(view, caller, _unsettled(view, rows))
        refused = list(refused_rows(view, caller, project))
        alone = Query("questions", of_project(caller, {}, project), "begun_at")
        waiting = [Query("tasks", of_project(caller, each, project)) for each in kinds]
        counts = [view.count_by(query, "state") for query in (*waiting, alone)]
    questions = listed(core, alone)
    total = sum(sum(each.values()) for each in counts) + len(refused)
    shown = len(items) + len(questions) + len(refused)
    return {
        "count": total if len(items) >= MAX_ROWS else shown,
        "items": sorted(items, key=lambda row: row["state_at"]),
        "questions": questions,
        "refused": refused,
    }


def _kinds(view: ReadTransaction) -> tuple[dict[str, Any], ...]:
    """The conditions of tasks that wait for a person: a question or error, a decision."""
    lifecycles = view.lifecycles()
    blocked = state_names(lifecycles, lambda each: each.phase is Phase.BLOCKED)
    deciding = state_names(lifecycles, lambda each: each.waits_for_person)
    return ({"state": blocked, "blocked_by": ASKING}, {"state": deciding})


def _rows(view: ReadTransaction, where: dict[str, Any]) -> Sequence[Row]:
    return view.page(Query("tasks", where, "state_at", limit=MAX_ROWS))


def _left_behind(view: ReadTransaction, within: dict[str, Any]) -> Iterator[Row]:
    """Subtasks that ended without success, below tasks that wait for their subtasks."""
    lifecycles = view.lifecycles()
    blocked = state_names(lifecycles, lambda each: each.phase is Phase.BLOCKED)
    waiting = _rows(view, {**within, "state": blocked, "blocked_by": "subtasks"})
    parents = {parent for parent, _ in view.children([row["id"] for row in waiting])}
    if parents:
        ended = state_names(lifecycles, _ended_badly)
        where = {**within, "parent_id": sorted(parents), "state": ended}
        yield from _rows(view, where)


def _ended_badly(state: TaskState) -> bool:
    """Whether the state is in the inbox only while a task above waits for the subtask."""
    return state.ending in (Ending.FAILED, Ending.CANCELLED) and not state.waits_for_person


def _unsettled(view: ReadTransaction, rows: Sequence[Row]) -> list[Row]:
    """The rows without subtasks whose parent no longer waits for them."""
    parents = {row["parent_id"] for row in rows if row["parent_id"]}
    settled = {each for task, _ in view.tasks(sorted(parents)) for each in task.settled}
    return [row for row in rows if row["id"] not in settled]


def _to_schema(
    view: ReadTransaction, caller: Caller, rows: Sequence[Row]
) -> list[schemas.InboxTask]:
    tasks = [task for task, _ in view.tasks([row["id"] for row in rows])]
    legal = actions_on(view, tasks)
    known = {task.id: _actions(view, task, legal[task.id]) for task in tasks}
    events = events_on(view, tasks, caller.actor)
    return [
        {**row, "actions": known[row["id"]], "events": events[row["id"]]}
        for row in shown_tasks(view, rows)
    ]


def _actions(view: ReadTransaction, task: Task, legal: Sequence[str]) -> list[schemas.Suggestion]:
    own = [Suggestion(each, task.id) for each in legal if each not in NOT_LISTED]
    above = budget_raises(view, task) if task.blocked_by == "budget" else ()
    return [each.to_schema() for each in (*above, *own)]
