"""Kinds of waits, as a table: which of them block the task. Pure lookups over a wait."""

from collections.abc import Mapping

from detent.kernel.entities import Wait

#: A wait that is expected to last longer than this is parked: no scan touches it.
LONG_US = 60 * 1_000_000

#: By kind, the reason that blocks the task; None for waits during which it goes on being in work.
KINDS: Mapping[str, str | None] = {
    "timer": None,
    "signal": None,
    "subtasks": None,
    "question": "question",
    "confirmation": "needs_user",
    "budget": "budget",
    "funds": "budget",
    "resource": "resource",
    "retry": None,
}
#: Reasons of detent itself to look again, not waits that code asked for: any wake-up ends them, and
#: nothing remembers their outcome. `funds`: no money is left to start with.
POLLS = frozenset({"funds", "resource", "retry"})
#: Waits that code may ask for.
ASKED = tuple(kind for kind in KINDS if kind not in POLLS)
#: Waits that a person's answer ends, and the reasons by which they block a task.
QUESTIONS = frozenset({"question", "confirmation"})
PEOPLE = frozenset({"question", "needs_user"})
#: Those of a job alone that an answer ends: without a task there is no budget to raise.
ANSWERED = QUESTIONS | {"budget"}


def parks(wait: Wait, now: int) -> bool:
    """Whether it is expected to last: its end is unknown, or over a minute away."""
    return wait.due_at is None or wait.due_at - now > LONG_US


def blocks(wait: Wait) -> str | None:
    return KINDS[wait.kind]


def satisfied(wait: Wait) -> bool:
    """Every signal that it needs has come."""
    return bool(wait.needs) and wait.missing == 0


def is_due(wait: Wait, now: int) -> bool:
    return wait.due_at is not None and wait.due_at <= now
