"""Checks of a lifecycle before it is installed: its table, its rules, other lifecycles. Pure.

Each check is a function that yields flaws; the name of its rule never changes.
"""

from collections.abc import Callable, Iterator

from detent.kernel.lifecycle_lint import (
    cycles,
    event_senders,
    other_lifecycles,
    outcome,
    phases,
    state_graph,
    timers_and_rounds,
)
from detent.kernel.lifecycle_lint.flaw import Flaw
from detent.kernel.lifecycle_lint.other_lifecycles import conflicts
from detent.kernel.task_lifecycle import TaskLifecycle

__all__ = ["CHECKS", "Flaw", "conflicts", "flaws"]

#: A document with unknown names is not checked further: every other check would find them again.
NAMES: tuple[Callable[[TaskLifecycle], Iterator[Flaw]], ...] = state_graph.NAMES
CHECKS: tuple[Callable[[TaskLifecycle], Iterator[Flaw]], ...] = (
    *state_graph.CHECKS,
    *event_senders.CHECKS,
    *phases.CHECKS,
    *outcome.CHECKS,
    *timers_and_rounds.CHECKS,
    *cycles.CHECKS,
    *other_lifecycles.CHECKS,
)


def flaws(lifecycle: TaskLifecycle) -> list[Flaw]:
    """Return the errors of one document."""
    unknown = [flaw for check in NAMES for flaw in check(lifecycle)]
    return unknown or [flaw for check in CHECKS for flaw in check(lifecycle)]
