"""Checks of the table: unknown states, ambiguous rows, states without a way in or out. Pure."""

from collections.abc import Iterator

from detent.kernel.lifecycle import closure
from detent.kernel.lifecycle_lint.flaw import Flaw, placed_rows
from detent.kernel.retention import Ending
from detent.kernel.task_lifecycle import Phase, TaskLifecycle

CREATED = "task_created"


def unknown_states(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for field, name in _named_states(lifecycle):
        if name not in lifecycle.by_state:
            text = f"There is no state {name}. Declare it as [states.{name}], or correct the name."
            yield Flaw("unknown-state", field, text)


def _named_states(lifecycle: TaskLifecycle) -> Iterator[tuple[str, str]]:
    yield "initial", lifecycle.initial
    for place, row in placed_rows(lifecycle):
        if row.source is not None:
            yield f"{place}.from", row.source
        yield f"{place}.to", row.target
    for index, rule in enumerate(lifecycle.rules):
        for name in rule.states:
            yield f"rules[{index}].in", name
    for index, timer in enumerate(lifecycle.timers):
        yield f"timers[{index}].in", timer.state
    for old, new in lifecycle.migrations.items():
        yield f"migrate.{old}", new


def ambiguous_rows(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    first: dict[tuple[str | None, str], str] = {}
    for place, row in placed_rows(lifecycle):
        key = (row.source, row.event)
        if key in first:
            text = (
                f"{row.event} from {row.source or 'creation'} has a row already: {first[key]}. "
                "Remove one of the two."
            )
            yield Flaw("ambiguous-row", f"{place}.event", text)
        first.setdefault(key, place)


def creation(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """One row without a source creates the task in its initial state."""
    if all(row.source is not None for row in lifecycle.rows):
        text = f"No row creates a task. Add one without `from`: {CREATED} to {lifecycle.initial}."
        yield Flaw("creation", "rows", text)
    for place, row in placed_rows(lifecycle):
        if row.source is None and (row.event, row.target) != (CREATED, lifecycle.initial):
            text = (
                f"A row without `from` creates the task: by {CREATED}, in the initial state "
                f"{lifecycle.initial}."
            )
            yield Flaw("creation", place, text)
        if row.source is not None and row.event == CREATED:
            text = f"{CREATED} creates a task. Remove `from`, or use another event."
            yield Flaw("creation", f"{place}.event", text)


def unreachable_states(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    forward: dict[str | None, set[str | None]] = {}
    for row in lifecycle.rows:
        forward.setdefault(row.source, set()).add(row.target)
    reached = closure({None}, forward)
    for name in lifecycle.state_names:
        if name not in reached:
            text = f"The state {name} cannot be reached. Add a row that leads to it, or remove it."
            yield Flaw("unreachable-state", f"states.{name}", text)


def dead_states(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    left = {row.source for row in lifecycle.rows}
    for name in lifecycle.state_names:
        if name not in left and name not in lifecycle.terminal:
            text = f"No row leads out of {name}. Add one, or make it terminal."
            yield Flaw("dead-state", f"states.{name}", text)


def states_without_end(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """From every state a terminal one can be reached without a cancel."""
    if not lifecycle.terminal:
        yield Flaw("no-end", "states", "No state is terminal. Give one `terminal = true`.")
        return
    backward: dict[str | None, set[str | None]] = {}
    left = set()
    for row in lifecycle.rows:
        left.add(row.source)
        if row.event != "task_cancelled":
            backward.setdefault(row.target, set()).add(row.source)
    can_end = closure(lifecycle.terminal, backward)
    for name in lifecycle.state_names:
        if name in left and name not in can_end:
            text = f"From {name} no terminal state can be reached but by a cancel. Add a way out."
            yield Flaw("no-end", f"states.{name}", text)


def terminal_states(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    for state in lifecycle.states:
        field = f"states.{state.name}"
        terminal = state.name in lifecycle.terminal
        if terminal and state.ending is None:
            text = f"{state.name} is terminal and has no `retention`: done, failed or cancelled."
            yield Flaw("terminal-retention", field, text)
        if state.ending is Ending.DONE and not terminal:
            text = (
                f"{state.name} has the retention done and is not terminal, so its task could be "
                "done twice. Add `terminal = true`."
            )
            yield Flaw("done-terminal", field, text)
        if (terminal or state.ending is not None) and state.phase is not Phase.IDLE:
            text = (
                f"In {state.name} the work has ended, so no job can be {state.phase}. Remove "
                "`phase`, or `terminal` and `retention`."
            )
            yield Flaw("terminal-phase", f"{field}.phase", text)
        if terminal and state.waits_for_person:
            text = f"{state.name} is terminal, so it cannot wait for a person."
            yield Flaw("terminal-waits", f"{field}.waits_for_person", text)
    for place, row in placed_rows(lifecycle):
        if row.source in lifecycle.terminal:
            text = f"{row.source} is terminal and cannot be left. Remove the row or `terminal`."
            yield Flaw("terminal-left", f"{place}.from", text)


NAMES = (unknown_states,)
CHECKS = (
    ambiguous_rows,
    creation,
    unreachable_states,
    dead_states,
    states_without_end,
    terminal_states,
)
