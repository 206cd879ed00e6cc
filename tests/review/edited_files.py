"""Random versions of a file for hypothesis: lines are inserted, removed, replaced and moved.

A line is an object, so that a test knows which line of one version is which of the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from hypothesis import strategies as st

from detent.review.unified_diff import Diff, parse_diff
from tests.review.tree_repository import Entry, Files, TreeRepository

NAMES = ("file.txt", "other name.txt", "dir/third.txt")
KINDS = ("insert", "remove", "replace", "move")


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a file; equal only to itself."""

    text: str


@dataclass(frozen=True)
class Version:
    """A file with a name."""

    name: str
    lines: tuple[Line, ...]

    @property
    def content(self) -> bytes:
        return "".join(line.text + "\n" for line in self.lines).encode()

    @property
    def files(self) -> Files:
        """Its tree: with another file beside it, so that it is not the only one of a diff."""
        beside = Entry(b"beside %d\n" % len(self.lines))
        return {self.name.encode(): Entry(self.content), b"beside.txt": beside}


@dataclass(frozen=True)
class Story:
    """A base and two rounds of work."""

    base: Version
    first: Version
    second: Version

    def diffs(self, repository: TreeRepository) -> tuple[Diff, Diff]:
        """The diffs of both rounds against the base, as git makes them."""
        base, first, second = (
            repository.tree(each.files) for each in (self.base, self.first, self.second)
        )
        return tuple(parse_diff(repository.diff(base, each)) for each in (first, second))  # type: ignore[return-value]


@st.composite
def stories(draw: Any, texts: Sequence[str] | None, *, renames: bool = True) -> Story:
    """A story whose lines have these texts; None gives each line a text of its own."""
    numbers = count()

    def line() -> Line:
        text = f"line {next(numbers)}" if texts is None else draw(st.sampled_from(texts))
        return Line(text)

    names = st.sampled_from(NAMES if renames else NAMES[:1])
    base = Version(NAMES[0], tuple(line() for _ in range(draw(st.integers(0, 40)))))
    first = Version(draw(names), _edited(draw, base.lines, line))
    start = first if draw(st.booleans()) else base
    second = Version(draw(names), _edited(draw, start.lines, line))
    return Story(base, first, second)


def _edited(draw: Any, lines: Sequence[Line], line: Callable[[], Line]) -> tuple[Line, ...]:
    made = list(lines)
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(KINDS))
        at = draw(st.integers(0, len(made)))
        end = at if kind == "insert" else at + draw(st.integers(1, 6))
        taken = made[at:end]
        made[at:end] = [line() for _ in range(draw(st.integers(1, 6)))] if _adds(kind) else []
        if kind == "move":
            to = draw(st.integers(0, len(made)))
            made[to:to] = taken
    return tuple(made)


def _adds(kind: str) -> bool:
    return kind in ("insert", "replace")
