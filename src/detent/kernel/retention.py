"""How long ended work is kept, by lifecycle and state, counted from entering the state.

Pure: the keeper asks `expires_at` and deletes. What has no row here is live and never expires.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType

from detent.errors import Invalid

DAY_US = 24 * 3_600 * 1_000_000


class Ending(StrEnum):
    """The three ways in which work is over."""

    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Retention:
    """Days to keep each; every one is a setting."""

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
        """How many days work that ended this way is kept."""
        return {
            Ending.DONE: self.done_days,
            Ending.CANCELLED: self.cancelled_days,
            Ending.FAILED: self.failed_days,
        }[ending]


DEFAULT_RETENTION = Retention()

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
    """How the work ended, or None while it is live.

    The board has no failed state: blocked with no retry left is its failure.
    """
    if (lifecycle, state) == ("board", "blocked") and retries_left == 0:
        return Ending.FAILED
    return ENDINGS.get((lifecycle, state))


def expires_at(
    lifecycle: str,
    state: str,
    entered_at: int,
    retries_left: int | None = None,
    retention: Retention = DEFAULT_RETENTION,
) -> int | None:
    """When retention may remove a task or a job without a task; None while it is live."""
    ended = ending(lifecycle, state, retries_left)
    return None if ended is None else entered_at + retention.days(ended) * DAY_US


def run_directory_expires_at(
    run_ended_at: int | None, *, task_live: bool, retention: Retention = DEFAULT_RETENTION
) -> int | None:
    """When a run's directory may go; None while the run has not ended or its task is live."""
    if run_ended_at is None or task_live:
        return None
    return run_ended_at + retention.run_directory_days * DAY_US


def output_expires_at(
    run_ended_at: int | None, *, task_live: bool, retention: Retention = DEFAULT_RETENTION
) -> int | None:
    """When what a run has written may go; None while the run has not ended or its task is live."""
    if run_ended_at is None or task_live:
        return None
    return run_ended_at + retention.output_days * DAY_US
