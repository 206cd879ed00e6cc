"""Conversion of values: from Python to the JSON that is stored, and back to annotated types.

Dataclasses, msgspec structs and pydantic models are converted. pydantic is not imported: its models
are recognised by their methods.
"""

import json
import re
from typing import Any

import msgspec

from detent.errors import Invalid, TooLarge

#: The largest result, checkpoint or payload, as JSON.
MAX_BYTES = 1_048_576

LARGE_INT = 1 << 63
SHORT_TEXT = 1_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_PLACE = re.compile(r"^(?P<text>.*?)(?: - at `\$?(?P<path>.*)`)?$", re.DOTALL)


def storable(value: Any, what: str) -> Any:
    """The value as JSON values; Invalid if it has no JSON form, TooLarge if it is too large."""
    if value is None or value is True or value is False or _is_small(value):
        return value
    try:
        plain = msgspec.to_builtins(value, str_keys=True, enc_hook=_plain)
        encoded = _encode(plain)
        if b"null" in encoded:
            json.dumps(plain, allow_nan=False)  # msgspec writes NaN as null, which is another value
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise _unstorable(value, what, error) from None
    if len(encoded) > MAX_BYTES:
        raise TooLarge(
            f"{what} is {len(encoded):,} bytes as JSON; {MAX_BYTES:,} are allowed. "
            "Store large data in a file or as evidence, and pass its name instead.",
            limit=MAX_BYTES,
        )
    return plain if isinstance(plain, str) else _decode(encoded)


def storable_text(text: str) -> str:
    """The text with a replacement for each character that a store refuses: NUL, lone surrogates."""
    paired = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return paired.replace("\0", "\ufffd")


def _is_small(value: Any) -> bool:
    """Whether it is a short plain value that needs no conversion, as most results are."""
    kind = type(value)
    return (kind is int and -LARGE_INT < value < LARGE_INT) or (
        kind is str and len(value) < SHORT_TEXT and value.isascii()
    )


def _unstorable(value: Any, what: str, error: Exception) -> Invalid:
    return Invalid(
        f"{what} cannot be stored: {error}. It must be JSON: text, numbers, true, false, null, "
        "lists and objects of these, or a dataclass, a msgspec struct or a pydantic model.",
        field=what,
        given=type(value).__name__,
    )


def restored(value: Any, annotation: Any, where: str) -> Any:
    """A stored value in the annotated type; Invalid names the field that does not fit."""
    if annotation is Any:
        return value
    try:
        return msgspec.convert(value, annotation, str_keys=True, dec_hook=_model)
    except msgspec.ValidationError as error:
        found = _PLACE.match(str(error))
        path, text = (found["path"] or "", found["text"]) if found else ("", str(error))
        raise Invalid(f"{where}{path}: {text}.", field=where + path, given=value) from None


def fitted(value: Any, annotation: Any) -> Any:
    """A recorded result in the annotated type; as plain JSON if it does not fit.

    A wrong annotation must not make the result unreadable.
    """
    try:
        return restored(value, annotation, "value")
    except (Invalid, TypeError):
        return value


def unrestorable(annotation: Any) -> str | None:
    """The name of a type in the annotation that cannot be made from JSON; None if there is none."""
    try:
        nodes: list[Any] = [msgspec.inspect.type_info(annotation)]
    except TypeError as error:
        return str(error)
    seen: list[Any] = []
    while nodes:
        node = nodes.pop()
        if isinstance(node, msgspec.inspect.CustomType) and not is_model(node.cls):
            return getattr(node.cls, "__name__", str(node.cls))
        if isinstance(node, tuple):
            nodes.extend(node)
        elif isinstance(node, msgspec.Struct) and not any(node is each for each in seen):
            seen.append(node)
            nodes.extend(getattr(node, name) for name in node.__struct_fields__)
    return None


def is_model(annotation: Any) -> bool:
    """Whether it is a type with named fields: a dataclass, msgspec struct or pydantic model."""
    return isinstance(annotation, type) and (
        hasattr(annotation, "__dataclass_fields__")
        or hasattr(annotation, "__struct_fields__")
        or hasattr(annotation, "model_validate")
    )


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError(f"an object of type {type(value).__name__} has no JSON form")


def _model(kind: type, value: Any) -> Any:
    if isinstance(value, kind):
        return value
    if not hasattr(kind, "model_validate"):
        raise TypeError(f"a {kind.__name__} cannot be made from JSON")
    try:
        return kind.model_validate(value)
    except ValueError as error:
        raise ValueError(_first_flaw(error)) from None


def _first_flaw(error: Any) -> str:
    """The first error of a pydantic model, with its field."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
