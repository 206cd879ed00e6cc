"""What Notion refuses: the checks of requests that a test server makes as strictly as the real one.

Each raises `Refusal` with the status and code that Notion answers with. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

Json = dict[str, Any]

LONGEST_TEXT = 2_000
MAX_PIECES = 100
MAX_BLOCKS = 100
LONGEST_OPTION = 100
MAX_PAGE_SIZE = 100
MAX_BYTES = 500_000
KINDS = ("title", "rich_text", "select", "number", "date", "checkbox", "url")


class Refusal(Exception):
    """An answer of Notion's that says no."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code

    @property
    def document(self) -> Json:
        return {
            "object": "error",
            "status": self.status,
            "code": self.code,
            "message": str(self),
            "request_id": "00000000-0000-4000-8000-000000000000",
        }


def invalid(message: str) -> Refusal:
    return Refusal(400, "validation_error", message)


def not_found(what: str, ident: str) -> Refusal:
    return Refusal(
        404,
        "object_not_found",
        f"Could not find {what} with ID: {ident}. Make sure the relevant pages and databases are "
        "shared with your integration.",
    )


def known_keys(where: str, given: Any, allowed: Sequence[str]) -> Json:
    """An object with no other keys than these."""
    if not isinstance(given, dict):
        raise invalid(f"body failed validation: {where} should be an object, instead was {given!r}")
    for key in given:
        if key not in allowed:
            raise invalid(f"body failed validation: {where}.{key} should be not present")
    return given


# ---- values ----------------------------------------------------------------------------------


def rich_text(where: str, given: Any) -> str:
    """The plain text of an array of pieces."""
    if not isinstance(given, list):
        raise invalid(f"body failed validation: {where} should be an array")
    if len(given) > MAX_PIECES:
        raise invalid(f"{where}.length should be ≤ {MAX_PIECES}, instead was {len(given)}")
    return "".join(_piece(f"{where}[{at}]", each) for at, each in enumerate(given))


def _piece(where: str, given: Any) -> str:
    piece = known_keys(where, given, ("type", "text", "annotations"))
    if piece.get("type", "text") != "text":
        raise invalid(f'body failed validation: {where}.type should be "text"')
    text = known_keys(f"{where}.text", piece.get("text"), ("content", "link"))
    content = text.get("content")
    if not isinstance(content, str):
        raise invalid(f"body failed validation: {where}.text.content should be a string")
    if len(content) > LONGEST_TEXT:
        raise invalid(
            f"body failed validation: {where}.text.content.length should be ≤ `{LONGEST_TEXT}`, "
            f"instead was `{len(content)}`."
        )
    return content


def _select(where: str, given: Any) -> str | None:
    if given is None:
        return None
    name = known_keys(where, given, ("name", "id", "color")).get("name")
    if not isinstance(name, str) or not name:
        raise invalid(f"body failed validation: {where}.name should be a string")
    if "," in name:
        raise invalid("Invalid select option, commas not allowed: " + name)
    if len(name) > LONGEST_OPTION:
        raise invalid(f"body failed validation: {where}.name.length should be ≤ {LONGEST_OPTION}")
    return name


def _number(where: str, given: Any) -> float | None:
    if given is not None and (isinstance(given, bool) or not isinstance(given, int | float)):
        raise invalid(f"body failed validation: {where} should be a number, instead was {given!r}")
    return given


def _date(where: str, given: Any) -> str | None:
    if given is None:
        return None
    start = known_keys(where, given, ("start", "end", "time_zone")).get("start")
    try:
        datetime.fromisoformat(str(start))
    except ValueError:
        raise invalid(f"{where}.start should be a valid ISO 8601 date string") from None
    return str(start)


def _checkbox(where: str, given: Any) -> bool:
    if not isinstance(given, bool):
        raise invalid(f"body failed validation: {where} should be a boolean")
    return given


def _url(where: str, given: Any) -> str | None:
    if given is not None and (not isinstance(given, str) or len(given) > LONGEST_TEXT):
        raise invalid(f"{where} should be a string of at most {LONGEST_TEXT} characters")
    return given


CHECKS = {
    "title": rich_text,
    "rich_text": rich_text,
    "select": _select,
    "number": _number,
    "date": _date,
    "checkbox": _checkbox,
    "url": _url,
}


def property_values(schema: Mapping[str, str], given: Any) -> Json:
    """Values by name; each must be a property of the data source, and of its type."""
    if not isinstance(given, dict):
        raise invalid("body failed validation: body.properties should be an object")
    found: Json = {}
    for name, value in given.items():
        kind = schema.get(name)
        if kind is None:
            raise invalid(f"{name} is not a property that exists.")
        where = f"body.properties.{name}"
        if not isinstance(value, dict) or kind not in value:
            raise invalid(f"{name} is expected to be {kind}.")
        known_keys(where, value, (kind, "type", "id"))
        found[name] = CHECKS[kind](f"{where}.{kind}", value[kind])
    return found


def schema_from(given: Any) -> dict[str, str]:
    """Property names and types of a new data source, exactly one of them its title."""
    if not isinstance(given, dict) or not given:
        raise invalid("body.initial_data_source.properties should be an object")
    schema: dict[str, str] = {}
    for name, configuration in given.items():
        kinds = [
            kind for kind in KINDS if isinstance(configuration, dict) and kind in configuration
        ]
        if len(kinds) != 1:
            raise invalid(f"body.initial_data_source.properties.{name} should name one type")
        schema[name] = kinds[0]
    if list(schema.values()).count("title") != 1:
        raise invalid("Title is not provided, or there is more than one.")
    return schema


def blocks(given: Any) -> list[Json]:
    """The content of a new page."""
    if not isinstance(given, list):
        raise invalid("body failed validation: body.children should be an array")
    if len(given) > MAX_BLOCKS:
        raise invalid(
            f"body failed validation: body.children.length should be ≤ `{MAX_BLOCKS}`, "
            f"instead was `{len(given)}`."
        )
    for at, block in enumerate(given):
        _block(f"body.children[{at}]", block)
    return given


def _block(where: str, given: Any) -> None:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind not in ("code", "paragraph"):
        raise invalid(f"body failed validation: {where}.type should be a known block type")
    known_keys(where, given, ("object", "type", kind))
    inner = known_keys(f"{where}.{kind}", given.get(kind), ("rich_text", "language", "caption"))
    rich_text(f"{where}.{kind}.rich_text", inner.get("rich_text"))
    if kind == "code" and not isinstance(inner.get("language"), str):
        raise invalid(f"body failed validation: {where}.code.language should be a string")


def page_size(given: Any) -> int:
    size = 100 if given is None else int(given) if re.fullmatch(r"\d+", str(given)) else -1
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise invalid(f"page_size should be from 1 to {MAX_PAGE_SIZE}, instead was {given!r}")
    return size
