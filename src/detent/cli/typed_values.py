"""Parse values from the command line: JSON or plain text, payloads, pairs, dollars, durations."""

import json
import math
from pathlib import Path
from typing import Any

import click


def value_from(text: str | None) -> Any:
    """Parse a text as JSON; if it is no JSON, return the text."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def payload_from(payload: str | None, assignments: tuple[str, ...]) -> dict[str, Any]:
    """A payload from JSON (or @FILE) and from name=value pairs, which override it."""
    document = _read(payload) if payload else {}
    if not isinstance(document, dict):
        raise click.BadParameter(
            "The payload must be a JSON object, for example '{\"n\": 1}'.", param_hint="--payload"
        )
    pairs = pairs_from(assignments, "--set")
    return {**document, **{name: value_from(value) for name, value in pairs.items()}}


def _read(payload: str) -> Any:
    file = payload[1:] if payload.startswith("@") else None
    try:
        return json.loads(payload if file is None else Path(file).read_text("utf-8"))
    except OSError as error:
        problem = f"{file} cannot be read: {error.strerror}"
    except (ValueError, RecursionError) as error:
        problem = f"{file or 'The payload'} is not JSON: {error}"
    raise click.BadParameter(problem, param_hint="--payload")


def pairs_from(assignments: tuple[str, ...], option: str) -> dict[str, str]:
    """Parse name=value pairs."""
    found: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{assignment!r} is not NAME=VALUE.", param_hint=option)
        found[name] = value
    return found


def dollars_from(text: str, option: str) -> float:
    """Parse an amount of dollars: 25, 0.50 or $25."""
    try:
        amount = float(text.removeprefix("$"))
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise click.BadParameter(
            f"{text!r:.80} is not an amount of dollars, for example 25 or 0.50.", param_hint=option
        )
    return amount


#: More digits are no duration that anyone means, and Python refuses to convert very many.
LONGEST_NUMBER = 12
SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds_from(text: str, option: str) -> int:
    """Parse a duration like 90s, 15m, 2h or 1d into seconds; a bare number is seconds."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in SECONDS else (text, "s")
    if not number.isdecimal() or not number.isascii() or len(number) > LONGEST_NUMBER:
        raise click.BadParameter(
            f"{text!r:.80} is no duration. Write 90s, 15m, 2h or 1d.", param_hint=option
        )
    return int(number) * SECONDS[unit]
