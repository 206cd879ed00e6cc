"""The draft of one command: it collects events and applies the couplings of each.

A draft is a world on top of another and changes only itself. If the command is refused, the draft
is dropped and nothing has changed.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.kernel import events as e
from detent.kernel.commands import Actor
from detent.kernel.entities import Job, Run, Task
from detent.kernel.retention import Ending
from detent.kernel.retry import Again
from detent.kernel.task_lifecycle import Phase
from detent.kernel.world import RUNS, World


class Coupling(NamedTuple):
    """One row: after the event `when`, if the predicate `given` holds, call `then`."""

    when: type[e.Event]
    given: Callable[["Draft", e.Record], bool]
    then: Callable[["Draft", e.Record], None]


Couplings = Mapping[type[e.Event], tuple[Coupling, ...]]


class Draft(World):
    """The events and changes of one command."""

    def __init__(self, base: World, couplings: Couplings, now: int, actor: Actor) -> None:
        super().__init__(base)
        self.couplings = couplings
        self.now = now
        self.actor = actor
        self.records: list[e.Record] = []
        #: The next attempt after each failed run, by run id; None if no attempt is left.
        self.retries: dict[str, Again | None] = {}
        #: The value of the command's result.
        self.answer: Any = None

    def emit(self, stream: str, event: e.Event, subject: str | None = None) -> None:
        """Append an event, apply it, and run its couplings.

        All predicates are evaluated before the first coupling runs.
        """
        record = e.Record(stream, subject, event, self.now, self.actor.name)
        self.apply(record)
        self.records.append(record)
        rows = self.couplings.get(type(event))
        if rows is not None:
            for row in [row for row in rows if row.given(self, record)]:
                row.then(self, record)

    def phase(self, task: Task) -> Phase:
        return self.lifecycle(task).phase(task.state)

    def ending(self, task: Task) -> Ending | None:
        """Return how the task ended, or None while it is live."""
        return self.lifecycle(task).ending(task.state, task.retries_left)

    def may(self, task: Task, event: type[e.Event]) -> bool:
        """Whether the task's lifecycle allows this event in its current state."""
        return (task.state, event.name) in self.lifecycle(task).move

    def task_of(self, job: Job) -> Task | None:
        """Return the task of a job, if this is the task's current job."""
        task = None if job.task_id is None else self.find_task(job.task_id)
        return task if task is not None and task.job_id == job.id else None

    def job_of(self, task: Task) -> Job | None:
        """Return the task's current job."""
        return None if task.job_id is None else self.job(task.job_id)

    def live_runs(self, job_id: str) -> list[Run]:
        runs = self.parts_of(RUNS, job_id).values()
        return [run for run in runs if run.state in ("queued", "running")]

    def subtasks(self, task_id: str) -> list[Task]:
        """Return its direct subtasks in the order of their creation."""
        found = (self.find_task(child) for child in self.children.get(task_id, ()))
        return [child for child in found if child is not None]

    def tree(self, task: Task) -> Iterator[Task]:
        """Return the task and all its descendants, parents first."""
        yield task
        for child in self.subtasks(task.id):
            yield from self.tree(child)
