"""Explores every state that a few tasks can reach, on the real engine and the memory store.

Published tables of the memory store never change, so a state is saved by keeping its tables, and
restored by putting them back. Two states are equal if their rows differ only in times, numbers of
attempts and ids of jobs.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import ENDED_JOB
from detent.operations.actions import is_spent
from detent.store.memory.tables import Tables
from tests.operations.operations_client import WORKER, OperationsClient

HOUR_S = 3_600
#: Failures are final, except those of the network, which are retried once.
ONCE = {"retry": {"retries": 0, "classes": {"network": {"retries": 1}, "timeout": {"retries": 0}}}}


class SavedState(NamedTuple):
    """A state: the tables, and the time."""

    tables: Tables
    now: int


class Action(NamedTuple):
    """An action that a person or a worker may try; it may be refused."""

    name: str
    do: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Cast:
    """The tasks that are submitted at the beginning, and what may happen to them."""

    name: str
    begin: Callable[[OperationsClient, str], None]
    #: By prefix of the task's id, what its run may report.
    reports: Callable[[str], Sequence[str]]
    verbs: Sequence[str] = ("cancel", "retry")
    #: The subtask that a run of a task may create.
    children: dict[str, str] = field(default_factory=dict)
    #: The steps of its plan, of which the last needs the resource `phone`.
    steps: Sequence[str] = ()


class Explorer:
    """Visits the states of one cast in breadth-first order."""

    def __init__(self, cast: Cast, lifecycle: str) -> None:
        self.cast, self.lifecycle = cast, lifecycle
        self.client = OperationsClient()
        self.cast.begin(self.client, lifecycle)

    # -- states ----------------------------------------------------------------------------

    @property
    def database(self) -> Any:
        return self.client.core.store._database  # type: ignore[attr-defined]

    def save(self) -> SavedState:
        return SavedState(self.database.tables, self.client.clock.now)

    def restore(self, state: SavedState) -> None:
        self.database.tables = state.tables
        self.client.clock.set(state.now)

    def tasks(self) -> list[Task]:
        return [row.task for row in self.database.tables.tasks.values()]

    def job(self, task: Task) -> Job | None:
        return None if task.job_id is None else self.database.tables.jobs[task.job_id].job

    def states(self, most: int) -> Iterator[SavedState]:
        """All states, at most `most`. The explorer is in the state that it yields."""
        first = self.save()
        seen = {self.key()}
        level = [first]
        while level and len(seen) < most:
            below = []
            for state in level:
                self.restore(state)
                yield state
                below += [each for each in self._next(state) if self._is_new(each, seen)]
            level = below
        for state in level:
            self.restore(state)
            yield state

    def _next(self, state: SavedState) -> Iterator[SavedState]:
        self.restore(state)
        for action in list(self.actions()):
            self.restore(state)
            if attempted(action) is None and self.database.tables is not state.tables:
                yield self.save()

    def _is_new(self, state: SavedState, seen: set[Any]) -> bool:
        self.restore(state)
        key = self.key()
        new = key not in seen
        seen.add(key)
        return new

    def key(self) -> Any:
        """The key that identifies a state."""
        tables = self.database.tables
        rows = []
        for task in self.tasks():
            job = self.job(task)
            waits = sorted(
                (wait.kind, wait.missing) for wait in tables.waits.values() if self._of(wait, task)
            )
            steps = sorted(
                (step.name, step.state, step.resource)
                for step in tables.steps.values()
                if self._of(step, task) and job and step.plan_version == job.plan_version
            )
            rows.append((*_of_task(task), _of_job(job), tuple(waits), tuple(steps)))
        healthy = sorted((k, v.get("healthy")) for k, v in tables.named["resources"].items())
        return (tuple(rows), tuple(healthy))

    @staticmethod
    def _of(part: Any, task: Task) -> bool:
        return bool(part.job_id == task.job_id)

    # -- actions -----------------------------------------------------------------------------

    def actions(self) -> Iterator[Action]:
        yield Action("later", lambda: self.client.later(HOUR_S))
        for task in self.tasks():
            yield from self._of_people(task)
            job = self.job(task)
            if job is None:
                continue
            if job.state in ("queued", "retrying"):
                claim = c.ClaimJob(job.id, "by-hand", f"nonce {job.fence + 1}")
                yield Action(f"claim {task.id}", self._reported(claim))
            elif job.state == "running":
                yield from self._of_worker(task, job)
        if self.cast.steps:
            for healthy in (True, False):
                yield Action("resource", self._set_resource(healthy))

    def _of_people(self, task: Task) -> Iterator[Action]:
        for verb in self.cast.verbs:
            yield Action(f"{verb} {task.id}", lambda verb=verb: act(self.client, verb, task))  # type: ignore[misc]

    def _of_worker(self, task: Task, job: Job) -> Iterator[Action]:
        grant = c.Grant(job.id, job.fence, job.nonce or "")
        child = self.cast.children.get(task.id)
        known = {each.id for each in self.tasks()}
        if child is not None and child not in known:
            yield Action(f"make {child}", lambda: self._make(child, task.id))
        runs = [
            run
            for run in self.database.tables.runs.values()
            if run.job_id == job.id and run.state == "running"
        ]
        if not runs:
            for step in self.cast.steps:
                yield Action(f"start {step}", self._reported(c.StartStep(grant, step)))
            yield Action("rest", self._reported(c.RestPlan(grant)))
        for run in runs:
            for name in self.cast.reports(task.id):
                yield Action(
                    f"{name} {task.id}", self._reported(*self._reports(name, grant, run.id))
                )

    def _make(self, child: str, parent: str) -> None:
        options = {"options": ONCE, "lifecycle": self.lifecycle}
        self.client.submit(id=child, parent_id=parent, **options)

    def _reports(self, name: str, grant: c.Grant, run_id: str) -> Iterator[c.Command]:
        kind, _, what = name.partition(" ")
        if kind == "fail":
            reset = self.client.clock.now + 60_000_000 if what == "rate_limit" else None
            yield c.FailRun(grant, run_id, what, "it broke", 1, reset)
        elif kind == "wait":
            yield c.SuspendRun(grant, run_id, f"{what} {grant.fence}", what, detail={"text": "?"})
        elif kind == "spend":
            yield c.ChargeRun(grant, run_id, 2_000_000)
            yield c.SuspendRun(grant, run_id, f"{kind} {grant.fence}", "budget")
        elif kind == "gather":
            needs = tuple(f"task:{each}" for each in self.cast.children.values())
            wait = f"gather {grant.fence}"
            yield c.SuspendRun(grant, run_id, wait, "subtasks", needs, detail={"outcomes": True})
        else:
            yield (
                c.CompleteRun(grant, run_id) if kind == "complete" else c.TimeOutRun(grant, run_id)
            )

    def _reported(self, *reports: c.Command) -> Callable[[], Any]:
        return lambda: [self.client.core.engine.do(each, WORKER) for each in reports]

    def _set_resource(self, healthy: bool) -> Callable[[], Any]:
        return lambda: self.client.call("put_resource", name="phone", healthy=healthy)


def _of_task(task: Task) -> tuple[Any, ...]:
    return (
        *(task.id, task.state, task.blocked_by, task.retries_left, task.open_subtasks),
        *(task.failed_subtask, task.settled, task.open_dependencies, task.failed_dependency),
        *(
            is_spent(task),
            task.cancel_reason,
            task.blocked_detail.get("failed"),
            task.answered is None,
        ),
    )


def _of_job(job: Job | None) -> tuple[Any, ...]:
    if job is None or job.state in ENDED_JOB:
        return () if job is None else (job.state, job.error_class)
    return (job.state, job.cancel_reason, tuple(sorted(job.failures.items())))


def act(client: OperationsClient, verb: str, task: Task) -> Any:
    """Carry out an action as a person would."""
    fields: dict[str, Any] = {}
    if verb == "answer":
        options = task.blocked_detail.get("options") or ["yes"]
        fields = {"answer": options[0]}
    if verb == "choose":
        number = (task.blocked_detail.get("options") or ["1"])[0]
        return client.call("choose_variant", task_id=task.id, variant=number)
    if verb == "raise":
        dollars = max(task.spent, task.budget or 0) / 1_000_000 + 1
        return client.call("edit_task", task_id=task.id, max_budget_usd=dollars)
    return client.call(f"{verb}_task", task_id=task.id, **fields)


def attempted(action: Action) -> DetentError | None:
    try:
        action.do()
    except DetentError as error:
        return error
    return None
