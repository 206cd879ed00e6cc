"""Comparison of two diffs of a task: what changed between two rounds of work. Pure.

Neither diff has whole files, but two diffs with the same base are enough: every line that one of
them changed is shown, and every base line that neither shows as removed is the same in both.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from detent.review.comment_places import successor
from detent.review.line_alignment import (
    Layout,
    aligned,
    common_part_ids,
    in_order,
    layout_of,
    longest_in_order,
    same_base,
)
from detent.review.unified_diff import Diff, FileDiff, Line

#: How many unchanged lines are shown around a change.
CONTEXT = 3


class FilePair(NamedTuple):
    """A file in both diffs; None where a diff does not contain it."""

    old: FileDiff | None
    new: FileDiff | None

    @property
    def path(self) -> str:
        """The present name; for a file that is deleted now, the last name that it had."""
        if self.new is None:
            assert self.old is not None
            return self.old.base_path or self.old.path
        if _is_deleted(self.new) and self.old is not None:
            return self.old.path
        return self.new.path

    @property
    def old_path(self) -> str | None:
        """The name in the earlier diff, if the file has another one now."""
        if self.old is None:
            old = None if self.new is None else self.new.base_path
        else:
            old = None if _is_deleted(self.old) else self.old.path
        return None if old == self.path else old


class LineRun(NamedTuple):
    """Consecutive lines of a comparison: `before` numbers the earlier version of the file."""

    before_start: int
    before_count: int
    after_start: int
    after_count: int
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class FileComparison:
    """How a file changed from one diff to the other."""

    runs: tuple[LineRun, ...]
    #: Whether the diffs have different bases: then only lines that both show are compared.
    base_changed: bool

    @property
    def added(self) -> int:
        return sum(line.kind == "added" for run in self.runs for line in run.lines)

    @property
    def removed(self) -> int:
        return sum(line.kind == "removed" for run in self.runs for line in run.lines)


def changed_files(old: Diff, new: Diff) -> tuple[FilePair, ...]:
    """The files that the two diffs leave with different names, modes or contents."""
    return tuple(pair for pair in paired_files(old, new) if differs(pair))


def paired_files(old: Diff, new: Diff) -> Iterator[FilePair]:
    """All files of both diffs, each with what it is in the other one; those of `new` first.

    A file that one diff renames and the other deletes, while both have its new name, is left out.
    """
    taken: set[str] = set()
    for file in sorted(new.files, key=_is_deleted):
        if _is_deleted(file):
            earlier = old.with_base(file.path)
            if earlier is not None and earlier.path in taken:
                continue
        else:
            earlier = successor(new, file, old, "after")
        earlier = None if earlier is None or earlier.path in taken else earlier
        taken.update([] if earlier is None else [earlier.path])
        yield FilePair(earlier, file)
    for file in old.files:
        if file.path not in taken and not (_is_deleted(file) and new.with_base(file.path)):
            yield FilePair(file, None)


def _is_deleted(file: FileDiff) -> bool:
    return file.status == "deleted"


def differs(pair: FilePair) -> bool:
    """Whether the file has another name, mode or content in the later diff."""
    old, new = pair
    if old is None or new is None:
        return True
    facts = [(each.path, _is_deleted(each), each.new_mode) for each in pair if each]
    if facts[0] != facts[1]:
        return True
    if old.new_blob is not None and new.new_blob is not None:
        return old.new_blob != new.new_blob
    return bool(compared(pair).runs)


def compared(pair: FilePair) -> FileComparison:
    """The lines that changed from the earlier version of a file to the later one."""
    old = pair.old or _unchanged(pair.new)
    new = pair.new or _unchanged(pair.old)
    exact = same_base(old, new)
    rows = _rows_by_base(old, new) if exact else _rows_by_text(old, new)
    return FileComparison(tuple(_runs(list(rows))), not exact)


def _unchanged(file: FileDiff | None) -> FileDiff:
    """The file as a diff has it that does not mention it: equal to the base."""
    assert file is not None
    return replace(file, hunks=(), new_blob=file.old_blob)


# ---- lines, by the base ----------------------------------------------------------------------


class Numbered(NamedTuple):
    """A line of one version."""

    text: str
    no_newline: bool
    number: int


class Numbers:
    """The number that each kept base line has in a version."""

    def __init__(self, layout: Layout) -> None:
        self.added = sorted(layout.added.values())
        self.removed = sorted(layout.removed)

    def of(self, base: int) -> int:
        return base + bisect_left(self.added, base) - bisect_left(self.removed, base)


def _rows_by_base(old: FileDiff, new: FileDiff) -> Iterator[Line]:
    """All lines of both versions that are known, in order."""
    layouts = layout_of(old), layout_of(new)
    numbers = Numbers(layouts[0]), Numbers(layouts[1])
    base = {**_base_lines(old), **_base_lines(new)}
    removed = layouts[0].removed | layouts[1].removed
    part_of = common_part_ids(removed)
    parts = [
        _parts(file, layout, number, base, layouts[1 - at].removed - layout.removed, part_of)
        for at, (file, layout, number) in enumerate(zip((old, new), layouts, numbers, strict=True))
    ]
    for at in sorted({*(base.keys() - removed), *parts[0], *parts[1]}):
        if at in base and at not in removed:
            line = base[at]
            places = numbers[0].of(at), numbers[1].of(at)
            yield Line("context", line.text, *places, line.no_newline)
        yield from _merged(parts[0].get(at, []), parts[1].get(at, []))


def _base_lines(file: FileDiff) -> Mapping[int, Line]:
    shown = (line for hunk in file.hunks for line in hunk.lines)
    return {line.before: line for line in shown if line.before is not None}


def _parts(
    file: FileDiff,
    layout: Layout,
    numbers: Numbers,
    base: Mapping[int, Line],
    only_here: frozenset[int],
    part_of: Mapping[int, int],
) -> Mapping[int, list[Numbered]]:
    """By the base line that precedes them, the lines of a version that are not in both."""
    found: defaultdict[int, list[Numbered]] = defaultdict(list)
    for hunk in file.hunks:
        for line in hunk.lines:
            if line.kind == "added" and line.after is not None:
                at = layout.added[line.after]
                row = Numbered(line.text, line.no_newline, line.after)
                found[part_of.get(at, at)].append(row)
    for at in only_here:
        kept = base[at]
        found[part_of[at]].append(Numbered(kept.text, kept.no_newline, numbers.of(at)))
    for rows in found.values():
        rows.sort(key=lambda row: row.number)
    return found


def _merged(old: Sequence[Numbered], new: Sequence[Numbered]) -> Iterator[Line]:
    """The lines of both versions, with equal ones once."""
    keys = [{at: row[:2] for at, row in enumerate(rows)} for rows in (old, new)]
    pairs = sorted(in_order(keys[0], keys[1], range(len(old)), range(len(new))))
    our_at = their_at = 0
    for ours, theirs in [*pairs, (len(old), len(new))]:
        yield from _one_sided("removed", old[our_at:ours])
        yield from _one_sided("added", new[their_at:theirs])
        if ours < len(old):
            row = old[ours]
            yield Line("context", row.text, row.number, new[theirs].number, row.no_newline)
        our_at, their_at = ours + 1, theirs + 1


def _one_sided(kind: str, rows: Sequence[Numbered]) -> Iterator[Line]:
    for text, no_newline, number in rows:
        if kind == "added":
            yield Line("added", text, None, number, no_newline)
        else:
            yield Line("removed", text, number, None, no_newline)


# ---- lines, by their text --------------------------------------------------------------------


def _rows_by_text(old: FileDiff, new: FileDiff) -> Iterator[Line]:
    """The lines that the two diffs show, in order; lines that one does not show are unknown."""
    pairs = longest_in_order(sorted(aligned(old, new, "after").items()))
    ours, theirs = _numbered(old), _numbered(new)
    our_at = their_at = 0
    for one, two in [*pairs, (0, 0)]:
        our_end = _index(ours, one) if one else len(ours)
        their_end = _index(theirs, two) if two else len(theirs)
        yield from _one_sided("removed", ours[our_at:our_end])
        yield from _one_sided("added", theirs[their_at:their_end])
        if one:
            row = ours[our_end]
            yield Line("context", row.text, one, two, row.no_newline)
        our_at, their_at = our_end + 1, their_end + 1


def _numbered(file: FileDiff) -> Sequence[Numbered]:
    shown = (line for hunk in file.hunks for line in hunk.lines)
    return [
        Numbered(line.text, line.no_newline, line.after) for line in shown if line.after is not None
    ]


def _index(rows: Sequence[Numbered], number: int) -> int:
    return bisect_left(rows, number, key=lambda row: row.number)


# ---- runs ------------------------------------------------------------------------------------


def _runs(rows: Sequence[Line]) -> Iterator[LineRun]:
    """The changed lines with some unchanged ones around them, as runs without gaps."""
    wanted = [False] * len(rows)
    for at, row in enumerate(rows):
        if row.kind != "context":
            for near in range(max(0, at - CONTEXT), min(len(rows), at + CONTEXT + 1)):
                wanted[near] = True
    run: list[Line] = []
    last = begun_after = (0, 0)
    for row, want in zip(rows, wanted, strict=True):
        if run and not (want and _follows(last, row)):
            yield from _run(run, begun_after)
            run = []
        if want:
            begun_after = begun_after if run else last
            run.append(row)
        last = row.before or last[0], row.after or last[1]
    yield from _run(run, begun_after)


def _follows(last: tuple[int, int], row: Line) -> bool:
    """Whether no line is missing between the last numbers and a row."""
    return row.before in (None, last[0] + 1) and row.after in (None, last[1] + 1)


def _run(rows: Sequence[Line], last: tuple[int, int]) -> Iterator[LineRun]:
    """The rows as a run, if something changed; `last` are the numbers of the lines before it."""
    if all(row.kind == "context" for row in rows):
        return
    before = [row.before for row in rows if row.before is not None]
    after = [row.after for row in rows if row.after is not None]
    starts = before[0] if before else last[0], after[0] if after else last[1]
    yield LineRun(starts[0], len(before), starts[1], len(after), tuple(rows))
