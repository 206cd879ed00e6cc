"""Checks with TLC that the logged events of real tasks are steps of the TLA+ model."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from detent.lifecycle_tla.checker import run
from verification.lifecycle_model.projection import ModelState, Variables
from verification.lifecycle_model.related_tasks import TASK
from verification.lifecycle_model.task_traces import Refused, Trace, Traces
from verification.lifecycle_model.trace_module import trace_module

STATE = re.compile(r"^State \d+: .*?(?=^$)", re.M | re.S)
VALUE = re.compile(r"^/\\ (trace|place) = (\d+)$", re.M)
NONE_REACHED = "reached = {}"
LIMIT_S = 600


class Offence(NamedTuple):
    """What one transaction did to a task, which the model does not allow."""

    task: str
    events: tuple[str, ...]
    before: ModelState
    after: ModelState

    def __str__(self) -> str:
        was, now = (_shown(each) for each in (self.before, self.after))
        return f"task {self.task}: {', '.join(self.events)}: from {was} to {now}"


@dataclass(slots=True)
class Checked:
    """How much was checked, and what is wrong."""

    tasks: int = 0
    steps: int = 0
    left_out: int = 0
    offences: list[Offence] = field(default_factory=list)

    def counts(self) -> Counter[str]:
        return Counter(
            {
                "tasks in the model": self.tasks,
                "steps of the model": self.steps,
                "tasks left out of the model": self.left_out,
            }
        )

    def line(self) -> str:
        return (
            f"{self.tasks} tasks, {self.steps} steps of the model, {self.left_out} tasks left out, "
            f"{len(self.offences)} offences"
        )


def check(logs: Iterable[Traces]) -> Checked:
    """Check the traces of logs, all in one run of TLC."""
    given = [*logs]
    traces = [each for log in given for each in log.traces if each.events]
    followed = {name for each in traces for name in each.tasks.values()}
    return Checked(
        tasks=len(followed),
        steps=sum(len(each.ends) for each in traces),
        left_out=sum(log.left_out for log in given),
        offences=[
            *(_outside(each) for log in given for each in log.refused),
            *(_followed_by_tlc(traces) if traces else ()),
        ],
    )


def _outside(refused: Refused) -> Offence:
    """The event that no table has; TLC is not needed to find it."""
    state = Variables(refused.state)
    after = state._replace(outside=refused.event)
    return Offence(refused.stream, (refused.event,), ((TASK, state),), ((TASK, after),))


def _followed_by_tlc(traces: list[Trace]) -> Iterator[Offence]:
    module = trace_module(traces)
    found = run(module.model(), find_all=True, limit_s=LIMIT_S)
    if found.violated is None:
        return
    for block in STATE.findall(found.printed):
        if NONE_REACHED in block:
            values = dict(VALUE.findall(block))
            same = next(islice(module.traces.values(), int(values["trace"]) - 1, None))
            yield from (_offence(each, int(values["place"]) - 1) for each in same)


def _offence(trace: Trace, place: int) -> Offence:
    """The transaction that ends at this place."""
    begun = max((each for each in trace.ends if each < place), default=0)
    before, after = trace.states[begun], trace.states[place]
    return Offence(trace.tasks[TASK], tuple(trace.events[begun:place]), before, after)


def _shown(state: ModelState) -> str:
    return "; ".join(f"{name} {each.state} (job {each.job})" for name, each in state)
