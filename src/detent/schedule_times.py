"""Schedules: the times of a cron expression with its time zone, or of an interval.

Pure except for the time zone database: the caller passes the time. All times are integer
microseconds.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from itertools import chain, count, islice, takewhile
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from detent.errors import Invalid

S_US = 1_000_000
#: What happens at a scheduled time while the previous task has not ended.
OVERLAPS = ("allow", "skip")
#: What happens with times that passed while no keeper ran: submit for each, once, or not at all.
MISSED = ("all", "once", "skip")
#: The maximum number of missed times that are submitted in one pass.
MAX_MISSED = 100
#: A time counts as missed if it is found later than this.
LATE_US = 60 * S_US


@dataclass(frozen=True, slots=True)
class Schedule:
    """A task and the times at which it is submitted. Exactly one of `cron` and `every_s` is set."""

    name: str
    intent: str
    cron: str | None = None
    timezone: str = "UTC"
    every_s: int | None = None
    overlap: str = "skip"
    missed: str = "once"
    paused: bool = False
    lifecycle: str | None = None
    project: str | None = None
    priority: str = "P2"
    payload: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    #: The delay of each task after its scheduled time, such as `10m`, or the earliest start time.
    not_before: str | None = None
    #: Intervals are counted from here: a time is this plus a whole number of intervals.
    anchor_at: int | None = None
    #: The time that comes next, the last one that was acted on, and the task that it made.
    next_at: int | None = None
    last_at: int | None = None
    last_task: str | None = None


def schedule_from(name: str, row: Mapping[str, Any]) -> Schedule:
    """A schedule from its row or from a request; every field is checked."""
    known = {each.name for each in fields(Schedule)} - {"name"}
    for given in row:
        if given not in known:
            why = "is not a field of a schedule"
            raise _wrong(given, row[given], sorted(known), why, shown=False)
    schedule = Schedule(name=name, **row)
    if (schedule.cron is None) == (schedule.every_s is None):
        why = "or every_s must be given, and not both"
        raise _wrong("cron", schedule.cron, (), why, shown=False)
    for each in ("cron", "timezone"):
        text = getattr(schedule, each)
        if text is not None and not isinstance(text, str):
            raise _wrong(each, text, (), "must be a string")
    if schedule.overlap not in OVERLAPS:
        raise _wrong("overlap", schedule.overlap, OVERLAPS)
    if schedule.missed not in MISSED:
        raise _wrong("missed", schedule.missed, MISSED)
    if schedule.every_s is not None and not _is_interval(schedule.every_s):
        raise _wrong("every_s", schedule.every_s, (), "must be 1 to 31536000 seconds")
    if schedule.cron is not None:
        next(_cron(schedule, 0))
    return schedule


def _is_interval(seconds: object) -> bool:
    return isinstance(seconds, int) and not isinstance(seconds, bool) and 1 <= seconds <= 31_536_000


def times(schedule: Schedule, after: int) -> Iterator[int]:
    """The scheduled times after a time, in order, without end."""
    if schedule.every_s is None:
        yield from _cron(schedule, after)
    else:
        step = schedule.every_s * S_US
        anchor = _anchor(schedule)
        first = anchor + ((after - anchor) // step + 1) * step
        yield from count(first, step)


def _anchor(schedule: Schedule) -> int:
    """Where its intervals are counted from.

    A schedule of an older version has no anchor; any of its times is as good.
    """
    for known in (schedule.anchor_at, schedule.next_at, schedule.last_at):
        if known is not None:
            return known
    return 0


def _cron(schedule: Schedule, after: int) -> Iterator[int]:
    try:
        zone = ZoneInfo(schedule.timezone)
        moments = CronSim(
            schedule.cron or "", datetime.fromtimestamp(after / S_US, UTC).astimezone(zone)
        )
    except CronSimError as error:
        wanted = f"must be a valid cron expression ({str(error).lower()})"
        raise _wrong("cron", schedule.cron, (), wanted) from None
    except (ZoneInfoNotFoundError, ValueError, OSError):  # OSError: the name of a directory
        wanted = "must be an IANA name such as Europe/Berlin"
        raise _wrong("timezone", schedule.timezone, (), wanted) from None
    for moment in moments:
        yield int(moment.timestamp()) * S_US


def due_times(schedule: Schedule, now: int) -> list[int]:
    """The times to submit for now, by the policy for missed ones; empty if none is due."""
    if schedule.paused or schedule.next_at is None or schedule.next_at > now:
        return []
    passed = _passed(schedule, schedule.next_at, now)
    late = [at for at in passed if now - at > LATE_US]
    on_time = passed[len(late) :]
    if schedule.missed == "all":
        return passed
    if schedule.missed == "once" and not on_time:
        return passed[-1:]
    return on_time


def _passed(schedule: Schedule, first: int, now: int) -> list[int]:
    """The times that have come since the first: of too many the oldest, or those that still count.

    Only the policy `all` acts on old ones.
    """
    if schedule.missed != "all" and schedule.every_s is not None:
        step = schedule.every_s * S_US
        first = max(first, first + ((now - first) // step - MAX_MISSED + 1) * step)
    following = takewhile(lambda at: at <= now, chain([first], times(schedule, first)))
    if schedule.missed == "all":
        return list(islice(following, MAX_MISSED))
    return list(deque(following, MAX_MISSED))


def _wrong(
    name: str, given: object, allowed: object, why: str = "", *, shown: bool = True
) -> Invalid:
    """An error about a field; with `shown`, its message contains the given value."""
    listed = tuple(map(str, allowed)) if isinstance(allowed, (tuple, list)) else ()
    reason = why or f"must be one of {', '.join(listed)}"
    instead = f", not {given!r}" if shown and given is not None else ""
    return Invalid(f"schedule.{name} {reason}{instead}.", field=name, given=given, allowed=listed)
