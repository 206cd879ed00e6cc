"""Parses `not_before`: a time with a time zone (RFC 3339), or a delay such as `10m`."""

import re
from datetime import datetime
from typing import NamedTuple

from detent.errors import Invalid

UNITS_US = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}
MAX_DELAY_US = 10 * 365 * UNITS_US["d"]
FORMS = (
    "a time with a time zone, for example 2030-01-01T12:00:00Z",
    "a delay, for example 90s, 10m, 2h or 1d",
)
_DELAY = re.compile(r"(?:\d{1,9}[smhd])+")
_PART = re.compile(r"(\d+)([smhd])")
_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


class Delay(NamedTuple):
    """An absolute time, or a delay after the submission is stored; in microseconds, 0 if unused."""

    not_before: int = 0
    delay: int = 0


def delay_from(given: str, where: str = "not_before") -> Delay:
    """The parsed value. The store's clock turns a delay into a time when the task is stored."""
    found = _delay(given) if _DELAY.fullmatch(given) else _time(given)
    if found is None:
        raise Invalid(
            f"{where} must be {', or '.join(FORMS)}, not {given!r}.",
            field=where,
            given=given,
            allowed=FORMS,
        )
    return found


def _delay(given: str) -> Delay | None:
    amount = sum(int(number) * UNITS_US[unit] for number, unit in _PART.findall(given))
    return Delay(delay=amount) if amount <= MAX_DELAY_US else None


def _time(given: str) -> Delay | None:
    if not _TIME.fullmatch(given):
        return None
    try:
        moment = datetime.fromisoformat(given.upper())
    except ValueError:
        return None
    at = round(moment.timestamp() * 1_000_000)
    return Delay(not_before=at) if at > 0 else None
