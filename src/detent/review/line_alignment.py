"""Alignment of the known lines of a file in two diffs: which line of one is which of the other.

A diff shows a part of a file, but it says exactly which lines of its base the file still has. Two
diffs with the same base are therefore aligned by it: a base line that both keep is the same line.
Between two such lines, the remaining lines are aligned by their text. Pure.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from typing import NamedTuple

from detent.review.unified_diff import FileDiff, Side

#: How many lines on each side of a line can make it recognisable among equal lines.
MAX_RADIUS = 3
#: The largest product of the lengths of two runs of lines that are compared line by line.
MAX_COMPARISONS = 1_000_000

Known = Mapping[int, str]
#: By the number of a line that can be matched, the part of the file within which order is kept.
Free = Mapping[int, int]


@lru_cache(maxsize=256)
def aligned(old: FileDiff, new: FileDiff, side: Side) -> Mapping[int, int]:
    """By the number of a line that `old` shows, the number of the same line in `new`.

    Lines that `new` does not have, or does not show, are left out. Both lines have the same text.
    """
    ours, theirs = old.lines(side), new.lines(side)
    if _same_content(old, new, side):
        return {number: number for number in ours if number in theirs}
    if side == "after" and same_base(old, new):
        return _aligned_by_base(old, new)
    whole = dict.fromkeys(ours, 0), dict.fromkeys(theirs, 0)
    return _aligned_by_text(ours, theirs, *whole, {})


def same_base(old: FileDiff, new: FileDiff) -> bool:
    """Whether both diffs describe changes of the same content."""
    if old.truncated or new.truncated:
        return False  # which lines are kept is not known to the end
    if old.old_blob is not None and new.old_blob is not None:
        return _equal_names(old.old_blob, new.old_blob)
    ours, theirs = old.lines("before"), new.lines("before")
    return all(theirs.get(number, text) == text for number, text in ours.items())


def _same_content(old: FileDiff, new: FileDiff, side: Side) -> bool:
    if side == "before":
        return same_base(old, new)
    if old.new_blob is None or new.new_blob is None:
        return False
    return _equal_names(old.new_blob, new.new_blob)


def _equal_names(one: str, two: str) -> bool:
    """Whether two names of contents are equal; git may have shortened them."""
    length = min(len(one), len(two))
    return one[:length] == two[:length]


# ---- by the base -----------------------------------------------------------------------------


class Layout(NamedTuple):
    """What a diff says about the base of a file."""

    #: By the number of a base line that is shown and kept, its number now.
    kept: Mapping[int, int]
    removed: frozenset[int]
    #: By the number of an added line, the number of base lines that precede it.
    added: Mapping[int, int]


def layout_of(file: FileDiff) -> Layout:
    """Which base lines a file keeps and removes, and where it adds lines."""
    kept: dict[int, int] = {}
    removed: set[int] = set()
    added: dict[int, int] = {}
    for hunk in file.hunks:
        base = hunk.base_before
        for line in hunk.lines:
            base = base if line.before is None else line.before
            if line.after is None:
                removed.add(base)
            elif line.before is None:
                added[line.after] = base
            else:
                kept[base] = line.after
    return Layout(kept, frozenset(removed), added)


def _aligned_by_base(old: FileDiff, new: FileDiff) -> Mapping[int, int]:
    ours, theirs = layout_of(old), layout_of(new)
    part_of = common_part_ids(ours.removed | theirs.removed)
    known = old.lines("after"), new.lines("after")
    # Among equal lines git pairs arbitrary ones; a line with its neighbours is not arbitrary.
    certain = _recognised(*known, *known, [MAX_RADIUS])
    taken = set(certain.values())
    kept = {ours.kept[base]: theirs.kept[base] for base in ours.kept if base in theirs.kept}
    free = _free(ours, theirs, part_of), _free(theirs, ours, part_of)
    return {
        **{one: two for one, two in kept.items() if two not in taken},
        **_aligned_by_text(*known, *free, certain),
    }


def common_part_ids(removed: frozenset[int]) -> Mapping[int, int]:
    """By the number of a base line that one side removed, the last line before that both keep."""
    found: dict[int, int] = {}
    for base in sorted(removed):
        found[base] = found.get(base - 1, base - 1)
    return found


def _free(own: Layout, other: Layout, part_of: Mapping[int, int]) -> Free:
    """The lines that the base does not match: added lines, and lines that the other removed."""
    added = {number: part_of.get(base, base) for number, base in own.added.items()}
    gone = {own.kept[base]: part_of[base] for base in own.kept if base in other.removed}
    return {**added, **gone}


# ---- by the text -----------------------------------------------------------------------------


def _aligned_by_text(
    ours: Known, theirs: Known, our_free: Free, their_free: Free, certain: Mapping[int, int]
) -> dict[int, int]:
    """Match free lines of equal text: recognisable ones anywhere, the others in order."""
    taken = set(certain.values())
    own = [number for number in our_free if number not in certain]
    other = [number for number in their_free if number not in taken]
    matched = {**certain, **_recognised(ours, theirs, own, other, range(MAX_RADIUS + 1))}
    for one, two in _runs(our_free, their_free, matched):
        matched.update(in_order(ours, theirs, one, two))
    _extend(ours, theirs, our_free, their_free, matched)
    return matched


def _recognised(
    ours: Known, theirs: Known, own: Iterable[int], other: Iterable[int], radii: Iterable[int]
) -> dict[int, int]:
    """Lines that occur once in each file, by themselves or with their neighbours."""
    matched: dict[int, int] = {}
    our_left, their_left = set(own), set(other)
    for radius in radii:
        unique = _unique_windows(theirs, their_left, radius)
        for window, number in _unique_windows(ours, our_left, radius).items():
            if window in unique:
                matched[number] = unique[window]
        our_left.difference_update(matched)
        their_left.difference_update(matched.values())
    return matched


def _unique_windows(known: Known, free: Collection[int], radius: int) -> dict[tuple[str, ...], int]:
    """By the text of a free line and its neighbours, its number, if the text occurs once."""
    texts = {known[number] for number in free}
    counts: Counter[tuple[str, ...]] = Counter()
    found: dict[tuple[str, ...], int] = {}
    for number, text in known.items():
        if text not in texts:
            continue
        window = tuple(
            known[near] for near in range(number - radius, number + radius + 1) if near in known
        )
        if len(window) == 2 * radius + 1:
            counts[window] += 1
            found[window] = number
    return {
        window: number
        for window, number in found.items()
        if counts[window] == 1 and number in free and any(map(_significant, window))
    }


def _significant(text: str) -> bool:
    """Whether a line can be recognised: brackets and empty lines are equal by chance."""
    return any(character.isalnum() for character in text)


def _runs(
    our_free: Free, their_free: Free, matched: Mapping[int, int]
) -> Iterator[tuple[list[int], list[int]]]:
    """Runs of unmatched lines of both files between lines that are matched in order."""
    own, other = _by_part(our_free), _by_part(their_free)
    taken = set(matched.values())
    for part in own.keys() & other.keys():
        inside = {number: matched[number] for number in own[part] if number in matched}
        pairs = [pair for pair in inside.items() if their_free.get(pair[1]) == part]
        bounds = [*longest_in_order(pairs), (own[part][-1] + 1, other[part][-1] + 1)]
        our_left = [number for number in own[part] if number not in matched]
        their_left = [number for number in other[part] if number not in taken]
        our_at = their_at = 0
        for our_bound, their_bound in bounds:
            our_end = bisect_left(our_left, our_bound, our_at)
            their_end = bisect_left(their_left, their_bound, their_at)
            if our_end > our_at and their_end > their_at:
                yield our_left[our_at:our_end], their_left[their_at:their_end]
            our_at, their_at = our_end, their_end


def _by_part(free: Free) -> Mapping[int, list[int]]:
    found: defaultdict[int, list[int]] = defaultdict(list)
    for number in sorted(free):
        found[free[number]].append(number)
    return found


def longest_in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest selection of pairs, sorted by their first numbers, whose second ones rise."""
    ends: list[int] = []  # by length, the smallest second number that a selection ends with
    last: list[int] = []  # the index of the pair of that end
    previous: list[int] = []
    for index, (_, second) in enumerate(pairs):
        at = bisect_left(ends, second)
        ends[at : at + 1], last[at : at + 1] = [second], [index]
        previous.append(last[at - 1] if at else -1)
    chosen: list[tuple[int, int]] = []
    index = last[-1] if last else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = previous[index]
    return chosen[::-1]


