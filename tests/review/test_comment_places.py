"""Comments move with their lines from one diff to the next, or become outdated."""

from itertools import pairwise

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from detent.review.comment_places import Anchor, Place, place_in, successor
from detent.review.line_alignment import MAX_RADIUS, aligned
from detent.review.unified_diff import Diff, FileDiff, Side, parse_diff
from tests.review.edited_files import Story, Version, stories
from tests.review.tree_repository import Entry, TreeRepository

EXAMPLES = settings(max_examples=250, suppress_health_check=list(HealthCheck))
BRACKETS = ("{", "}", "", "};")
WORDS = ("return None", "}", "", "pass", "else:")


def anchor(file: FileDiff, side: Side, start: int, end: int | None = None) -> Anchor:
    end = start if end is None else end
    lines = file.lines(side)
    return Anchor("0" * 64, file.path, side, start, end, [lines[n] for n in range(start, end + 1)])


def shown(story: Story, diffs: tuple[Diff, Diff]) -> tuple[FileDiff, FileDiff | None]:
    """The file in both diffs; None if the second one does not have it."""
    first = diffs[0].file(story.first.name)
    assume(first is not None)
    assert first is not None
    return first, diffs[1].file(story.second.name)


def recognisable(first: FileDiff, second: FileDiff | None) -> bool:
    """Whether a file with another name and another base has enough lines of the first one."""
    if second is None or first.path == second.path or first.base_path == second.base_path:
        return True
    lines = list(first.lines("after").values())
    return 2 * sum(line in second.lines("after").values() for line in lines) >= len(lines) > 0


def texts_of(version: Version) -> list[str]:
    return [line.text for line in version.lines]


# ---- lines with a text of their own ----------------------------------------------------------


@EXAMPLES
@given(story=stories(None))
def test_a_comment_is_on_its_line_exactly_while_that_is_shown(
    repository: TreeRepository, story: Story
) -> None:
    before, now = story.diffs(repository)
    first, second = shown(story, (before, now))
    assume(recognisable(first, second))
    lines = {} if second is None else second.lines("after")
    number_of = {text: number for number, text in lines.items()}
    for start in first.lines("after"):
        for end in range(start, start + 3):
            if end not in first.lines("after"):
                break
            quoted = [first.lines("after")[each] for each in range(start, end + 1)]
            numbers = [number_of.get(text) for text in quoted]
            expected = None
            if None not in numbers and all(b == a + 1 for a, b in pairwise(numbers)):  # type: ignore[operator]
                expected = Place(story.second.name, "after", numbers[0], numbers[-1])  # type: ignore[arg-type]
            assert place_in(anchor(first, "after", start, end), before, now) == expected


@EXAMPLES
@given(story=stories(None))
def test_a_comment_on_the_old_file_keeps_its_number_while_that_is_shown(
    repository: TreeRepository, story: Story
) -> None:
    before, now = story.diffs(repository)
    file = next((each for each in before.files if each.base_path == story.base.name), None)
    assume(file is not None)
    assert file is not None
    other = next((each for each in now.files if each.base_path == story.base.name), None)
    for number in file.lines("before"):
        found = place_in(anchor(file, "before", number), before, now)
        if other is None or number not in other.lines("before"):
            assert found is None
        else:
            assert found == Place(other.path, "before", number, number)


# ---- equal lines -----------------------------------------------------------------------------


def check_texts(story: Story, first: FileDiff, before: Diff, now: Diff) -> list[Place]:
    """Every place has the quoted text; returns the places in the order of the comments."""
    found = []
    for number in sorted(first.lines("after")):
        written = anchor(first, "after", number)
        place = place_in(written, before, now)
        if place is not None:
            assert place.file == story.second.name
            assert texts_of(story.second)[place.start - 1] == written.quoted[0]
            found.append(place)
    return found


@EXAMPLES
@given(story=stories(WORDS))
def test_a_comment_is_never_on_another_text(repository: TreeRepository, story: Story) -> None:
    before, now = story.diffs(repository)
    first, _ = shown(story, (before, now))
    places = check_texts(story, first, before, now)
    assert len(set(places)) == len(places)


