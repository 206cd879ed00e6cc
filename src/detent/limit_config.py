"""Limits and pauses as configured: `[limits]` of detent.toml, checked."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid, Misconfigured
from detent.kernel import document_fields
from detent.kernel.budget import budget_from
from detent.kernel.fair_shares import MAX_WEIGHT

EVERYTHING = "all"
PROJECT = "project:"
KINDS = ("intent:", PROJECT, "key:")
#: By field of a limit, its minimum and its maximum.
NUMBERS: Mapping[str, tuple[int, int]] = {
    "running": (0, 1_000_000),
    "rate": (1, 1_000_000),
    "per_s": (1, 86_400),
}
#: Fields of a limit on a project.
OF_PROJECTS: Mapping[str, tuple[int, int]] = {
    "weight": (1, MAX_WEIGHT),
    "submit_rate": (1, 1_000_000),
    "submit_per_s": (1, 86_400),
    "stored_bytes": (1, 1 << 50),
}
#: The field of a project for its maximum cost per day (UTC), in dollars.
COST_USD = "cost_per_day_usd"
#: The fields of a row that say how long the time of a rate is.
PERIODS = {"per_s": "rate", "submit_per_s": "submit_rate"}


def limits_from(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """`[limits]` of a configuration file: by name, any of the numbers, and paused."""
    try:
        named = document_fields.table(tables.get("limits", {}), "limits")
        return {name: _row(name, row) for name, row in named.items()}
    except Invalid as error:
        raise Misconfigured(error.message, setting=error.field) from None


def _row(name: str, given: object) -> Mapping[str, Any]:
    where = f"limits.{name}"
    if name != EVERYTHING and not any(name.startswith(kind) and name != kind for kind in KINDS):
        allowed = (EVERYTHING, *(f"{kind}NAME" for kind in KINDS))
        raise Invalid(
            f"{where} must be one of {', '.join(allowed)}.",
            field=where,
            given=name,
            allowed=allowed,
        )
    fields = (*NUMBERS, *OF_PROJECTS, COST_USD) if name.startswith(PROJECT) else tuple(NUMBERS)
    row = document_fields.table(given, where, (*fields, "paused"))
    numbers = {field: value for field, value in row.items() if field != "paused"}
    paused = {}
    if "paused" in row:
        paused["paused"] = document_fields.flag(row["paused"], f"{where}.paused")
    return {**numbers_from(numbers, f"{where}."), **paused}


def numbers_from(given: Mapping[str, Any], where: str = "") -> dict[str, int]:
    """The numbers of a limit, checked; money in micro-dollars."""
    numbers = {}
    for field, value in given.items():
        if field == COST_USD:
            numbers["cost_per_day"] = budget_from(value, where + field)
        else:
            least, most = {**NUMBERS, **OF_PROJECTS}[field]
            numbers[field] = document_fields.whole_number(value, where + field, least, most)
    return numbers
