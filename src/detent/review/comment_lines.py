"""The lines of a diff that a comment is about: found in the diff and quoted, or refused. Pure."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from detent.errors import Invalid
from detent.kernel.decide.comments import SIDES
from detent.review.comment_places import Anchor
from detent.review.unified_diff import Diff, Side

#: The maximum number of lines that a comment can be about, and how much of each is quoted.
MAX_LINES = 500
LONGEST_QUOTE = 2_000
MAX_LISTED = 20


class Lines(NamedTuple):
    """Lines of a file of a diff, as a request names them."""

    diff: str
    file: str
    side: str
    start: int
    end: int


def check_side(side: str) -> Side:
    """The side, if it is one."""
    if side not in SIDES:
        raise Invalid(
            f"side must be before or after, not {side!r}.",
            field="side",
            given=side,
            allowed=SIDES,
        )
    return "before" if side == "before" else "after"


def anchor_in(diff: Diff, given: Lines) -> Anchor:
    """The anchor of a comment with the lines that it quotes, if the diff shows them."""
    side = check_side(given.side)
    file = diff.file(given.file)
    if file is None:
        paths = [each.path for each in diff.files]
        raise Invalid(
            f"The diff has no file {given.file!r}.",
            field="file",
            given=given.file,
            allowed=paths[:MAX_LISTED],
        )
    quoted = _quoted(file.lines(side), given)
    return Anchor(given.diff, given.file, side, given.start, given.end, quoted)


def _quoted(shown: Mapping[int, str], given: Lines) -> tuple[str, ...]:
    """The lines that the comment is about; refused if the diff does not show one of them."""
    if given.start == given.end == 0:
        return ()
    for name, number in (("start", given.start), ("end", given.end)):
        if number not in shown:
            raise _not_shown(given, name, number, _ranges(shown))
    if not 0 <= given.end - given.start < MAX_LINES:
        form = f"start <= end, and at most {MAX_LINES} lines"
        raise Invalid(
            f"A comment must be about {form}; not {given.start} to {given.end}.",
            field="end",
            given=given.end,
            allowed=(form,),
        )
    numbers = range(given.start, given.end + 1)
    hidden = [number for number in numbers if number not in shown]
    if hidden:
        raise _not_shown(given, "start", hidden[0], _ranges(shown))
    return tuple(shown[number][:LONGEST_QUOTE] for number in numbers)


def _not_shown(given: Lines, name: str, number: int, ranges: list[str]) -> Invalid:
    whole = "0 and 0 for a comment on the whole file"
    listed = ", ".join(ranges[:MAX_LISTED])
    lines = f"It shows the lines {listed}." if ranges else "It shows no lines of it."
    return Invalid(
        f"Line {number} of {given.file!r} is not in the diff on the side {given.side}. {lines}",
        field=name,
        given=number,
        allowed=(*ranges[:MAX_LISTED], whole),
        hint=f"Comment on lines that the diff shows, or give start and end as {whole}.",
    )


def _ranges(numbers: Iterable[int]) -> list[str]:
    """Line numbers as ranges, such as `3-7`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [f"{first}-{last}" if first < last else str(first) for first, last in found]
