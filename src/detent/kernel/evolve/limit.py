"""How an event changes pauses and limits, which are rows by name: what is not set is absent."""

from collections.abc import Callable, Mapping
from typing import Any

from detent.errors import Refused
from detent.kernel import events as e

Row = Mapping[str, Any]
Changed = dict[str, Row | None]

#: The fields of a row that say what its pause is. A pause of the file has no `paused_by`.
PAUSE = ("paused", "paused_by", "paused_at", "paused_until", "reason")
#: The fields of the limit: see `LimitSet`.
NUMBERS = (
    "running",
    "rate",
    "per_s",
    "weight",
    "submit_rate",
    "submit_per_s",
    "stored_bytes",
    "cost_per_day",
)
#: Marks a row of which a part came from the configuration file.
IN_FILE = "in_file"


def evolve_limits(known: Mapping[str, Row], record: e.Record) -> Changed:
    """The rows that the event changes, by name; None for a row that is gone."""
    if record.stream != e.SYSTEM:
        raise Refused(f"{record.event.name} is not allowed in the stream {record.stream}")
    if isinstance(record.event, e.LimitsNoted):
        return _noted(known, record.event)
    name = record.subject or ""
    row = EVOLVE[type(record.event)](known.get(name, {}), record, record.event)
    return {name: row if row.keys() - {IN_FILE} else None}


def paused(row: Row) -> bool:
    """Whether nothing may start under it."""
    return bool(row.get("paused"))


def is_over(row: Row, now: int) -> bool:
    """Whether it is a pause whose time has passed."""
    until = row.get("paused_until")
    return paused(row) and until is not None and until <= now


def _noted(known: Mapping[str, Row], event: e.LimitsNoted) -> Changed:
    if known and known != event.limits:
        raise Refused("it differs from the events before it")
    return dict(event.limits)


def _pause_set(row: Row, record: e.Record, event: e.PauseSet) -> Row:
    pause = {"paused": True, "paused_at": record.at, "reason": event.reason}
    if event.in_file:
        pause[IN_FILE] = True
    else:
        pause["paused_by"] = record.actor
    if event.until is not None:
        pause["paused_until"] = event.until
    return {**_without(row, PAUSE), **pause}


def _pause_ended(row: Row, record: e.Record, event: e.PauseEnded) -> Row:
    if not paused(row):
        raise Refused(f"{record.subject} is not paused")
    return _without(row, PAUSE)


def _limit_set(row: Row, record: e.Record, event: e.LimitSet) -> Row:
    given = {name: getattr(event, name) for name in NUMBERS}
    numbers = {name: value for name, value in given.items() if value is not None}
    marked = {IN_FILE: True} if event.in_file else {}
    return {**_without(row, (*NUMBERS, IN_FILE)), **numbers, **marked}


def _limit_ended(row: Row, record: e.Record, event: e.LimitEnded) -> Row:
    if not any(name in row for name in NUMBERS):
        raise Refused(f"{record.subject} has no limit")
    of_file = paused(row) and "paused_by" not in row
    return _without(row, NUMBERS if of_file else (*NUMBERS, IN_FILE))


def _without(row: Row, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


EVOLVE: Mapping[type[e.Event], Callable[[Row, e.Record, Any], Row]] = {
    e.PauseSet: _pause_set,
    e.PauseEnded: _pause_ended,
    e.LimitSet: _limit_set,
    e.LimitEnded: _limit_ended,
}
