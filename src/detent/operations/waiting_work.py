"""What waits for a person: which tasks, questions of jobs and refused submissions, and how many.

The inbox, its count and the number in the health report come from here. Reads only.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from detent.errors import Invalid
from detent.kernel.entities import ASSIGNED_TO
from detent.kernel.retention import Ending
from detent.kernel.state_mapping import WAITS_FOR_PERSON
from detent.kernel.task_lifecycle import Phase, TaskState, state_names
from detent.kernel.wait_kinds import PERMISSION
from detent.operations import schemas
from detent.operations.context import check_choice
from detent.operations.cursor_pages import MAX_ROWS, of_project
from detent.operations.refused_intake import refused_rows
from detent.operations.registry import Caller
from detent.operations.snoozes import snoozes_of
from detent.operations.tokens import check_person
from detent.store.port import ReadTransaction
from detent.store.types import Query

Row = Mapping[str, Any]

#: Reasons of blocked tasks that only a person ends.
ASKING = sorted(each.value for each in WAITS_FOR_PERSON)
#: By the reason of a blocked task, or the kind of a job's question, the kind of the item.
KIND_BY_REASON = {
    "question": "question",
    "needs_user": "confirmation",
    "confirmation": "confirmation",
    "budget": "budget",
    "permission": "question",
}
REFUSED = "refused"
#: The fields of a question, from its wait and from its job.
OF_WAIT = ("job_id", "name", "kind", "begun_at", "step", "due_at", "detail")
OF_JOB = ("task_id", "project", "intent", "priority", "state")
#: The kinds of items, in the order in which they are listed.
KINDS = (
    *("question", "confirmation", "review", "budget"),
    *("failure", "quarantine", "subtask", REFUSED),
)


class WaitingFilter(NamedTuple):
    """Which items are wanted. `snoozed` selects the items that the caller has snoozed."""

    project: str | None = None
    intent: str | None = None
    kinds: tuple[str, ...] = KINDS
    #: Only tasks that are assigned to this person, or with `unassigned` to no person.
    assigned_to: str | None = None
    unassigned: bool = False
    snoozed: bool = False
    #: Only the task with this id, or what the job with this id asks.
    item: str | None = None

    @property
    def wants_assigned(self) -> bool:
        return self.assigned_to is not None


class WaitingWork(NamedTuple):
    """The items, the most urgent of each kind first, and when the caller's snoozes end."""

    tasks: Sequence[Row]
    questions: Sequence[Row]
    refused: Sequence[schemas.RefusedRow]
    #: By task id, the end of the caller's snooze.
    snoozes: Mapping[str, int]
    #: How many tasks match that the caller has snoozed.
    hidden: int
    #: How many more there are than the lists have.
    beyond: int

    @property
    def total(self) -> int:
        return len(self.tasks) + len(self.questions) + len(self.refused) + self.beyond


def kinds_from(given: str | None) -> tuple[str, ...]:
    """The kinds of a request, which are separated by commas; all of them if none is given."""
    if given is None:
        return KINDS
    return tuple(check_choice(each.strip(), KINDS, "kind") for each in given.split(","))


def person_from(
    caller: Caller, assigned_to: str | None, *, mine: bool, unassigned: bool
) -> str | None:
    """The person of a request."""
    if (assigned_to is not None) + mine + unassigned > 1:
        raise Invalid(
            "Give at most one of assigned_to, mine and unassigned.",
            field="assigned_to",
            allowed=("assigned_to", "mine", "unassigned"),
        )
    if assigned_to is not None:
        check_person(assigned_to, "assigned_to")
    return caller.name if mine else assigned_to


def waiting_work(view: ReadTransaction, caller: Caller, wanted: WaitingFilter) -> WaitingWork:
    """What waits for the caller: snoozed items come back by themselves when their time is over."""
    snoozes = snoozes_of(view, caller.name)
    asleep, further = _matching_tasks(view, caller, wanted, among=snoozes)
    tasks, beyond = (
        (asleep, further)
        if wanted.snoozed
        else _matching_tasks(view, caller, wanted, without=snoozes)
    )
    alone = not (wanted.wants_assigned or wanted.snoozed)
    questions, more = _questions(view, caller, wanted) if alone else ([], 0)
    if alone and KIND_BY_REASON[PERMISSION] in wanted.kinds:
        questions = sorted([*questions, *_permissions(view, caller, wanted)], key=_question_urgency)
    refused = _refused(view, caller, wanted) if alone and REFUSED in wanted.kinds else []
    return WaitingWork(tasks, questions, refused, snoozes, len(asleep) + further, beyond + more)


