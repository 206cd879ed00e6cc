"""Reading values that a person types: JSON where it is JSON, else a plain text."""

import json
from pathlib import Path
from typing import Any

import click


def value_from(text: str | None) -> Any:
    """The JSON value that a text spells, or the text itself."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def payload_from(payload: str | None, assignments: tuple[str, ...]) -> dict[str, Any]:
    """A payload from JSON (or @FILE) and from name=value pairs, which win."""
    document = _read(payload) if payload else {}
    if not isinstance(document, dict):
        raise click.BadParameter("must be a JSON object", param_hint="--payload")
    pairs = pairs_from(assignments, "--set")
    return {**document, **{name: value_from(value) for name, value in pairs.items()}}


def _read(payload: str) -> Any:
    file = payload[1:] if payload.startswith("@") else None
    try:
        return json.loads(payload if file is None else Path(file).read_text("utf-8"))
    except OSError as error:
        said = f"{file} cannot be read: {error.strerror}"
    except ValueError as error:
        said = f"{file or 'it'} is not JSON: {error}"
    raise click.BadParameter(said, param_hint="--payload")


def pairs_from(assignments: tuple[str, ...], option: str) -> dict[str, str]:
    """Texts by name, from name=value pairs."""
    found: dict[str, str] = {}
    for assignment in assignments:
        name, separator, value = assignment.partition("=")
        if not separator or not name:
            raise click.BadParameter(f"{assignment!r} is not name=value", param_hint=option)
        found[name] = value
    return found


SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def seconds_from(text: str, option: str) -> int:
    """How many seconds a text like 90s, 15m, 2h or 1d means; a bare number is seconds."""
    number, unit = (text[:-1], text[-1:]) if text[-1:] in SECONDS else (text, "s")
    if not number.isdecimal() or not number.isascii():
        raise click.BadParameter(f"{text!r} is no time; write 90s, 15m, 2h, 1d", param_hint=option)
    return int(number) * SECONDS[unit]
