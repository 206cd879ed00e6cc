"""Priorities, and the rank of queued work: the lowest rank is claimed first.

A rank is the enqueue time plus an offset for the priority. So one ordered index gives first come,
first served within a priority, and ageing between priorities: no job starves. Pure.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from detent.errors import Invalid

MIN_US = 60 * 1_000_000
HOUR_US = 60 * MIN_US


class Priority(StrEnum):
    """The priorities; P0 is claimed first."""

    P0 = "P0"
    P1 = "P1"
    P2 = "P2"
    P3 = "P3"


ALIASES: Mapping[str, Priority] = MappingProxyType(
    {"high": Priority.P0, "normal": Priority.P2, "low": Priority.P3}
)

OFFSETS_US: Mapping[str, int] = MappingProxyType(
    {
        Priority.P0: 0,
        Priority.P1: 10 * MIN_US,
        Priority.P2: 1 * HOUR_US,
        Priority.P3: 6 * HOUR_US,
    }
)


def priority_from(given: object, where: str = "priority") -> Priority:
    """Return the priority named by `given`: P0 to P3 or an alias, in any letter case."""
    if isinstance(given, str):
        if given.lower() in ALIASES:
            return ALIASES[given.lower()]
        if given.upper() in OFFSETS_US:
            return Priority(given.upper())
    allowed = (*Priority, *ALIASES)
    message = f"{where} must be one of {', '.join(allowed)}, not {given!r}."
    raise Invalid(message, field=where, given=given, allowed=allowed)


def rank(priority: str, enqueued_at_us: int) -> int:
    """Return the rank in the queue; equal ranks are ordered by arrival."""
    return enqueued_at_us + OFFSETS_US[priority]
