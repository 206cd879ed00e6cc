"""Suggests the known name that a misspelled one probably means."""

from collections.abc import Iterable

#: Longer names are not compared: the comparison would take long.
LONGEST = 100


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """A question that names the closest known name and ends with a space; "" if none is close."""
    from difflib import get_close_matches  # imported late: commands start fast

    close = get_close_matches(str(given), list(known), 1) if len(str(given)) <= LONGEST else ()
    return f"Did you mean {close[0]}? " if close else ""
