"""Checks of timers and of limits of rounds. Pure."""

from collections.abc import Iterator

from detent.kernel import events as e
from detent.kernel.lifecycle_lint.flaw import Flaw
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Predicate, TaskLifecycle


def timers(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    known: dict[tuple[str, int], int] = {}
    for index, timer in enumerate(lifecycle.timers):
        if (timer.state, timer.event) not in lifecycle.move:
            text = f"{timer.event} has no row from {timer.state}. Add one, or correct the timer."
            yield Flaw("timer-row", f"timers[{index}].event", text)
        first = known.setdefault((timer.state, timer.after_us), index)
        if first != index:
            text = (
                f"timers[{first}] of {timer.state} has the same time, so this one is never "
                "followed. Remove one of the two."
            )
            yield Flaw("timer-twice", f"timers[{index}].after", text)


def counted_events(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """A limit of rounds limits something, and every sender of a counted event respects it."""
    rounds = lifecycle.rounds
    if rounds.limit is not None and not rounds.events:
        text = "Nothing counts a round. Name the events that do in `rounds.events`."
        yield Flaw("rounds-uncounted", "rounds.limit", text)
    for event in rounds.events:
        if event in TASK_EVENTS and event != e.TaskRejected.name:
            text = f"{event} counts no round. Use task_rejected or an own event."
            yield Flaw("rounds-uncounted", "rounds.events", text)
        elif event not in lifecycle.targets:
            text = f"No row has the event {event}. Add one, or remove it."
            yield Flaw("rounds-uncounted", "rounds.events", text)
    counted = {*rounds.events, e.TaskRejected.name}
    for index, timer in enumerate(lifecycle.timers):
        if timer.event in counted:
            text = f"{timer.event} counts a round, and a timer ignores the limit. Use another."
            yield Flaw("rounds-sender", f"timers[{index}].event", text)
    for index, rule in enumerate(lifecycle.rules):
        if counted.intersection(rule.then) and Predicate.ROUNDS_ARE_LEFT not in rule.given:
            text = "It emits an event that counts a round. Add rounds_are_left to its `if`."
            yield Flaw("rounds-sender", f"rules[{index}].if", text)


CHECKS = (timers, counted_events)
