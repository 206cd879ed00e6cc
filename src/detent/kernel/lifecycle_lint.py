"""Checks of a lifecycle before it is installed: its table, its rules, other lifecycles. Pure."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from detent.kernel.task_lifecycle import TaskLifecycle, TaskLifecycles, TaskState, in_use, newest


class Flaw(NamedTuple):
    """One error: the rule that found it, the field of the document, and a sentence."""

    rule: str
    field: str
    text: str

    def plain(self) -> dict[str, str]:
        return self._asdict()


def flaws(lifecycle: TaskLifecycle) -> list[Flaw]:
    """Return the errors of one document."""
    return [flaw for check in CHECKS for flaw in check(lifecycle)]


def _table(lifecycle: TaskLifecycle) -> Iterator[Flaw]:
    """What is wrong with the table of any lifecycle."""
    for text in lifecycle.flaws():
        yield Flaw("table", "rows", text)


CHECKS: tuple[Callable[[TaskLifecycle], Iterator[Flaw]], ...] = (_table,)


def conflicts(lifecycle: TaskLifecycle, others: TaskLifecycles) -> list[Flaw]:
    """Return what does not fit the lifecycles that are installed."""
    return [*_state_conflicts(lifecycle, others), *_default_conflicts(lifecycle, others)]


def _state_conflicts(lifecycle: TaskLifecycle, others: TaskLifecycles) -> Iterator[Flaw]:
    """A name of a state means the same everywhere: lists and the inbox find tasks by it."""
    for other in in_use(others):
        for name in lifecycle.by_state.keys() & other.by_state.keys():
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
