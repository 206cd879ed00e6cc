"""Checks of strings and lists of strings in the input of operations."""

from collections.abc import Sequence

from detent.errors import Invalid
from detent.submission.request import MAX_NAME, MAX_TITLE


def text(value: str, name: str, longest: int = MAX_NAME) -> str:
    """The value of a field, if it is a string that is not too long."""
    if not isinstance(value, str) or len(value) > longest:
        raise Invalid(
            f"{name} must be text of at most {longest} characters, not {value!r:.80}.",
            field=name,
            given=value,
        )
    return value


def reason_from(given: str | None) -> str | None:
    """The reason that a person gave, checked."""
    return None if given is None else text(given, "reason", longest=MAX_TITLE)


def texts(values: Sequence[str], name: str, most: int) -> tuple[str, ...]:
    """The values of a field, if they are strings and not too many, without duplicates."""
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
