"""Retention: how long ended work is kept, by the way in which it ended, counted from its end.

Pure. The keeper (the scheduler and maintenance process) deletes what has expired. Work in a state
without an ending is live and never expires.
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


#: How a job without a task ended; a task's jobs are deleted with their task.
JOB_ENDINGS: Mapping[str, Ending] = MappingProxyType(
    {"completed": Ending.DONE, "cancelled": Ending.CANCELLED, "failed": Ending.FAILED}
)


def is_over(run_ended_at: int | None, kept_days: int, now: int, *, task_live: bool) -> bool:
    """Whether the files of a run have expired: never before its end or while its task is live."""
    if run_ended_at is None or task_live:
        return False
    return run_ended_at + kept_days * DAY_US <= now
