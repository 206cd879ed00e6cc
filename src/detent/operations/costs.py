"""The cost of work: dollars and tokens of each run, summed for a task and for its tree."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from detent import views
from detent.kernel.budget import is_warned
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import ASSIGNED_TO
from detent.kernel.retention import Ending
from detent.kernel.state_mapping import seen
from detent.kernel.task_lifecycle import Phase, TaskLifecycles
from detent.operations import schemas
from detent.operations.acceptances import acceptances
from detent.operations.budgets import remaining, with_ancestors
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.store.port import ReadTransaction
from detent.store.types import Query

#: The number of jobs in one query.
SLICE = 500
MAX_RUNS = 100_000

Row = Mapping[str, Any]


class Sum(NamedTuple):
    """The sum over some runs; `cost` is in micro-dollars."""

    runs: int = 0
    cost: int = 0
    tokens_in: int = 0
    tokens_out: int = 0

    def plus(self, *others: "Sum") -> "Sum":
        return Sum(*map(sum, zip(self, *others, strict=True)))

    def shown(self) -> schemas.Spending:
        return cast(schemas.Spending, views.shown(self._asdict()))


class Trees(NamedTuple):
    """Tasks with their descendants (`below`), and for each task the sum of its own runs (`own`)."""

    below: Mapping[str, Sequence[str]]
    own: Mapping[str, Sum]

    def tree(self, task_id: str) -> Sum:
        return self.own[task_id].plus(*(self.own[each] for each in self.below.get(task_id, ())))


def trees(view: ReadTransaction, rows: Iterable[Row]) -> Trees:
    """The cost of the tasks of these rows and of all tasks below them."""
    jobs = {row["id"]: row["jobs"] for row in rows}
    parents = [row["id"] for row in rows if row["subtasks"]]
    below = _below(view.children(parents), parents) if parents else {}
    missing = {each for names in below.values() for each in names} - jobs.keys()
    jobs |= {task.id: task.jobs for task, _ in view.tasks(sorted(missing))} if missing else {}
    return Trees(
        {name: [each for each in found if each in jobs] for name, found in below.items()},
        _own(view, jobs),
    )


def _below(pairs: Iterable[tuple[str, str]], tops: Iterable[str]) -> dict[str, list[str]]:
    """By task id in `tops`, its descendants."""
    children: dict[str, list[str]] = {}
    for parent, child in dict.fromkeys(pairs):
        children.setdefault(parent, []).append(child)

    def walk(name: str) -> Iterator[str]:
        for child in children.get(name, ()):
            yield child
            yield from walk(child)

    return {top: list(walk(top)) for top in tops}


def _own(view: ReadTransaction, jobs: Mapping[str, int]) -> dict[str, Sum]:
    owner = {each: name for name, count in jobs.items() for each in jobs_of_task(name, count)}
    found = dict.fromkeys(jobs, Sum())
    names = list(owner)
    for start in range(0, len(names), SLICE):
        where = {"job_id": names[start : start + SLICE]}
        for run in view.page(Query("runs", where, limit=MAX_RUNS)):
            one = Sum(1, run["cost"], run["tokens_in"], run["tokens_out"])
            found[owner[run["job_id"]]] = found[owner[run["job_id"]]].plus(one)
    return found


# ---- tasks for clients -----------------------------------------------------------------------


def shown_tasks(view: ReadTransaction, rows: Sequence[Row]) -> list[schemas.Task]:
    """Rows of tasks for clients, with their cost and their states in other protocols."""
    found, known = trees(view, rows), view.lifecycles()
    failures, accepted = _failures(view, known, rows), acceptances(view, rows)
    return [
        cast(
            schemas.Task,
            {
                **views.shown(row),
                **_meaning(known, row),
                "assigned_to": row["options"].get(ASSIGNED_TO),
                "error_class": failures.get(row["job_id"]),
                "acceptance": accepted.get(row["job_id"]),
                "usage": _usage(found, row),
                "elsewhere": _elsewhere(known, row),
            },
        )
        for row in rows
    ]


def _meaning(lifecycles: TaskLifecycles, row: Row) -> dict[str, Any]:
    """What the state means, for clients that do not know the lifecycle."""
    lifecycle = lifecycles[row["lifecycle"]]
    state, ending = (
        lifecycle.by_state[row["state"]],
        lifecycle.ending(row["state"], row["retries_left"]),
    )
    return {
        "phase": state.phase.value,
        "ending": None if ending is None else ending.value,
        "waits_for_person": state.waits_for_person,
    }


def _failures(
    view: ReadTransaction, lifecycles: TaskLifecycles, rows: Iterable[Row]
) -> Mapping[str | None, str | None]:
    """By job id, the failure class of the jobs of tasks that may have stopped because of it."""
    states = ((row, lifecycles[row["lifecycle"]].by_state[row["state"]]) for row in rows)
    jobs = [
        row["job_id"]
        for row, state in states
        if row["job_id"] and (state.phase is Phase.BLOCKED or state.ending is Ending.FAILED)
    ]
    return {job.id: job.error_class for job, _ in view.jobs(jobs)} if jobs else {}


def _usage(found: Trees, row: Row) -> schemas.Usage:
    """The cost of the tree is what the log has charged; it includes deleted subtasks."""
    tree = found.tree(row["id"])._replace(cost=row["spent"])
    return {
        "own": found.own[row["id"]].shown(),
        "tree": tree.shown(),
        "warned": is_warned(row["budget"], row["spent"]),
    }


def _elsewhere(lifecycles: TaskLifecycles, row: Row) -> schemas.Elsewhere:
    lifecycle = lifecycles[row["lifecycle"]]
    view = seen(lifecycle, row["state"], row["blocked_by"], row["retries_left"])
    return {"other": view.other, "mcp": view.mcp.value, "a2a": view.a2a.value}


# ---- the cost report -------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/costs")
def task_costs(core: Core, caller: Caller, *, task_id: str) -> schemas.Costs:
    """Show the cost of a task: each run, each task of its tree, and the remaining budget."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        pairs = list(view.children([task_id]))
        ids = [task_id, *_below(pairs, [task_id])[task_id]]
        rows = {row["id"]: row for row in view.page(Query("tasks", {"id": ids}, limit=len(ids)))}
        found = trees(view, list(rows.values()))
        rest = remaining(with_ancestors(view, task))
        runs = _runs(view, rows)
    return {
        "id": task_id,
        "budget": views.shown({"budget": task.budget})["budget"],
        "left": views.shown({"left": rest})["left"],
        "warned": is_warned(task.budget, task.spent),
        "own": found.own[task_id].shown(),
        "tree": found.tree(task_id)._replace(cost=task.spent).shown(),
        "tasks": [
            cast(schemas.TaskCost, {**_money(rows[each]), **found.tree(each).shown()})
            for each in ids
            if each in rows
        ],
        "runs": runs,
    }


def _money(row: Row) -> dict[str, Any]:
    names = ("id", "parent_id", "intent", "state", "budget")
    return views.shown({name: row[name] for name in names})


def _runs(view: ReadTransaction, rows: Mapping[str, Row]) -> list[schemas.RunCost]:
    jobs = [each for name, row in rows.items() for each in jobs_of_task(name, row["jobs"])]
    names = (
        *("id", "job_id", "state", "outcome", "started_at", "ended_at"),
        *("cost", "tokens_in", "tokens_out"),
    )
    found = []
    for start in range(0, len(jobs), SLICE):
        query = Query("runs", {"job_id": jobs[start : start + SLICE]}, "queued_at", limit=MAX_RUNS)
        found += [{name: run[name] for name in names} for run in view.page(query)]
    return [cast(schemas.RunCost, views.shown(run)) for run in found]
