"""Reads fields of an agent's JSON line; a missing field or one of the wrong type is None."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from detent.transcript.transcript_item import MAX_SUMMARY, MAX_TEXT, clip

#: Times after this year are ignored as invalid.
LAST_YEAR = 9_000

_decode = msgspec.json.Decoder().decode


def decoded(line: bytes) -> Mapping[str, Any] | None:
    """The JSON object of a line; None if it is anything else."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        found = _decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def mapping(value: Any, *path: str) -> Mapping[str, Any]:
    """The object at a path; an empty one if there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def text(value: Any, *names: str) -> str | None:
    """The first of these fields that is a non-empty text."""
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(found, str) and found:
            return clip(found)
    return None


def name(value: Any, *names: str) -> str | None:
    """The first of these fields that is a non-empty text, cut to the length of a name."""
    found = text(value, *names)
    return None if found is None else found[:MAX_SUMMARY]


def count(value: Any, *names: str) -> int | None:
    """The first of these fields that is a number of tokens or a similar count."""
    for each in names:
        found = value.get(each) if isinstance(value, Mapping) else None
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1 << 53:
            return int(found)
    return None


def total(value: Any, *names: str) -> int | None:
    """The sum of those of these fields that are counts; None if none is."""
    found = [each for each in (count(value, name) for name in names) if each is not None]
    return sum(found) if found else None


def dollars(value: Any, *names: str) -> float | None:
    """The first of these fields that is an amount of money."""
    for each in names:
        found = value.get(each) if isinstance(value, Mapping) else None
        if isinstance(found, int | float) and not isinstance(found, bool) and 0 <= found < 1e9:
            return float(found)
    return None


def blocks(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def time_of(line: Mapping[str, Any]) -> int | None:
    """The time in a line, in microseconds: ISO 8601, or milliseconds since 1970."""
    given = line.get("timestamp", line.get("timestamp_ms"))
    if isinstance(given, str):
        return _iso(given)
    if isinstance(given, int | float) and not isinstance(given, bool):
        return int(given * 1_000) if 0 < given < (LAST_YEAR - 1970) * 31_556_952_000 else None
    return None


def _iso(given: str) -> int | None:
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        return None
    if found.tzinfo is None or not 1970 < found.year < LAST_YEAR:
        return None
    return int(found.timestamp() * 1_000) * 1_000


def shown(value: Any) -> str:
    """A value of a tool's input or output as text: blocks of text are joined, the rest is JSON."""
    if isinstance(value, str):
        return clip(value)
    if isinstance(value, list) and value and all(map(_is_block, value)):
        return clip("\n".join(_block(each) for each in value))
    return "" if value is None else clip(_json(value))


def _is_block(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("type"), str)


def _block(block: Mapping[str, Any]) -> str:
    found = block.get("text")
    if isinstance(found, str):
        return found[: MAX_TEXT + 1]
    return f"[{str(block['type'])[:MAX_SUMMARY]}]"


def _json(value: Any) -> str:
    try:
        data = msgspec.json.encode(value)
        return msgspec.json.format(data, indent=2).decode()
    except (msgspec.MsgspecError, RecursionError, OverflowError, ValueError, TypeError):
        return "[a value that cannot be shown]"