@EXAMPLES
@given(story=stories(BRACKETS))
def test_comments_on_lines_that_cannot_be_recognised_keep_their_order(
    repository: TreeRepository, story: Story
) -> None:
    before, now = story.diffs(repository)
    first, _ = shown(story, (before, now))
    places = check_texts(story, first, before, now)
    assert places == sorted(set(places))


@EXAMPLES
@given(story=stories(WORDS, renames=False))
def test_a_comment_with_unchanged_neighbours_has_a_place(
    repository: TreeRepository, story: Story
) -> None:
    before, now = story.diffs(repository)
    first, second = shown(story, (before, now))
    assume(second is not None)
    assert second is not None
    old, new = texts_of(story.first), texts_of(story.second)
    for number in first.lines("after"):
        near = range(number - MAX_RADIUS, number + MAX_RADIUS + 1)
        if not all(each in first.lines("after") for each in near):
            continue
        window = [old[each - 1] for each in near]
        if not any(text.strip("}") for text in window):
            continue
        found = [at for at in range(len(new)) if new[at : at + len(window)] == window]
        once = [at for at in range(len(old)) if old[at : at + len(window)] == window]
        if len(found) == len(once) == 1:
            moved = range(found[0] + 1, found[0] + 1 + len(window))
            if all(each in second.lines("after") for each in moved):
                assert place_in(anchor(first, "after", number), before, now) is not None


@EXAMPLES
@given(story=stories(WORDS), side=st.sampled_from(("before", "after")))
def test_nothing_moves_between_equal_diffs(
    repository: TreeRepository, story: Story, side: Side
) -> None:
    diff, again = Story(story.base, story.first, story.first).diffs(repository)
    for file in diff.files:
        for number in file.lines(side):
            written = anchor(file, side, number)
            expected = Place(file.path, side, number, number)
            assert place_in(written, diff, again) == expected
            assert place_in(written, diff, diff) == expected


@EXAMPLES
@given(story=stories(WORDS))
def test_without_the_diff_the_quoted_lines_decide(repository: TreeRepository, story: Story) -> None:
    before, now = story.diffs(repository)
    first, second = shown(story, (before, now))
    for start in first.lines("after"):
        end = start + 1
        if end not in first.lines("after"):
            continue
        written = anchor(first, "after", start, end)
        place = place_in(written, None, now)
        if place is not None:
            assert texts_of(story.second)[place.start - 1 : place.end] == written.quoted
        elif second is not None and second.path == first.path:
            lines = second.lines("after")
            pairs = [[lines[each], lines[each + 1]] for each in lines if each + 1 in lines]
            assert pairs.count(list(written.quoted)) != 1


# ---- chosen cases ----------------------------------------------------------------------------


def diffs_of(repository: TreeRepository, *contents: dict[bytes, str]) -> list[Diff]:
    trees = [
        repository.tree({name: Entry(text.encode()) for name, text in each.items()})
        for each in contents
    ]
    return [parse_diff(repository.diff(trees[0], each)) for each in trees[1:]]


def rows(*texts: str) -> str:
    return "".join(f"{text}\n" for text in texts)


def test_a_line_that_is_hidden_now_is_outdated_although_an_equal_line_was_added(
    repository: TreeRepository,
) -> None:
    base = [f"base {each}" for each in range(30)]
    base[5] = "return None"
    first, second = list(base), list(base)
    first[3] = "changed"
    second[25] = "return None"
    before, now = diffs_of(repository, *({b"f": rows(*each)} for each in (base, first, second)))
    file = before.file("f")
    assert file is not None
    assert file.lines("after")[6] == "return None"
    assert place_in(anchor(file, "after", 6), before, now) is None


