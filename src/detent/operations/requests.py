"""Texts and lists of texts in the input of operations that change names, limits and webhooks."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid
from detent.submission.request import MAX_NAME, MAX_TITLE


def text(
    body: Mapping[str, Any], name: str, default: str | None = None, longest: int = MAX_NAME
) -> str:
    """A text of a body, which must be there unless it has a default."""
    value = body.get(name, default)
    if value is None:
        raise Invalid(f"{name} is missing.", field=name)
    if not isinstance(value, str) or len(value) > longest:
        raise Invalid(
            f"{name} must be a text of at most {longest} characters.", field=name, given=value
        )
    return value


def reason_from(given: str | None) -> str | None:
    """A remark of a person for the record."""
    return None if given is None else text({"reason": given}, "reason", longest=MAX_TITLE)


def texts(body: Mapping[str, Any], name: str, most: int) -> tuple[str, ...]:
    """A list of texts of a body, each once."""
    values = body.get(name, ())
    if isinstance(values, str) or not all(isinstance(each, str) and each for each in values):
        raise Invalid(f"{name} must be a list of texts.", field=name, given=values)
    if len(values) > most:
        raise Invalid(f"{name} has more than {most} entries.", field=name, given=len(values))
    return tuple(dict.fromkeys(values))
