"""Checks of events: their names, and whether a person, a rule or a timer sends them. Pure."""

from collections.abc import Iterator

from detent.kernel import events as e
from detent.kernel.lifecycle import Row
from detent.kernel.lifecycle_lint.flaw import Flaw, placed_rows
from detent.kernel.outcome_rules import EVENTS
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import TaskLifecycle

#: The events that commands and couplings of detent write, whatever the rules are.
WRITTEN = TASK_EVENTS - {
    *("task_started", "task_ready", "task_completed", "task_failed"),
    *("task_timed_out", "task_budget_exceeded"),
}


def event_names(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for place, row in placed_rows(lifecycle):
        if row.event in TASK_EVENTS:
            continue
        if not row.event.startswith("task_"):
            text = f"The name of an event begins with task_. Write task_{row.event}."
            yield Flaw("event-name", f"{place}.event", text)
        elif row.event in e.EVENTS:
            text = f"{row.event} is an event of detent that moves no task. Choose another name."
            yield Flaw("event-name", f"{place}.event", text)


def events_without_sender(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """Each row can happen: detent writes its event, or a rule, a timer or a person sends it."""
    for place, row in placed_rows(lifecycle):
        if row.event in WRITTEN or _is_sent(lifecycle, row):
            continue
        own = row.event not in TASK_EVENTS
        or_person = ", or name a person in `who`" if own else ""
        text = (
            f"No one sends {row.event} from {row.source}: no rule emits it there, and no timer "
            f"sends it. Add a rule{or_person}, or remove the row."
        )
        yield Flaw("no-sender", f"{place}.who", text)


def _is_sent(lifecycle: TaskLifecycle, row: Row) -> bool:
    if row.event not in TASK_EVENTS and row.people:
        return True
    if any(timer.state == row.source and timer.event == row.event for timer in lifecycle.timers):
        return True
    for rule in lifecycle.rules:
        for position, event in enumerate(rule.then):
            # After its first event a rule is in another state than those that it names.
            if event == row.event and (position or not rule.states or row.source in rule.states):
                return True
    return False


def named_senders(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """Only own events have senders by name: the commands that write the others do not check it."""
    for place, row in placed_rows(lifecycle):
        named = [each for each in row.people if each != "person"]
        if row.event in TASK_EVENTS and named:
            text = (
                f"{', '.join(named)} has no effect here: everyone whose token or role allows the "
                f"command may send {row.event}. Write person, or use an own event."
            )
            yield Flaw("named-sender", f"{place}.who", text)


def emitted_events(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """Rules and timers send only what they can make."""
    for index, rule in enumerate(lifecycle.rules):
        for event in rule.then:
            if event in TASK_EVENTS and event not in EVENTS:
                text = f"A rule cannot emit {event}. It emits an own event, or {', '.join(EVENTS)}."
                yield Flaw("rule-event", f"rules[{index}].then", text)
            elif event not in lifecycle.targets:
                text = f"No row has the event {event}. Add a row, or correct the name."
                yield Flaw("rule-event", f"rules[{index}].then", text)
    for index, timer in enumerate(lifecycle.timers):
        if timer.event in TASK_EVENTS and timer.event != e.TaskCancelled.name:
            text = (
                f"A timer cannot send {timer.event}. It sends task_cancelled, or an event that "
                "only this document has."
            )
            yield Flaw("timer-event", f"timers[{index}].event", text)


CHECKS = (event_names, events_without_sender, named_senders, emitted_events)
