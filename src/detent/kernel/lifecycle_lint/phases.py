"""Checks that the phases of states fit the events that lead to them and away from them. Pure."""

from collections.abc import Iterator, Mapping

from detent.kernel.lifecycle_lint.flaw import Flaw, placed_rows
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Phase, TaskLifecycle

#: The phase of the state that an event of detent leads to; all others lead to an idle one.
PHASES: Mapping[str, Phase] = {
    "task_queued": Phase.QUEUED,
    "task_started": Phase.WORKING,
    "task_blocked": Phase.BLOCKED,
    "task_unblocked": Phase.QUEUED,
    "task_answered": Phase.QUEUED,
    "task_retried": Phase.QUEUED,
    "task_resumed": Phase.QUEUED,
    "task_accepting": Phase.QUEUED,
}
#: The events that people send by a command, for which no job may be live.
COMMANDED = (
    *("task_queued", "task_accepting", "task_accepted", "task_rejected", "task_retried"),
    "task_resumed",
)
#: The events that detent writes to a task in a phase, so that a state needs rows for them.
NEEDED: Mapping[Phase, tuple[str, ...]] = {
    Phase.WORKING: ("task_blocked",),
    Phase.BLOCKED: ("task_unblocked",),
}


def target_phases(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for place, row in placed_rows(lifecycle):
        wanted = PHASES.get(row.event, Phase.IDLE)
        if row.event in lifecycle.queues and row.event not in TASK_EVENTS:
            wanted = Phase.QUEUED
        found = lifecycle.phase(row.target)
        if found is not wanted:
            text = (
                f"{row.event} leads to {row.target}, which has the phase {found}; it must lead to "
                f"a state with the phase {wanted}."
            )
            if wanted is Phase.IDLE and found is Phase.QUEUED:
                text += " An own event that creates a job belongs in `queues`."
            yield Flaw("phase", f"{place}.to", text)


def queueing_events(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for event in lifecycle.queues:
        if event in TASK_EVENTS and event != "task_queued":
            text = f"{event} does not create a job. Use task_queued or an own event."
            yield Flaw("queues", "queues", text)
        elif event not in lifecycle.targets and event not in TASK_EVENTS:
            yield Flaw("queues", "queues", f"No row has the event {event}. Add one, or remove it.")


def senders_of_live_states(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """People and timers move a task only while no job is live: the job would stay live."""
    for place, row in placed_rows(lifecycle):
        if row.source is None or lifecycle.phase(row.source) is Phase.IDLE:
            continue
        if row.event in COMMANDED or (row.event not in TASK_EVENTS and row.people):
            text = (
                f"A job can be live in {row.source}, so no person can send {row.event} there. "
                "Let a rule emit an own event, or move the row to an idle state."
            )
            yield Flaw("live-sender", f"{place}.from", text)
    for index, timer in enumerate(lifecycle.timers):
        if lifecycle.phase(timer.state) is not Phase.IDLE and timer.event not in TASK_EVENTS:
            text = (
                f"A job can be live in {timer.state}, so a timer there can only send "
                "task_cancelled."
            )
            yield Flaw("live-sender", f"timers[{index}].in", text)


def needed_rows(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for state in lifecycle.states:
        for event in NEEDED.get(state.phase, ()):
            if (state.name, event) not in lifecycle.move:
                text = (
                    f"A task in {state.name} ({state.phase}) can receive {event} at any time. "
                    f"Add a row for it from {state.name}."
                )
                yield Flaw("needed-row", f"states.{state.name}", text)


def cancels(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """A task that has not ended can be cancelled, and a cancel is an end."""
    for state in lifecycle.states:
        live = state.ending is None and state.name not in lifecycle.terminal
        if live and (state.name, "task_cancelled") not in lifecycle.move:
            text = f"A task in {state.name} cannot be cancelled. Add a row task_cancelled."
            yield Flaw("no-cancel", f"states.{state.name}", text)
    for place, row in placed_rows(lifecycle):
        if row.event == "task_cancelled" and lifecycle.by_state[row.target].ending is None:
            text = f"A cancel ends the work, so {row.target} needs a `retention`."
            yield Flaw("cancel-end", f"{place}.to", text)


CHECKS = (target_phases, queueing_events, senders_of_live_states, needed_rows, cancels)
