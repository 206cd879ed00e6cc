"""Rows and events as JSON for people: times as UTC text, money in dollars. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from detent.kernel.entities import ASSIGNED_TO, NOT_BEFORE
from detent.kernel.traceparent import TRACEPARENT
from detent.store.types import LoggedEvent

#: Columns that only the engine uses.
INTERNAL = ("nonce", "rank", "resuming", "waited", "plan_wanted")
TIMES = ("at", "due_at", "not_before")
MONEY = ("budget", "spent", "cost", "left", "reserved")


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row for people: times as UTC text, money in dollars, without the engine's own columns."""
    return {name: _value(name, value) for name, value in row.items() if name not in INTERNAL}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name == "options":
        return _options(value)
    if isinstance(value, str):
        return value
    if name in TIMES or name.endswith(("_at", "_deadline", "_until")):
        return utc(value)
    if name in MONEY:
        return value / 1_000_000
    return value


def _options(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Options for people, without what is stored with them: the assignment, the trace context."""
    if ASSIGNED_TO in options or TRACEPARENT in options:
        hidden = (ASSIGNED_TO, TRACEPARENT)
        options = {name: value for name, value in options.items() if name not in hidden}
    if NOT_BEFORE in options:
        options = {**options, NOT_BEFORE: utc(options[NOT_BEFORE])}
    return options


def utc(at_us: int) -> str:
    """A time as ISO 8601 text in UTC with milliseconds."""
    moment = datetime.fromtimestamp(at_us / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(logged: LoggedEvent) -> dict[str, Any]:
    """An event as the feed shows it."""
    return {
        "position": logged.position,
        "stream": logged.stream,
        "version": logged.version,
        "name": logged.name,
        "subject": logged.subject,
        "project": logged.project,
        "at": utc(logged.at),
        "actor": logged.actor,
        "data": msgspec.json.decode(logged.data) if logged.data else None,
    }