def count_waiting(view: ReadTransaction, caller: Caller) -> int:
    """How many items wait for the caller, without those that the caller has snoozed."""
    return waiting_work(view, caller, WaitingFilter()).total


# ---- tasks -----------------------------------------------------------------------------------


def _matching_tasks(
    view: ReadTransaction,
    caller: Caller,
    wanted: WaitingFilter,
    *,
    among: Collection[str] | None = None,
    without: Collection[str] = (),
) -> tuple[list[Row], int]:
    """The most urgent tasks that match, and how many more there are.

    `among` has the ids of the only tasks that are wanted, `without` those of tasks that are not.
    """
    ids = _ids(wanted.item, among, without)
    if ids == []:
        return [], 0
    if ids:
        without = ()
    within = of_project(caller, _present(intent=wanted.intent, id=ids), wanted.project)
    rows: list[Row] = []
    beyond = 0
    for where, kinds in _searches(view):
        if kinds & set(wanted.kinds):
            found, more = _most_urgent(view, {**within, **where}, wanted, kinds, without)
            rows += found
            beyond += more
    below = [row for row in _left_behind(view, within) if row["id"] not in without]
    rows += _wanted_of(view, below, wanted)
    return sorted(_unsettled(view, rows), key=urgency), beyond


def _ids(
    item: str | None, among: Collection[str] | None, without: Collection[str]
) -> list[str] | None:
    """The ids of the only tasks that are searched; None if all are."""
    if item is None:
        return None if among is None else sorted(among)
    return [item] if item not in without and (among is None or item in among) else []


def urgency(row: Row) -> tuple[str, int]:
    """The order of the inbox: the highest priority first, then the oldest."""
    return row["priority"], row["state_at"]


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _searches(view: ReadTransaction) -> tuple[tuple[dict[str, Any], frozenset[str]], ...]:
    """The conditions of tasks that wait for a person, and the kinds that they can have."""
    lifecycles = view.lifecycles()
    blocked = state_names(lifecycles, lambda each: each.phase is Phase.BLOCKED)
    reviewed = state_names(lifecycles, lambda each: each.under_review)
    others = state_names(lifecycles, lambda each: each.waits_for_person and not each.under_review)
    without_reviews = frozenset(KINDS) - {"review"}
    return (
        ({"state": blocked, "blocked_by": ASKING}, without_reviews),
        ({"state": reviewed}, frozenset({"review"})),
        ({"state": others}, without_reviews),
    )


def _most_urgent(
    view: ReadTransaction,
    where: Mapping[str, Any],
    wanted: WaitingFilter,
    kinds: frozenset[str],
    without: Collection[str],
) -> tuple[list[Row], int]:
    """The wanted tasks, by priority and age, and how many more there are."""
    counts = view.count_by(Query("tasks", where), "priority")
    pages = (
        [row for row in page if row["id"] not in without] for page in _pages(view, where, counts)
    )
    if kinds <= set(wanted.kinds) and not (wanted.wants_assigned or wanted.unassigned):
        rows = list(islice(chain.from_iterable(pages), MAX_ROWS))
        left_out = view.count_by(Query("tasks", {**where, "id": sorted(without)}), "priority")
        return rows, sum(counts.values()) - sum(left_out.values()) - len(rows)
    # The columns do not have the person and the exact kind: every task is read.
    rows = []
    total = 0
    for page in pages:
        found = _wanted_of(view, page, wanted)
        total += len(found)
        rows += found[: MAX_ROWS - len(rows)]
    return rows, total - len(rows)


def _pages(
    view: ReadTransaction, where: Mapping[str, Any], priorities: Iterable[str]
) -> Iterator[Sequence[Row]]:
    """The matching tasks, by priority and age."""
    for priority in sorted(priorities):
        query = Query("tasks", {**where, "priority": priority}, "state_at", limit=MAX_ROWS)
        page = view.page(query)
        while page:
            yield page
            last = page[-1]
            page = view.page(query._replace(after=(last["state_at"], last["id"])))


def _wanted_of(view: ReadTransaction, rows: Sequence[Row], wanted: WaitingFilter) -> list[Row]:
    """The rows of the wanted person and kinds."""
    found = [row for row in rows if _is_wanted(row, wanted)]
    if wanted.kinds == KINDS:
        return found
    kinds = kinds_of(view, found)
    return [row for row in found if kinds[row["id"]] in wanted.kinds]


