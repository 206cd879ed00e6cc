"""Quotas on the command line: `100/60s`, `10GiB`, and limits as text."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from detent.cli.typed_values import dollars_from, seconds_from

#: By option of `detent projects quota`: the fields of a limit.
FIELDS: Mapping[str, tuple[str, ...]] = {
    "weight": ("weight",),
    "running": ("running",),
    "starts": ("rate", "per_s"),
    "submissions": ("submit_rate", "submit_per_s"),
    "storage": ("stored_bytes",),
    "cost-per-day": ("cost_per_day_usd",),
}
UNITS: Mapping[str, int] = {
    "": 1,
    "B": 1,
    **{f"{letter}B": 1_000**power for power, letter in enumerate("kMGT", 1)},
    **{f"{letter}iB": 1_024**power for power, letter in enumerate("KMGT", 1)},
}


def quota_from(given: Mapping[str, Any], clear: Sequence[str]) -> dict[str, Any]:
    """The arguments of `set_project_quota` from the options that were given."""
    found: dict[str, Any] = {}
    for option, fields in FIELDS.items():
        value = given[option.replace("-", "_")]
        if value is None:
            continue
        if len(fields) == 2:
            found.update(zip(fields, _rate(value, f"--{option}"), strict=True))
        elif option == "storage":
            found[fields[0]] = bytes_from(value, f"--{option}")
        elif option == "cost-per-day":
            found[fields[0]] = dollars_from(value, f"--{option}")
        else:
            found[fields[0]] = value
    return {**found, "clear": [field for name in clear for field in _cleared(name)]}


def _cleared(option: str) -> Sequence[str]:
    if option not in FIELDS:
        raise click.BadParameter(
            f"{option!r} is not one of {', '.join(FIELDS)}.", param_hint="--clear"
        )
    return FIELDS[option]


def _rate(text: str, option: str) -> tuple[int, int]:
    """A number in a time: 100/60s, 100/1m, 5/s."""
    number, slash, time = text.partition("/")
    if not slash or not re.fullmatch(r"-?[0-9]{1,18}", number) or not time:
        raise click.BadParameter(
            f"{text!r} is not a number and a time, for example 100/60s.", param_hint=option
        )
    return int(number), seconds_from(f"1{time}" if time.isalpha() else time, option)


def bytes_from(text: str, option: str) -> int:
    """Parse a size like 500MB or 10GiB; a bare number is bytes."""
    match = re.fullmatch(r"(-?[0-9]{1,18}) ?([A-Za-z]*)", text)
    if match is None or match[2] not in UNITS:
        raise click.BadParameter(
            f"{text!r} is not a size. Units: {', '.join(filter(None, UNITS))}.", param_hint=option
        )
    return int(match[1]) * UNITS[match[2]]


def quotas_text(limit: Mapping[str, Any]) -> str:
    """The limits and quotas of a row of `list_limits`, without its weight."""
    return ", ".join(_parts(limit))


def _parts(limit: Mapping[str, Any]) -> Iterator[str]:
    if limit["running"] is not None:
        yield f"{limit['running']} running"
    if limit["rate"] is not None:
        yield f"{limit['rate']} starts in {limit['per_s'] or 1} s"
    if limit["submit_rate"] is not None:
        yield f"{limit['submit_rate']} submissions in {limit['submit_per_s'] or 1} s"
    if limit["stored_bytes"] is not None:
        yield f"{limit['stored_bytes']:,} bytes stored"
    if limit["cost_per_day_usd"] is not None:
        yield f"${limit['cost_per_day_usd']:.2f} a day"
