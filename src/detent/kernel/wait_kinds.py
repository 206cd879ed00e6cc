"""The kinds of waits, as a table: which of them block the task. Pure lookups."""

from collections.abc import Mapping

from detent.kernel.entities import Wait

#: A job whose waits are expected to last longer than this is parked: no scan reads it.
LONG_US = 60 * 1_000_000

#: The reason that blocks the task, by kind; None for waits that do not block it.
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
    "permission": None,
}
#: The wait of a run that keeps running while a person decides. It ends with the run at the latest.
PERMISSION = "permission"
#: Waits of detent itself, not of a handler: any wake-up ends them, and their outcome is not kept.
#: `funds`: no money is left to start a run.
POLLS = frozenset({"funds", "resource", "retry"})
#: Waits for which a handler may suspend its run.
ASKED = tuple(kind for kind in KINDS if kind not in POLLS and kind != PERMISSION)
#: Waits that a person's answer ends, and the reasons by which they block a task.
QUESTIONS = frozenset({"question", "confirmation", PERMISSION})
PEOPLE = frozenset({"question", "needs_user"})
#: Waits of a job without a task that an answer ends: it has no budget that could be raised.
ANSWERED = QUESTIONS | {"budget"}


def parks(wait: Wait, now: int) -> bool:
    """Whether the wait is expected to be long: its end is unknown, or over a minute away."""
    return wait.due_at is None or wait.due_at - now > LONG_US


def blocks(wait: Wait) -> str | None:
    return KINDS[wait.kind]


def satisfied(wait: Wait) -> bool:
    """Whether every signal that it needs was received; one of them, if its detail says `any`."""
    if wait.detail.get("any"):
        return wait.missing < len(wait.needs)
    return bool(wait.needs) and wait.missing == 0


def is_due(wait: Wait, now: int) -> bool:
    return wait.due_at is not None and wait.due_at <= now
