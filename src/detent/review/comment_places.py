"""Places of comments: where a comment that was written for one diff is in another one. Pure.

A comment moves with its lines. If one of them is no longer shown with the same text, or if they
are no longer consecutive, the comment is outdated.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from detent.review.line_alignment import aligned
from detent.review.unified_diff import Diff, FileDiff, Side

#: The start and the end of a comment on a whole file.
WHOLE_FILE = 0
#: The share of its lines that a new file must have to be the successor of a file that is gone.
MIN_SIMILARITY = 0.5
#: The maximum number of new files among which the successor is searched.
MAX_CANDIDATES = 100


class Anchor(NamedTuple):
    """The lines for which a comment was written."""

    #: The SHA-256 of the diff.
    diff: str
    file: str
    side: Side
    start: int
    end: int
    #: The text of the lines.
    quoted: Sequence[str] = ()


class Place(NamedTuple):
    """The lines of another diff at which a comment is."""

    file: str
    side: Side
    start: int
    end: int


def place_in(anchor: Anchor, before: Diff | None, now: Diff) -> Place | None:
    """Where a comment is in the diff `now`; None if it is outdated.

    `before` is the diff that it was written for. If that is not known, the quoted lines decide.
    """
    written = None if before is None else before.file(anchor.file)
    if before is None or written is None:
        return _place_by_quote(anchor, now)
    file = successor(before, written, now, anchor.side)
    if file is None:
        return None
    if anchor.start == WHOLE_FILE:
        return Place(file.path, anchor.side, WHOLE_FILE, WHOLE_FILE)
    start = _moved(anchor.start, anchor.end, aligned(written, file, anchor.side))
    return _place(anchor, file, start)


def _moved(start: int, end: int, lines: Mapping[int, int]) -> int | None:
    """The new number of the first line, if all lines follow each other as before."""
    first = lines.get(start)
    if first is None or end - start > len(lines):
        return None
    offset = first - start
    together = all(lines.get(each) == each + offset for each in range(start, end + 1))
    return first if together else None


def _place(anchor: Anchor, file: FileDiff, start: int | None) -> Place | None:
    if start is None:
        return None
    return Place(file.path, anchor.side, start, start + anchor.end - anchor.start)


# ---- files -----------------------------------------------------------------------------------


@lru_cache(maxsize=1_024)
def successor(before: Diff, file: FileDiff, now: Diff, side: Side) -> FileDiff | None:
    """What a file of one diff is in another one: it may have another name there."""
    base = None if file.base_path is None else now.with_base(file.base_path)
    if side == "before" and base is not None:
        return base
    for each in (base, now.file(file.path)):
        if each is not None and each.status != "deleted":
            return each
    return _most_similar(before, file, now) or base


def _most_similar(before: Diff, file: FileDiff, now: Diff) -> FileDiff | None:
    """The new file with the largest part of the lines of a file that is gone."""
    new = [
        each for each in now.files if each.base_path != each.path and before.file(each.path) is None
    ]
    if len(new) > MAX_CANDIDATES:
        return None
    lines = file.after_lines
    shares = [((lines & each.after_lines).total(), each) for each in new]
    most, found = max(shares, key=lambda share: share[0], default=(0, None))
    return found if most and most >= MIN_SIMILARITY * lines.total() else None


# ---- without the diff ------------------------------------------------------------------------


def _place_by_quote(anchor: Anchor, now: Diff) -> Place | None:
    """Where the quoted lines are: at their old numbers, or at the only place that has them."""
    file = now.file(anchor.file) or now.with_base(anchor.file)
    if file is None:
        return None
    if anchor.start == WHOLE_FILE:
        return Place(file.path, anchor.side, WHOLE_FILE, WHOLE_FILE)
    lines, quoted = file.lines(anchor.side), anchor.quoted
    if len(quoted) != anchor.end - anchor.start + 1:
        return None
    if _has(lines, anchor.start, quoted):
        return _place(anchor, file, anchor.start)
    found = [number for number in lines if _has(lines, number, quoted)]
    return _place(anchor, file, found[0] if len(found) == 1 else None)


def _has(lines: Mapping[int, str], start: int, quoted: Sequence[str]) -> bool:
    return all(lines.get(start + at) == text for at, text in enumerate(quoted))
