"""Kinds of waits, as a table: which of them block the task. Pure lookups over a wait."""

from collections.abc import Mapping

from detent.kernel.state import Wait

#: A wait that is expected to last longer than this is parked: no scan touches it.
LONG_US = 60 * 1_000_000

#: By kind, the reason that blocks the task; None for waits during which it just goes on being in work.
KINDS: Mapping[str, str | None] = {
    "timer": None,
    "signal": None,
    "subtasks": None,
    "question": "question",
    "confirmation": "needs_user",
    "budget": "budget",
    "resource": "resource",
    "retry": "retry",
}


def parks(wait: Wait, now: int) -> bool:
    """Whether it is expected to last: its end is unknown, or over a minute away."""
    return wait.due_at is None or wait.due_at - now > LONG_US


def blocks(wait: Wait) -> str | None:
    return KINDS[wait.kind]


def satisfied(wait: Wait) -> bool:
    """Every signal that it needs has come."""
    return bool(wait.needs) and wait.missing == 0
