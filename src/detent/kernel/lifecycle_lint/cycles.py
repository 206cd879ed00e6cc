"""Checks for cycles that nothing ends: of rules and timers alone, or of people alone. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from detent.kernel.lifecycle import Row, closure
from detent.kernel.lifecycle_lint.flaw import Flaw, placed_rows
from detent.kernel.lifecycle_lint.outcome import applies_in, state_after
from detent.kernel.lifecycle_lint.phases import COMMANDED
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Predicate, Rule, TaskLifecycle


class Edge(NamedTuple):
    source: str
    target: str
    field: str
    #: It may be one of a cycle without end: it creates a job, or a timer causes it.
    repeats: bool


def endless_cycles(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """No cycle of rules and timers goes on without end: a person or a limit interrupts it."""
    edges = [*_rule_edges(lifecycle), *_timer_edges(lifecycle)]
    for edge in _in_cycles(edges):
        if edge.repeats:
            text = (
                f"From {edge.target} rules and timers lead back to {edge.source}, and no person "
                "and no limit ends this. Add rounds_are_left to the rule and a limit in `rounds`, "
                "or a state that waits for a person."
            )
            yield Flaw("endless-cycle", edge.field, text)


def _rule_edges(lifecycle: TaskLifecycle) -> Iterator[Edge]:
    for index, rule in enumerate(lifecycle.rules):
        if _is_limited(lifecycle, rule) or Predicate.IS_ACCEPTANCE in rule.given:
            continue  # each acceptance was sent by a person
        queues = any(event in lifecycle.queues for event in rule.then)
        for state in applies_in(lifecycle, index):
            after = state_after(lifecycle, rule, state)
            if after is not None and rule.then:
                yield Edge(state, after, f"rules[{index}].then", queues)


def _is_limited(lifecycle: TaskLifecycle, rule: Rule) -> bool:
    """Whether the rule is followed a limited number of times: it counts rounds up to a limit."""
    counts = set(lifecycle.rounds.events).intersection(rule.then)
    limit = lifecycle.rounds.limit is not None
    return limit and bool(counts) and Predicate.ROUNDS_ARE_LEFT in rule.given


def _timer_edges(lifecycle: TaskLifecycle) -> Iterator[Edge]:
    for index, timer in enumerate(lifecycle.timers):
        after = lifecycle.move.get((timer.state, timer.event))
        if after is not None:
            yield Edge(timer.state, after, f"timers[{index}].event", True)


def people_loops(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """People cannot send a task round in circles: something else, or a limit, interrupts it."""
    edges = [
        Edge(row.source, row.target, f"{place}.to", True)
        for place, row in placed_rows(lifecycle)
        if row.source is not None and _is_sent_by_people(row) and not _counts(lifecycle, row)
    ]
    for edge in _in_cycles(edges):
        text = (
            f"People can send a task from {edge.source} to {edge.target} and back without end. "
            "Count one of the events in `rounds.events` with a limit, or remove one of the rows."
        )
        yield Flaw("people-loop", edge.field, text)


def _is_sent_by_people(row: Row) -> bool:
    return row.event in COMMANDED or (row.event not in TASK_EVENTS and bool(row.people))


def _counts(lifecycle: TaskLifecycle, row: Row) -> bool:
    return lifecycle.rounds.limit is not None and row.event in lifecycle.rounds.events


def _in_cycles(edges: Iterable[Edge]) -> Iterator[Edge]:
    """The edges that are a part of a cycle."""
    listed = list(edges)
    forward: dict[str | None, set[str | None]] = {}
    for edge in listed:
        forward.setdefault(edge.source, set()).add(edge.target)
    reached: Mapping[str, set[str | None]] = {
        edge.target: closure({edge.target}, forward) for edge in listed
    }
    yield from (edge for edge in listed if edge.source in reached[edge.target])


CHECKS = (endless_cycles, people_loops)
