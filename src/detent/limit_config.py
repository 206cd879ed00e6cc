"""Limits and pauses as configured: `[limits]` of detent.toml, checked."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid, Misconfigured
from detent.kernel import document_fields

EVERYTHING = "all"
KINDS = ("intent:", "project:", "key:")
#: By field of a limit, its minimum and its maximum.
NUMBERS: Mapping[str, tuple[int, int]] = {
    "running": (0, 1_000_000),
    "rate": (1, 1_000_000),
    "per_s": (1, 86_400),
}


def limits_from(tables: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """`[limits]` of a configuration file: by name, any of running, rate with per_s, and paused."""
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
    row = document_fields.table(given, where, (*NUMBERS, "paused"))
    for field, (least, most) in NUMBERS.items():
        if field in row:
            document_fields.whole_number(row[field], f"{where}.{field}", least, most)
    if not isinstance(row.get("paused", False), bool):
        raise document_fields.wrong(f"{where}.paused", "true or false", row["paused"])
    return row
