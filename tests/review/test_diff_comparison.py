"""What changed between two rounds: the comparison turns one version of a file into the other."""

from hypothesis import HealthCheck, assume, given, settings

from detent.review.diff_comparison import (
    FileComparison,
    FilePair,
    changed_files,
    compared,
    paired_files,
)
from detent.review.unified_diff import Diff, parse_diff
from tests.review.edited_files import Story, stories
from tests.review.tree_repository import PROGRAM, Entry, Files, TreeRepository

EXAMPLES = settings(max_examples=250, suppress_health_check=list(HealthCheck))
WORDS = ("return None", "}", "", "pass", "else:")


def pair_of(story: Story, diffs: tuple[Diff, Diff]) -> FilePair:
    """The file of the story; both None if neither round changed it."""
    names = {story.first.name, story.second.name}
    found = [each for each in paired_files(*diffs) if each.path in names]
    live = [each for each in found if not _deleted(each)]
    return live[0] if live else FilePair(None, None)


def _deleted(pair: FilePair) -> bool:
    return all(each is None or each.status == "deleted" for each in pair)


def applied(comparison: FileComparison, content: bytes) -> bytes:
    """The later version, from the earlier one and the runs."""
    rows = content.decode().split("\n")[:-1]
    made: list[str] = []
    at = 0
    for run in comparison.runs:
        start = run.before_start - 1 if run.before_count else run.before_start
        made += rows[at:start]
        old = [line.text for line in run.lines if line.before is not None]
        assert rows[start : start + run.before_count] == old
        assert [line.before for line in run.lines if line.before is not None] == list(
            range(start + 1, start + 1 + run.before_count)
        )
        assert [line.after for line in run.lines if line.after is not None] == list(
            range(len(made) + 1, len(made) + 1 + run.after_count)
        )
        made += [line.text for line in run.lines if line.after is not None]
        at = start + run.before_count
    return "".join(f"{row}\n" for row in [*made, *rows[at:]]).encode()


def check(story: Story, diffs: tuple[Diff, Diff]) -> None:
    pair = pair_of(story, diffs)
    if pair == (None, None):
        assert story.first.content == story.second.content == story.base.content
        return
    assume(pair.old is None or pair.old.path == story.first.name)
    assume(pair.new is None or pair.new.path == story.second.name)
    comparison = compared(pair)
    assert not comparison.base_changed
    assert applied(comparison, story.first.content) == story.second.content
    if story.first.content == story.second.content:
        assert comparison.runs == ()


@EXAMPLES
@given(story=stories(None, renames=False))
def test_the_comparison_makes_the_second_version_of_the_first(
    repository: TreeRepository, story: Story
) -> None:
    check(story, story.diffs(repository))


@EXAMPLES
@given(story=stories(WORDS, renames=False))
def test_the_comparison_is_exact_with_equal_lines(repository: TreeRepository, story: Story) -> None:
    check(story, story.diffs(repository))


@EXAMPLES
@given(story=stories(WORDS))
def test_the_changed_files_are_those_that_git_finds(
    repository: TreeRepository, story: Story
) -> None:
    found = changed_files(*story.diffs(repository))
    trees = [repository.tree(each.files) for each in (story.first, story.second)]
    listed = repository.git("diff", "--name-only", "--no-renames", "-z", *trees).split(b"\0")[:-1]
    names = {name for pair in found for name in (pair.path, pair.old_path) if name is not None}
    assert names == {name.decode() for name in listed}


def diff_of(repository: TreeRepository, base: Files, now: Files) -> Diff:
    return parse_diff(repository.diff(repository.tree(base), repository.tree(now)))


def lines(*numbers: int) -> Entry:
    return Entry(b"".join(b"row %d\n" % each for each in numbers))


def test_a_file_that_only_one_round_changed(repository: TreeRepository) -> None:
    base = {b"f": lines(*range(20)), b"g": lines(1)}
    changed = {b"f": lines(*range(10), 99, *range(10, 20)), b"g": lines(1)}
    one, none = diff_of(repository, base, changed), diff_of(repository, base, base)
    ((added,), (removed,)) = (changed_files(*each) for each in ((none, one), (one, none)))
    (run,) = compared(added).runs
    assert (run.before_start, run.before_count) == (8, 6)
    assert [line.text for line in run.lines if line.kind == "added"] == ["row 99"]
    (run,) = compared(removed).runs
    assert [line.text for line in run.lines if line.kind == "removed"] == ["row 99"]


def test_a_change_of_the_mode_is_a_change(repository: TreeRepository) -> None:
    base = {b"f": lines(1)}
    first = diff_of(repository, base, {b"f": lines(1, 2)})
    second = diff_of(repository, base, {b"f": lines(1, 2)._replace(mode=PROGRAM)})
    (pair,) = changed_files(first, second)
    assert compared(pair).runs == ()
    assert changed_files(first, first) == ()


def test_a_last_line_that_loses_its_line_feed_is_a_change(repository: TreeRepository) -> None:
    first = diff_of(repository, {}, {b"f": Entry(b"one\n")})
    second = diff_of(repository, {}, {b"f": Entry(b"one")})
    (pair,) = changed_files(first, second)
    (run,) = compared(pair).runs
    assert [(line.kind, line.no_newline) for line in run.lines] == [
        ("removed", False),
        ("added", True),
    ]


def test_binary_files_are_compared_as_a_whole(repository: TreeRepository) -> None:
    trees = [{b"f": Entry(b"\0" * size)} for size in (10, 20, 30)]
    first, second = (diff_of(repository, trees[0], each) for each in trees[1:])
    (pair,) = changed_files(first, second)
    assert compared(pair).runs == ()
    assert changed_files(first, first) == ()


def test_another_base_is_reported(repository: TreeRepository) -> None:
    first = diff_of(repository, {b"f": lines(*range(20))}, {b"f": lines(*range(10), 99, 10, 11)})
    base = {b"f": lines(50, *range(20))}
    second = diff_of(repository, base, {b"f": lines(50, *range(10), 99, 98, 10, 11)})
    (pair,) = changed_files(first, second)
    comparison = compared(pair)
    assert comparison.base_changed
    changes = {line.text: line.kind for run in comparison.runs for line in run.lines}
    assert changes["row 98"] == "added"
    assert changes["row 99"] == "context"