def test_a_moved_block_takes_the_comments_on_its_plain_lines_with_it(
    repository: TreeRepository,
) -> None:
    block = ["def f():", "", "    return 1", "", ""]
    other = ["def g():", "", "    return 2", "", ""]
    before, now = diffs_of(
        repository, {}, {b"f": rows(*block, *other)}, {b"f": rows(*other, *block)}
    )
    file = before.file("f")
    assert file is not None
    places = [place_in(anchor(file, "after", number), before, now) for number in range(1, 5)]
    assert places == [Place("f", "after", number, number) for number in range(6, 10)]


def test_a_new_file_with_another_name_is_followed(repository: TreeRepository) -> None:
    text = rows("one", "two", "three", "four")
    before, now = diffs_of(
        repository, {}, {b"old": text, b"z": "z\n"}, {b"new": "zero\n" + text, b"z": "z\n"}
    )
    file = before.file("old")
    assert file is not None
    written = anchor(file, "after", 2, 3)
    assert place_in(written, before, now) == Place("new", "after", 3, 4)


def test_a_file_that_was_renamed_is_followed_although_another_has_its_name(
    repository: TreeRepository,
) -> None:
    text = [f"row {each}" for each in range(20)]
    first = [*text[:10], "mine", *text[10:]]
    before, now = diffs_of(
        repository,
        {b"f": rows(*text)},
        {b"f": rows(*first)},
        {b"f": rows("another", "file"), b"g": rows(*first)},
    )
    file = before.file("f")
    assert file is not None
    found = successor(before, file, now, "after")
    assert found is not None
    if found.path == "g":
        assert place_in(anchor(file, "after", 11), before, now) == Place("g", "after", 11, 11)
    else:  # git pairs files by name first: then the line is not shown in its file
        assert place_in(anchor(file, "after", 11), before, now) is None


def test_a_comment_on_a_file_is_on_the_file(repository: TreeRepository) -> None:
    text = rows("one", "two", "three", "four")
    before, kept, gone, deleted = diffs_of(
        repository, {b"f": text}, {b"f": text + "five\n"}, {b"g": text}, {b"f": text}, {}
    )
    written = Anchor("0" * 64, "f", "after", 0, 0, [])
    assert place_in(written, before, before) == Place("f", "after", 0, 0)
    assert place_in(written, before, kept) == Place("g", "after", 0, 0)
    assert place_in(written, before, gone) is None
    assert place_in(written, before, deleted) == Place("f", "after", 0, 0)
    assert place_in(written, None, kept) == Place("g", "after", 0, 0)


def test_a_diff_with_another_base_is_aligned_by_text(repository: TreeRepository) -> None:
    base = [f"row {each}" for each in range(20)]
    moved = ["new at the top", *base]
    (before,) = diffs_of(repository, {b"f": rows(*base)}, {b"f": rows(*base[:10], "x", *base[10:])})
    (now,) = diffs_of(repository, {b"f": rows(*moved)}, {b"f": rows(*moved[:11], "x", *moved[11:])})
    file = before.file("f")
    assert file is not None
    assert place_in(anchor(file, "after", 10, 12), before, now) == Place("f", "after", 11, 13)
    assert place_in(anchor(file, "before", 9, 10), before, now) == Place("f", "before", 10, 11)


def test_a_huge_range_and_an_unknown_file_have_no_place(repository: TreeRepository) -> None:
    (before,) = diffs_of(repository, {}, {b"f": "one\n"})
    huge = Anchor("0" * 64, "f", "after", 1, 10**12, ["one"])
    assert place_in(huge, before, before) is None
    assert place_in(huge, None, before) is None
    assert place_in(huge._replace(file="unknown", end=1), before, before) is None


def test_thousands_of_equal_lines_are_aligned(repository: TreeRepository) -> None:
    first = ["same"] * 6_000
    second = [*["same"] * 3_000, "new", *["same"] * 3_000]
    before, now = diffs_of(repository, {}, {b"f": rows(*first)}, {b"f": rows(*second)})
    old, new = before.file("f"), now.file("f")
    assert old is not None
    assert new is not None
    assert len(aligned(old, new, "after")) == 6_000
