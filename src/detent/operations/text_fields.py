"""Checks of strings and lists of strings in the input of operations."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid
from detent.submission.request import MAX_NAME, MAX_TITLE


def text(
    body: Mapping[str, Any], name: str, default: str | None = None, longest: int = MAX_NAME
) -> str:
    """The string in a field of a body; required unless there is a default."""
    value = body.get(name, default)
    if value is None:
        raise Invalid(f"{name} is missing.", field=name)
    if not isinstance(value, str) or len(value) > longest:
        raise Invalid(
            f"{name} must be text of at most {longest} characters, not {value!r:.80}.",
            field=name,
            given=value,
        )
    return value


def reason_from(given: str | None) -> str | None:
    """The reason that a person gave, checked."""
    return None if given is None else text({"reason": given}, "reason", longest=MAX_TITLE)


def texts(body: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    """The list of strings in a field of a body, without duplicates."""
    values = body.get(name, ())
    if isinstance(values, str) or not all(isinstance(each, str) and each for each in values):
        raise Invalid(
            f"{name} must be a list of non-empty strings, not {values!r:.80}.",
            field=name,
            given=values,
        )
    if len(values) > most:
        raise Invalid(
            f"{name} must have at most {most} entries, not {len(values)}.",
            field=name,
            given=len(values),
        )
    return tuple(dict.fromkeys(values))
