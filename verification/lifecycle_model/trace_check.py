"""Checks that the logged events of real tasks are steps of the TLA+ model.

The log is folded event by event, and every task is projected to the variables of the model. What
one transaction did to a task must be a sequence of transitions of the model. Counts of retries and
rounds are left out, since every task may have limits of its own. Tasks with plans, subtasks or
dependencies are left out: the model has one of each at most.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple

from detent.errors import DetentError
from detent.kernel import events as e
from detent.kernel.entities import Task
from detent.kernel.retry import Backoff, FailureClass, RetryRule
from detent.kernel.task_lifecycle import TaskLifecycle, TaskLifecycles
from detent.kernel.world import World
from detent.lifecycle_tla import Bounds
from detent.store.codec import read_event
from detent.store.types import LoggedEvent
from detent.task_lifecycles import SHIPPED
from verification.lifecycle_model.projection import Variables, project
from verification.lifecycle_model.state_graph import Graph, state_graph

#: One retry and one round are enough where counts are left out.
BOUNDS = Bounds(retries=1, lost=1, rounds=1)
Transitions = frozenset[tuple[Variables, Variables]]


class Offence(NamedTuple):
    """What one transaction did to a task, which the model does not allow."""

    task: str
    events: tuple[str, ...]
    before: Variables
    after: Variables


@dataclass(slots=True)
class Checked:
    """How much was checked, and what is wrong."""

    tasks: int = 0
    steps: int = 0
    offences: list[Offence] = field(default_factory=list)


def transitions_of(lifecycle: TaskLifecycle) -> Transitions:
    """The transitions of the model, without counts, for retries with and without a delay."""
    graphs = (state_graph(each, BOUNDS) for each in (lifecycle, _immediate(lifecycle)))
    return frozenset(pair for graph in graphs for pair in _uncounted(graph))


def _immediate(lifecycle: TaskLifecycle) -> TaskLifecycle:
    rules = dict(lifecycle.policy.rules)
    for kind in (FailureClass.ERROR, FailureClass.TIMEOUT):
        rules[kind] = RetryRule(1, Backoff.FIXED, 0, 0)
    return replace(lifecycle, policy=replace(lifecycle.policy, rules=MappingProxyType(rules)))


def _uncounted(graph: Graph) -> Iterator[tuple[Variables, Variables]]:
    for before, after in graph.transitions:
        yield _plain(dict(before)["task"]), _plain(dict(after)["task"])


def _plain(given: Variables) -> Variables:
    return given._replace(rounds=0, errors=0, timeouts=0, lost=0)


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


def check_log(
    records: Sequence[e.Record],
    allowed: Mapping[str, Transitions],
    lifecycles: TaskLifecycles = SHIPPED,
) -> Checked:
    """Check the tasks of a log, by lifecycle; the records of a transaction have the same time."""
    world = World(lifecycles=lifecycles)
    checked = Checked()
    alone = _tasks_alone(records)
    last: dict[str, Variables] = {}
    for _, group in groupby(records, attrgetter("at")):
        seen: dict[str, list[tuple[str, Variables]]] = {}
        for record in group:
            task = _task_after(world, record, checked)
            if task is not None and task.id in alone:
                seen.setdefault(task.id, []).append((record.event.name, _variables(world, task)))
        for task_id, steps in seen.items():
            _check_steps(task_id, steps, last, allowed[world.tasks[task_id].lifecycle], checked)
    checked.tasks = len(last)
    return checked


def _tasks_alone(records: Iterable[e.Record]) -> set[str]:
    """The tasks without plans, subtasks, parents and dependencies."""
    created = {each.stream: each.event for each in records if isinstance(each.event, e.TaskCreated)}
    related = {event.parent_id for event in created.values()}
    related |= {name for event in created.values() for name in event.depends_on}
    return {
        name
        for name, event in created.items()
        if name not in related and not event.parent_id and not event.depends_on
        if not {"plan", "planner"} & event.options.keys()
    }


def _task_after(world: World, record: e.Record, checked: Checked) -> Task | None:
    """Apply a record; return the task that it is about: its own stream, or that of its job."""
    try:
        world.apply(record)
    except DetentError:  # the table of its lifecycle does not have it
        state = Variables(world.tasks[record.stream].state if record.stream in world.tasks else "")
        outside = state._replace(outside=record.event.name)
        checked.offences.append(Offence(record.stream, (record.event.name,), state, outside))
        return None
    if record.stream in world.tasks:
        return world.tasks[record.stream]
    job = world.jobs.get(record.stream)
    return None if job is None or job.task_id is None else world.tasks.get(job.task_id)


def _variables(world: World, task: Task) -> Variables:
    job = None if task.job_id is None else world.jobs.get(task.job_id)
    return _plain(project(world.lifecycle(task), task, job))


def _check_steps(
    task_id: str,
    steps: list[tuple[str, Variables]],
    last: dict[str, Variables],
    allowed: Transitions,
    checked: Checked,
) -> None:
    """Find a sequence of transitions through the states that were seen, up to the last of them."""
    before = last.get(task_id, steps[0][1])
    reached = {before}
    for _, state in steps:
        if any((each, state) in allowed for each in reached):
            reached.add(state)
            checked.steps += 1
    after = last[task_id] = steps[-1][1]
    if after not in reached:
        names = tuple(name for name, _ in steps)
        checked.offences.append(Offence(task_id, names, before, after))
