"""Reads fields of a document from a user: each function returns a checked value or raises Invalid.

`where` is the path of the field as the writer knows it (`steps[2].needs`). Pure.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar

from detent.errors import Invalid

Choice = TypeVar("Choice", bound=StrEnum)


def table(given: object, where: str, allowed: Iterable[str] | None = None) -> Mapping[str, object]:
    """Return a table of named values; with `allowed`, every other name is refused."""
    if not isinstance(given, Mapping):
        raise wrong(where, "a table of names and values", given)
    known = None if allowed is None else tuple(allowed)
    for name in given:
        if not isinstance(name, str):
            raise wrong(where, "a table whose names are text", given)
        if known is not None and name not in known:
            field = f"{where}.{name}" if where else name
            message = f"{field} is not known. Known: {', '.join(known)}."
            raise Invalid(message, field=field, given=name, allowed=known)
    return given


def whole_number(given: object, where: str, least: int, most: int) -> int:
    """Return an integer within bounds; True and False are refused."""
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        bounds = f"{least}..{most}"
        raise wrong(where, f"a whole number in {bounds}", given, (bounds,))
    return given


def flag(given: object, where: str) -> bool:
    """Return true or false."""
    if isinstance(given, bool):
        return given
    raise wrong(where, "true or false", given)


def text(given: object, where: str, most: int) -> str:
    """Return printable text of 1 to `most` characters without spaces around it."""
    fits = isinstance(given, str) and 0 < len(given) <= most
    if not fits or not str(given).isprintable() or str(given) != str(given).strip():
        raise wrong(where, f"printable text of 1 to {most} characters, no space around it", given)
    return str(given)


def texts(given: object, where: str, most: int) -> tuple[str, ...]:
    """Return a list of different texts."""
    if not isinstance(given, list | tuple):
        raise wrong(where, "a list", given)
    read = tuple(text(each, f"{where}[{index}]", most) for index, each in enumerate(given))
    for index, each in enumerate(read):
        if each in read[:index]:
            field = f"{where}[{index}]"
            raise Invalid(f"{field} names {each!r} a second time.", field=field, given=each)
    return read


def choice(given: object, where: str, choices: type[Choice]) -> Choice:
    """Return a value of an enumeration, given in any letter case."""
    allowed = tuple(choices)
    for each in allowed:
        if isinstance(given, str) and given.casefold() == each.casefold():
            return each
    raise wrong(where, f"one of {', '.join(allowed)}", given, allowed)


def wrong(where: str, wanted: str, given: object, allowed: Iterable[str] = ()) -> Invalid:
    """Return the error that names the field, what it must be, and the given value, shortened."""
    try:
        shown = repr(given)
    except (ValueError, RecursionError):  # an integer of thousands of digits, a very deep list
        shown = "something too large to print"
    if len(shown) > 80:
        shown = f"{shown[:77]}..."
    message = f"{where} must be {wanted}, not {shown}."
    return Invalid(message, field=where, given=given, allowed=allowed)
