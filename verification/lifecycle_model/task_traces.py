"""Reads traces from event logs: the states of a task in the variables of the model, step by step.

The log is folded event by event. Counts of retries and rounds are left out, since every task may
have limits of its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from detent.errors import DetentError
from detent.kernel import events as e
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.world import World
from detent.store.codec import read_event
from detent.store.types import LoggedEvent
from detent.task_lifecycles import SHIPPED
from verification.lifecycle_model.projection import (
    ABSENT,
    ModelState,
    Variables,
    model_state,
    project,
)
from verification.lifecycle_model.related_tasks import SUBTASK, TASK, Related, relations_of


@dataclass(slots=True)
class Trace:
    """What happened to related tasks: the state after each event that changed it.

    `events` led to the states after the first. A transaction may consist of several steps of the
    model, so only its last state must be one of the model: `ends` has the places of these.
    """

    lifecycle: TaskLifecycle
    tasks: Related
    states: list[ModelState]
    events: list[str] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)

    def add(self, event: str, state: ModelState) -> None:
        if state != self.states[-1]:
            self.events.append(event)
            self.states.append(state)

    def end_transaction(self) -> None:
        last = len(self.states) - 1
        if last > (self.ends[-1] if self.ends else 0):
            self.ends.append(last)


class Refused(NamedTuple):
    """An event of a log that the table of its lifecycle does not have."""

    stream: str
    event: str
    state: str


@dataclass(slots=True)
class Traces:
    """The traces of one log, the tasks that no trace follows, and events that no table has."""

    traces: list[Trace] = field(default_factory=list)
    left_out: int = 0
    refused: list[Refused] = field(default_factory=list)


def records_of(log: Iterable[LoggedEvent]) -> list[e.Record]:
    """The events of a log as the kernel has them."""
    return [
        e.Record(
            each.stream,
            each.subject,
            read_event(each.name, each.schema, each.data),
            each.at,
            each.actor,
        )
        for each in log
    ]


def traces_of(records: Sequence[e.Record]) -> Traces:
    """Read the traces of a log; the records of a transaction have the same time."""
    return _Reader(records).read()


class _Reader:
    """Folds one log."""

    def __init__(self, records: Sequence[e.Record]) -> None:
        self.records = records
        self.world = World(lifecycles=SHIPPED)
        self.found = Traces()
        relations = relations_of(records)
        self.unbegun: dict[str, list[Related]] = {}
        for related in relations.followed():
            for name in related.values():
                self.unbegun.setdefault(name, []).append(related)
        self.found.left_out = len(relations.created.keys() - self.unbegun.keys())
        self.by_task: dict[str, list[Trace]] = {}

    def read(self) -> Traces:
        for _, group in groupby(self.records, attrgetter("at")):
            touched: dict[int, Trace] = {}
            for record in group:
                for trace in self._traces_after(record):
                    trace.add(record.event.name, self._state(trace))
                    touched[id(trace)] = trace
            for trace in touched.values():
                trace.end_transaction()
        return self.found

    def _traces_after(self, record: e.Record) -> Sequence[Trace]:
        """Apply a record; return the traces of the task that it is about, or of its job."""
        try:
            self.world.apply(record)
        except DetentError:  # the table of its lifecycle does not have it
            task = self.world.tasks.get(record.stream)
            state = "" if task is None else task.state
            self.found.refused.append(Refused(record.stream, record.event.name, state))
            return ()
        if isinstance(record.event, e.TaskCreated):
            self._begin(record.stream, self.world.lifecycle_of(record.event.lifecycle))
        job = self.world.jobs.get(record.stream)
        task_id = record.stream if job is None else job.task_id
        return self.by_task.get(task_id or "", ())

    def _begin(self, created: str, lifecycle: TaskLifecycle) -> None:
        """Begin the traces of this task, unless one of the related tasks began them."""
        for related in self.unbegun.pop(created, ()):
            first = {name: _unsubmitted(lifecycle, name) for name in related}
            trace = Trace(lifecycle, related, [model_state(first)])
            self.found.traces.append(trace)
            for each in related.values():
                self.by_task.setdefault(each, []).append(trace)
                if each != created:
                    self.unbegun[each].remove(related)

    def _state(self, trace: Trace) -> ModelState:
        return model_state({name: self._variables(trace, name) for name in trace.tasks})

    def _variables(self, trace: Trace, name: str) -> Variables:
        task = self.world.tasks.get(trace.tasks[name])
        if task is None:
            return _unsubmitted(trace.lifecycle, name)
        job = None if task.job_id is None else self.world.jobs.get(task.job_id)
        settled = name == SUBTASK and task.id in self.world.tasks[trace.tasks[TASK]].settled
        return _uncounted(project(trace.lifecycle, task, job, settled))


def _unsubmitted(lifecycle: TaskLifecycle, name: str) -> Variables:
    """In the model only a subtask is submitted later; the others are there from the beginning."""
    return ABSENT if name == SUBTASK else Variables(lifecycle.initial)


def _uncounted(given: Variables) -> Variables:
    return given._replace(rounds=0, errors=0, timeouts=0, lost=0)