def _left_behind(view: ReadTransaction, within: Mapping[str, Any]) -> Iterator[Row]:
    """Subtasks that ended without success, below tasks that wait for their subtasks."""
    lifecycles = view.lifecycles()
    blocked = state_names(lifecycles, lambda each: each.phase is Phase.BLOCKED)
    project = {name: value for name, value in within.items() if name == "project"}
    where = {**project, "state": blocked, "blocked_by": "subtasks"}
    waiting = view.page(Query("tasks", where, "state_at", limit=MAX_ROWS))
    parents = {parent for parent, _ in view.children([row["id"] for row in waiting])}
    if parents:
        ended = state_names(lifecycles, _ended_badly)
        where = {**within, "parent_id": sorted(parents), "state": ended}
        yield from view.page(Query("tasks", where, "state_at", limit=MAX_ROWS))


def _ended_badly(state: TaskState) -> bool:
    """Whether the state is in the inbox only while a task above waits for the subtask."""
    return state.ending in (Ending.FAILED, Ending.CANCELLED) and not state.waits_for_person


def _unsettled(view: ReadTransaction, rows: Sequence[Row]) -> list[Row]:
    """The rows without subtasks whose parent no longer waits for them."""
    parents = {row["parent_id"] for row in rows if row["parent_id"]}
    settled = {each for task, _ in view.tasks(sorted(parents)) for each in task.settled}
    return [row for row in rows if row["id"] not in settled]


def _is_wanted(row: Row, wanted: WaitingFilter) -> bool:
    person = row["options"].get(ASSIGNED_TO)
    if wanted.unassigned:
        return person is None
    return wanted.assigned_to in (None, person)


def kinds_of(view: ReadTransaction, rows: Sequence[Row]) -> dict[str, str]:
    """By task id, what the task needs from a person."""
    lifecycles = view.lifecycles()
    jobs = [row["job_id"] for row in rows if row["job_id"]]
    failures = {job.id: job.error_class for job, _ in view.jobs(jobs)} if jobs else {}

    def kind(row: Row) -> str:
        lifecycle = lifecycles[row["lifecycle"]]
        state = lifecycle.by_state[row["state"]]
        if state.under_review:
            return "review"
        if row["state"] in lifecycle.terminal:
            return "subtask"  # it has ended for good: only a dismissal settles it
        if state.phase is Phase.BLOCKED and row["blocked_by"] in KIND_BY_REASON:
            return KIND_BY_REASON[row["blocked_by"]]
        return "quarantine" if failures.get(row["job_id"]) == "lost" else "failure"

    return {row["id"]: kind(row) for row in rows}


# ---- questions of jobs and live runs, refused submissions ------------------------------------


def _questions(
    view: ReadTransaction, caller: Caller, wanted: WaitingFilter
) -> tuple[list[Row], int]:
    """The open questions of jobs without a task, and how many more there are."""
    kinds = [each for each, kind in KIND_BY_REASON.items() if kind in wanted.kinds]
    if not kinds:
        return [], 0
    where = {**_present(intent=wanted.intent, job_id=wanted.item), "kind": kinds}
    query = Query("questions", of_project(caller, where, wanted.project), "begun_at")
    rows = list(view.page(query._replace(limit=MAX_ROWS)))
    total = sum(view.count_by(query, "state").values())
    rows = [{**row, "task_id": None} for row in rows]
    return sorted(rows, key=_question_urgency), total - len(rows)


def _permissions(view: ReadTransaction, caller: Caller, wanted: WaitingFilter) -> Iterator[Row]:
    """What live runs ask, of tasks and of jobs without a task. Few jobs run at the same time."""
    where = {
        **_present(intent=wanted.intent, id=wanted.item),
        "state": "running",
        "waited": True,
    }
    query = Query("jobs", of_project(caller, where, wanted.project), limit=MAX_ROWS)
    jobs = {row["id"]: row for row in view.page(query)}
    for wait in view.waits(list(jobs)) if jobs else ():
        if wait.kind == PERMISSION:
            shared = {name: jobs[wait.job_id][name] for name in OF_JOB}
            yield {**{name: getattr(wait, name) for name in OF_WAIT}, **shared}


def _question_urgency(row: Row) -> tuple[str, int]:
    return row["priority"], row["begun_at"]


def _refused(
    view: ReadTransaction, caller: Caller, wanted: WaitingFilter
) -> list[schemas.RefusedRow]:
    if wanted.item is not None:
        return []  # neither a task nor a job
    rows = refused_rows(view, caller, wanted.project)
    return [row for row in rows if wanted.intent in (None, row["intent"])]
