"""Checks values against the subset of JSON Schema that msgspec and pydantic write for arguments.

An unknown keyword accepts everything; the worker's decoding of the arguments is the final check.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

Schema = Mapping[str, Any]

#: JSON Schema's types in words.
WORDS = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Flaw(NamedTuple):
    """A mismatch: the path, the allowed values, the given value; or the names of missing fields."""

    where: str
    allowed: str
    given: Any = None
    missing: tuple[str, ...] = ()


class Checker:
    """Checks values; a `$ref` refers to the nearest enclosing `$defs`."""

    def __init__(self, defs: Mapping[str, Schema] | None = None) -> None:
        self.defs = defs or {}

    def flaw(self, schema: Any, value: Any, where: str) -> Flaw | None:
        """The first mismatch; None if the value matches the schema."""
        if schema is True or not isinstance(schema, Mapping):
            return Flaw(where, "left out", value) if schema is False else None
        checker = Checker(schema["$defs"]) if "$defs" in schema else self
        return next(checker._flaws(schema, value, where), None)

    def _flaws(self, schema: Schema, value: Any, where: str) -> Iterator[Flaw]:
        if "$ref" in schema:
            found = self.flaw(self._referred(schema["$ref"]), value, where)
            if found is not None:
                yield found
        if "type" in schema and not _is_type(schema, value):
            yield Flaw(where, _words(schema), value)
            return
        if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
            yield Flaw(where, f"one of {', '.join(map(repr, schema['enum']))}", value)
        if "const" in schema and not _same(value, schema["const"]):
            yield Flaw(where, repr(schema["const"]), value)
        for each in schema.get("allOf", ()):
            found = self.flaw(each, value, where)
            if found is not None:
                yield found
        for name in ("anyOf", "oneOf"):
            if name in schema:
                yield from self._any(schema[name], value, where)
        yield from self._parts(schema, value, where)

    def _referred(self, reference: str) -> Any:
        return self.defs.get(reference.removeprefix("#/$defs/"), True)

    def _any(self, choices: list[Any], value: Any, where: str) -> Iterator[Flaw]:
        flaws = [self.flaw(each, value, where) for each in choices]
        if any(found is None for found in flaws):
            return
        inside = [found for found in flaws if found is not None and found.where != where]
        missing = [found for found in flaws if found is not None and found.missing]
        if len(inside or missing) == 1:
            yield (inside or missing)[0]
        else:
            allowed = dict.fromkeys(found.allowed for found in flaws if found is not None)
            yield Flaw(where, " or ".join(allowed), value)

    def _parts(self, schema: Schema, value: Any, where: str) -> Iterator[Flaw]:
        if isinstance(value, Mapping):
            yield from self._table(schema, value, where)
        elif isinstance(value, list | tuple):
            yield from self._list(schema, value, where)
        elif isinstance(value, str):
            yield from _text(schema, value, where)
        elif not isinstance(value, bool) and isinstance(value, int | float):
            yield from _number(schema, value, where)

    def _table(self, schema: Schema, value: Mapping[str, Any], where: str) -> Iterator[Flaw]:
        missing = tuple(
            f"{where}.{name}" for name in schema.get("required", ()) if name not in value
        )
        if missing:
            yield Flaw(missing[0], "given", None, missing)
        known = schema.get("properties", {})
        others = schema.get("additionalProperties", True)
        for name, each in value.items():
            if name in known or others is not False:
                found = self.flaw(known.get(name, others), each, f"{where}.{name}")
            else:
                found = Flaw(f"{where}.{name}", f"one of the fields {', '.join(known)}", name)
            if found is not None:
                yield found

    def _list(self, schema: Schema, value: Any, where: str) -> Iterator[Flaw]:
        first = schema.get("prefixItems", ())
        least, most = schema.get("minItems", 0), schema.get("maxItems")
        if len(value) < least or (most is not None and len(value) > most):
            bounds = f"{least}" if least == most else f"{least} to {most or 'any number'}"
            yield Flaw(where, f"a list of {bounds} entries", value)
        for index, each in enumerate(value):
            rule = first[index] if index < len(first) else schema.get("items", True)
            found = self.flaw(rule, each, f"{where}[{index}]")
            if found is not None:
                yield found


# ---- single values ---------------------------------------------------------------------------


def _is_type(schema: Schema, value: Any) -> bool:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if schema.get("format") == "decimal" and _is_number(value):
        return True
    return any(TYPES.get(each, lambda _: True)(value) for each in types)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": _is_number,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list | tuple),
    "object": lambda value: isinstance(value, Mapping),
    "null": lambda value: value is None,
}


def _same(value: Any, other: Any) -> bool:
    """Equal as JSON: true is not 1."""
    return isinstance(value, bool) == isinstance(other, bool) and value == other


def _words(schema: Schema) -> str:
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    return " or ".join(WORDS.get(each, str(each)) for each in types)


def _text(schema: Schema, value: str, where: str) -> Iterator[Flaw]:
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    if len(value) < least or (most is not None and len(value) > most):
        yield Flaw(where, f"text of {least} to {most or 'any number of'} characters", value)
    if "pattern" in schema and not _matches(schema["pattern"], value):
        yield Flaw(where, f"text that matches {schema['pattern']}", value)
    reads = FORMATS.get(schema.get("format", ""))
    if reads is not None and not _reads(reads, value):
        yield Flaw(where, f"a {schema['format']} as text", value)


def _matches(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern, value) is not None
    except re.error:
        return True


def _reads(read: Callable[[str], Any], value: str) -> bool:
    try:
        read(value)
    except (ValueError, InvalidOperation):
        return False
    return True


FORMATS: Mapping[str, Callable[[str], Any]] = {
    "date-time": lambda value: datetime.strptime(value[:16].upper(), "%Y-%m-%dT%H:%M"),
    "date": date.fromisoformat,
    "time": lambda value: time.fromisoformat(value.upper()),
    "uuid": uuid.UUID,
    "decimal": Decimal,
}


def _number(schema: Schema, value: float, where: str) -> Iterator[Flaw]:
    for name, (fits, words) in BOUNDS.items():
        if name in schema and not fits(value, schema[name]):
            yield Flaw(where, f"a number {words} {schema[name]}", value)


BOUNDS: Mapping[str, tuple[Callable[[float, float], bool], str]] = {
    "minimum": (lambda value, bound: value >= bound, "of at least"),
    "maximum": (lambda value, bound: value <= bound, "of at most"),
    "exclusiveMinimum": (lambda value, bound: value > bound, "above"),
    "exclusiveMaximum": (lambda value, bound: value < bound, "below"),
}