def in_order(
    ours: Mapping[int, Hashable],
    theirs: Mapping[int, Hashable],
    own: Sequence[int],
    other: Sequence[int],
) -> Iterator[tuple[int, int]]:
    """Pairs of equal lines of two runs, in order."""
    first, second = [ours[each] for each in own], [theirs[each] for each in other]
    start = _common(first, second)
    end = _common(first[start:][::-1], second[start:][::-1])
    yield from zip(own[:start], other[:start], strict=True)
    yield from zip(own[len(own) - end :], other[len(other) - end :], strict=True)
    first, second = first[start : len(first) - end], second[start : len(second) - end]
    if len(first) * len(second) > MAX_COMPARISONS:
        return
    for block in SequenceMatcher(None, first, second, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            yield own[start + block.a + step], other[start + block.b + step]


def _common(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The number of equal lines at the beginning."""
    for at, (one, two) in enumerate(zip(first, second, strict=False)):
        if one != two:
            return at
    return min(len(first), len(second))


def _extend(
    ours: Known, theirs: Known, our_free: Free, their_free: Free, matched: dict[int, int]
) -> None:
    """Match equal neighbours of matched lines, so that a moved block moves as a whole."""
    taken = set(matched.values())
    for one, two in list(matched.items()):
        for step in (1, -1):
            own, other = one + step, two + step
            while (
                own in our_free
                and other in their_free
                and own not in matched
                and other not in taken
                and ours[own] == theirs[other]
            ):
                matched[own] = other
                taken.add(other)
                own, other = own + step, other + step
