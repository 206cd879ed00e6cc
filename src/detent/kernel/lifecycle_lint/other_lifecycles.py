"""Checks of a lifecycle against others: versions before it, shared names, defaults. Pure."""

from collections.abc import Iterator

from detent.kernel.lifecycle_lint.flaw import Flaw
from detent.kernel.task_lifecycle import TaskLifecycle, TaskLifecycles, TaskState, newest


def conflicts(lifecycle: TaskLifecycle, others: TaskLifecycles) -> list[Flaw]:
    """Return what does not fit the lifecycles that are installed."""
    checks = (_state_conflicts, _default_conflicts, _counterpart_conflicts, _stranded_states)
    return [flaw for check in checks for flaw in check(lifecycle, others)]


def _state_conflicts(lifecycle: TaskLifecycle, others: TaskLifecycles) -> Iterator[Flaw]:
    """A name of a state means the same everywhere: lists and the inbox find tasks by it."""
    for other in others.values():
        for name in sorted(lifecycle.by_state.keys() & other.by_state.keys()):
            if meant(lifecycle.by_state[name]) != meant(other.by_state[name]):
                text = (
                    f"The state {name} of the lifecycle {other.id} has another phase, retention or "
                    "waits_for_person. Give it the same ones here, or another name."
                )
                yield Flaw("state-meaning", f"states.{name}", text)


def meant(state: TaskState) -> tuple[object, ...]:
    """What the state means for queues, retention and the inbox."""
    return (state.phase, state.ending, state.waits_for_person)


def _default_conflicts(lifecycle: TaskLifecycle, others: TaskLifecycles) -> Iterator[Flaw]:
    for other in newest(others).values():
        for entry in lifecycle.default_for:
            if other.name != lifecycle.name and entry in other.default_for and not other.shipped:
                text = f"The lifecycle {other.name} is the default for {entry} already."
                yield Flaw("default", "default_for", text)


def default_entries(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """Entry points may queue a task when they create it."""
    if lifecycle.default_for and (lifecycle.initial, "task_queued") not in lifecycle.move:
        text = (
            f"{', '.join(lifecycle.default_for)} may queue a new task, but task_queued has no row "
            f"from {lifecycle.initial}. Add the row, or remove `default_for`."
        )
        yield Flaw("default", "default_for", text)


# ---- another lifecycle with the same meaning -------------------------------------------------


def counterpart(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """Every state has a counterpart, and no other name has one."""
    given = lifecycle.counterpart
    if given is None:
        return
    for name in lifecycle.state_names:
        if name not in given.states:
            text = f"The state {name} has no counterpart in {given.lifecycle}. Add it."
            yield Flaw("counterpart", "counterpart.states", text)
    for name in given.states:
        if name not in lifecycle.by_state:
            text = f"There is no state {name}. Remove it, or correct the name."
            yield Flaw("counterpart", f"counterpart.states.{name}", text)


def _counterpart_conflicts(lifecycle: TaskLifecycle, others: TaskLifecycles) -> Iterator[Flaw]:
    given = lifecycle.counterpart
    if given is None:
        return
    other = newest(others).get(given.lifecycle)
    if other is None:
        known = ", ".join(newest(others))
        text = f"There is no lifecycle {given.lifecycle}. Known: {known}."
        yield Flaw("counterpart", "counterpart.lifecycle", text)
        return
    for field, pairs in (("states", given.states), ("failed", given.failed)):
        for name, target in pairs.items():
            if target not in other.by_state:
                text = f"The lifecycle {other.name} has no state {target}."
                yield Flaw("counterpart", f"counterpart.{field}.{name}", text)


# ---- versions --------------------------------------------------------------------------------


def _stranded_states(lifecycle: TaskLifecycle, others: TaskLifecycles) -> Iterator[Flaw]:
    """Each state that the version before has and this one has not says where its tasks go.

    A task in a terminal state stays on its version.
    """
    earlier = [
        each
        for each in others.values()
        if each.name == lifecycle.name and each.version < lifecycle.version
    ]
    if not earlier:
        return
    before = max(earlier, key=lambda each: each.version)
    for state in before.states:
        if state.name not in lifecycle.by_state and state.name not in before.terminal:
            yield from _stranded(lifecycle, before, state)
    known = {name for each in earlier for name in each.by_state}
    for name in lifecycle.migrations:
        if name not in known or name in lifecycle.by_state:
            text = f"{name} is not a state that an earlier version has and this one has not."
            yield Flaw("migrate", f"migrate.{name}", f"{text} Remove it.")


def _stranded(lifecycle: TaskLifecycle, before: TaskLifecycle, state: TaskState) -> Iterator[Flaw]:
    target = lifecycle.migrations.get(state.name)
    if target is None:
        text = (
            f"Version {before.version} has the state {state.name} and this one has not: tasks in "
            f"it would be stranded. Name their new state in `migrate.{state.name}`."
        )
        yield Flaw("migrate", "migrate", text)
    elif target in lifecycle.by_state and lifecycle.phase(target) is not state.phase:
        text = (
            f"{state.name} has the phase {state.phase} and {target} has "
            f"{lifecycle.phase(target)}: their jobs could not continue. Name a state with the "
            "same phase."
        )
        yield Flaw("migrate", f"migrate.{state.name}", text)


CHECKS = (default_entries, counterpart)
