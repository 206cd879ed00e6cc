"""Retention: how long ended work is kept, by lifecycle and state, counted from its end.

Pure. The keeper (the scheduler and maintenance process) deletes what has expired. Work in a state
without a row here is live and never expires.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType

from detent.errors import Invalid

DAY_US = 24 * 3_600 * 1_000_000


class Ending(StrEnum):
    """The three ways in which work ends."""

    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Retention:
    """How many days ended work is kept; each field is a setting."""

    done_days: int = 30
    cancelled_days: int = 7
    failed_days: int = 14
    run_directory_days: int = 30
    output_days: int = 30

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                message = f"retention.{field.name} must not be negative."
                raise Invalid(
                    message, field=f"retention.{field.name}", given=getattr(self, field.name)
                )

    def days(self, ending: Ending) -> int:
        """Return how many days work that ended this way is kept."""
        return {
            Ending.DONE: self.done_days,
            Ending.CANCELLED: self.cancelled_days,
            Ending.FAILED: self.failed_days,
        }[ending]


# `job` is for jobs without a task; a task's jobs go with their task.
ENDINGS: Mapping[tuple[str, str], Ending] = MappingProxyType(
    {
        ("board", "done"): Ending.DONE,
        ("board", "cancelled"): Ending.CANCELLED,
        ("review", "completed"): Ending.DONE,
        ("review", "cancelled"): Ending.CANCELLED,
        ("review", "failed"): Ending.FAILED,
        ("review", "timed_out"): Ending.FAILED,
        ("review", "budget_exceeded"): Ending.FAILED,
        ("job", "completed"): Ending.DONE,
        ("job", "cancelled"): Ending.CANCELLED,
        ("job", "failed"): Ending.FAILED,
    }
)


def ending(lifecycle: str, state: str, retries_left: int | None = None) -> Ending | None:
    """Return how the work ended, or None while it is live.

    The board lifecycle has no failed state: a task that is blocked without retries has failed.
    """
    if (lifecycle, state) == ("board", "blocked") and retries_left == 0:
        return Ending.FAILED
    return ENDINGS.get((lifecycle, state))


def is_over(run_ended_at: int | None, kept_days: int, now: int, *, task_live: bool) -> bool:
    """Whether the files of a run have expired: never before its end or while its task is live."""
    if run_ended_at is None or task_live:
        return False
    return run_ended_at + kept_days * DAY_US <= now
