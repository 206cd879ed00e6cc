"""The parser of diffs agrees with git, for all names and contents, and accepts any bytes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detent.review.git_names import text_of
from detent.review.unified_diff import Diff, FileDiff, Hunk, parse_diff
from tests.review.tree_repository import LINK, PROGRAM, Entry, Files, TreeRepository

HOSTILE = (
    b"plain",
    b"two words",
    b" x ",
    b"tab\there",
    b"line\nfeed",
    b"\nrename from x",
    b'"quoted"',
    b"back\\slash",
    b"\\377",
    b"x b",
    b"diff --git a b",
    b"rename to y",
    b"--- a",
    b"+++ b",
    b"@@ -1 +1 @@",
    b"\xff\xfe",
    "größe".encode(),
    "\N{GRINNING FACE}".encode(),
    b"\r",
    b"\x01\x1b[31m",
    b"{a => b}",
    b"...",
    b"null",
)
DIRECTORIES = (b"", b"a/", b"b/", b"a b/", b"x b/x/", b"dev/", b"d\ne/", b'"/', b"\xe9/")
ENDS = (b"\n", b"\n", b"\n", b"\r\n", b"\r\r\n")
TEXTS = (
    *(b"", b"one", b"two", b"-- x", b"++ y", b"-", b"\\ No newline at end of file", b"\xff\xfe"),
    *(b"diff --git a/x b/x", b"@@ -1,2 +1,2 @@", b"caf\xc3\xa9", b"a\rb", b" ", b"\x0c"),
)

names = st.builds(bytes.__add__, st.sampled_from(DIRECTORIES), st.sampled_from(HOSTILE))
lines = st.builds(bytes.__add__, st.sampled_from(TEXTS), st.sampled_from(ENDS))
texts = st.builds(
    bytes.__add__, st.lists(lines, max_size=30).map(b"".join), st.sampled_from((b"", b"last"))
)
contents = st.one_of(texts, texts, st.binary(max_size=60), st.just(b"\0\1\2" * 40))
entries = st.builds(Entry, contents, st.sampled_from((b"100644", b"100644", PROGRAM, LINK)))
trees = st.dictionaries(names, entries, max_size=4)


class Row(NamedTuple):
    """What `git diff --raw` reports about a file."""

    path: bytes
    old_path: bytes | None
    status: str
    old_mode: str
    new_mode: str


@st.composite
def changed(draw: Any) -> tuple[Files, Files]:
    """Two trees: files are kept, edited, renamed, removed and added."""
    old: dict[bytes, Entry] = draw(trees)
    new: dict[bytes, Entry] = {}
    for name, entry in old.items():
        match draw(st.sampled_from(("keep", "edit", "mode", "rename", "remove", "replace"))):
            case "keep":
                new[name] = entry
            case "edit":
                new[name] = entry._replace(content=_edited(draw, entry.content))
            case "mode":
                new[name] = draw(entries)._replace(content=entry.content)
            case "rename":
                new[draw(names)] = entry._replace(content=_edited(draw, entry.content))
            case "replace":
                new[name] = draw(entries)
    return old, {**new, **draw(trees)}


def _edited(draw: Any, content: bytes) -> bytes:
    rows = content.splitlines(keepends=True)
    at = draw(st.integers(0, len(rows)))
    rows[at : at + draw(st.integers(0, 2))] = draw(st.lists(lines, max_size=3))
    return b"".join(rows)


def reported(repository: TreeRepository, old: str, new: str, *options: str) -> list[Row]:
    """The files that git lists."""
    given = ("--find-renames", *options)
    fields = repository.git("diff", "--raw", "-z", *given, old, new).split(b"\0")[:-1]
    return list(_rows(iter(fields)))


def _rows(fields: Iterator[bytes]) -> Iterator[Row]:
    for field in fields:
        old_mode, new_mode, _, _, status = field.decode().removeprefix(":").split(" ")
        path, old_path = next(fields), None
        if status[0] in "RC":
            path, old_path = next(fields), path
        yield Row(path, old_path, status[0], old_mode, new_mode)


def counted(repository: TreeRepository, old: str, new: str, *options: str) -> dict[bytes, Any]:
    """The added and removed lines of each file, by its name; None for a binary file."""
    given = ("--find-renames", *options)
    fields = iter(repository.git("diff", "--numstat", "-z", *given, old, new).split(b"\0")[:-1])
    found: dict[bytes, Any] = {}
    for field in fields:
        added, removed, path = field.split(b"\t", 2)
        if not path:
            _, path = next(fields), next(fields)
        found[path] = None if added == b"-" else (int(added), int(removed))
    return found


def applied(file: FileDiff, base: bytes) -> bytes:
    """The new content, from the old content and the raw lines of the hunks."""
    old = base.split(b"\n")
    ends = old.pop()
    rows = [row + b"\n" for row in old] + ([ends] if ends else [])
    made, at = b"", 0
    for hunk in file.hunks:
        made += b"".join(rows[at : hunk.base_before])
        at = max(at, hunk.base_before + hunk.before_count)  # a file of another type has two
        made += _new_side(hunk)
    return made + b"".join(rows[at:])


def _new_side(hunk: Hunk) -> bytes:
    made = b""
    raw = [row for row in hunk.body if not row.startswith(b"\\")]
    for line, row in zip(hunk.lines, raw, strict=True):
        if line.after is not None:
            made += row[1:] + (b"" if line.no_newline else b"\n")
    return made


def check(diff: Diff, rows: list[Row], counts: dict[bytes, Any], old: Files, new: Files) -> None:
    letters = {"A": "added", "D": "deleted", "M": "modified", "T": "modified"}
    letters |= {"R": "renamed", "C": "copied"}
    assert [each.path for each in diff.files] == [text_of(row.path) for row in rows]
    for row in rows:
        file = diff.file(text_of(row.path))
        assert file is not None
        assert file.status == letters[row.status]
        assert file.old_path == (None if row.old_path is None else text_of(row.old_path))
        check_modes(file, row)
        check_content(file, row, counts[row.path], old, new)


def check_modes(file: FileDiff, row: Row) -> None:
    absent = "000000"
    unchanged_rename = file.old_path is not None and row.old_mode == row.new_mode
    if unchanged_rename and file.old_mode is None:
        assert not file.hunks  # a pure rename has no line that gives its mode
        return
    assert file.old_mode == (None if row.old_mode == absent else row.old_mode)
    assert file.new_mode == (None if row.new_mode == absent else row.new_mode)


def check_content(file: FileDiff, row: Row, count: Any, old: Files, new: Files) -> None:
    assert not file.truncated
    before = b"" if row.status == "A" else old[row.old_path or row.path].content
    after = b"" if row.status == "D" else new[row.path].content
    if before == after and row.status != "T":
        assert (file.hunks, file.binary) == ((), False)  # the diff does not say what it contains
        return
    if row.status != "T":  # git counts a changed type as an edit, but shows two files
        assert file.binary == (count is None)
        assert (file.added, file.removed) == (count or (0, 0))
    if not file.binary:
        assert applied(file, before) == after
        check_lines(file, before, after)


def check_lines(file: FileDiff, before: bytes, after: bytes) -> None:
    old, new = (each.decode("utf-8", "replace").split("\n") for each in (before, after))
    assert all(old[number - 1] == text for number, text in file.lines("before").items())
    assert all(new[number - 1] == text for number, text in file.lines("after").items())
    assert file.size == sum(len(hunk.lines) for hunk in file.hunks)


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(
    trees=changed(),
    options=st.sampled_from(((), ("-C", "--find-copies-harder"))),
    context=st.sampled_from(((), ("-U0",))),
)
def test_the_parser_agrees_with_git(
    repository: TreeRepository,
    trees: tuple[Files, Files],
    options: tuple[str, ...],
    context: tuple[str, ...],
) -> None:
    old, new = trees
    names = repository.tree(old), repository.tree(new)
    diff = parse_diff(repository.diff(*names, *options, *context))
    rows, counts = reported(repository, *names, *options), counted(repository, *names, *options)
    check(diff, rows, counts, old, new)


@pytest.mark.parametrize("name", [each + b"x" for each in DIRECTORIES] + list(HOSTILE))
def test_every_name_is_read_from_an_empty_file_and_from_a_change_of_mode(
    repository: TreeRepository, name: bytes
) -> None:
    empty, old = repository.tree({}), repository.tree({name: Entry(b"")})
    new = repository.tree({name: Entry(b"", PROGRAM)})
    added, changed = (parse_diff(repository.diff(*each)) for each in ((empty, old), (old, new)))
    assert [(each.path, each.status) for each in added.files] == [(text_of(name), "added")]
    assert [(each.path, each.status) for each in changed.files] == [(text_of(name), "modified")]
    assert (changed.files[0].old_mode, changed.files[0].new_mode) == ("100644", "100755")
    assert changed.files[0].hunks == ()


def test_a_diff_that_is_cut_off_anywhere_is_read_up_to_there(repository: TreeRepository) -> None:
    old = {b"a": Entry(b"1\n2\n3\n4\n"), b"b": Entry(b"\0" * 99), b"c": Entry(b"x\ny")}
    new = {b"a": Entry(b"1\n2\nthree\n4\n"), b"b": Entry(b"\0" * 98), b"d": Entry(b"x\nz")}
    whole = repository.diff(repository.tree(old), repository.tree(new))
    last = parse_diff(whole)
    for end in range(len(whole)):
        cut = parse_diff(whole[:end])
        assert len(cut.files) <= len(last.files)
        for before, after in zip(cut.files[:-1], last.files, strict=False):
            assert (before.path, before.added) == (after.path, after.added)
    a = whole.index(b"+three\n")
    (file,) = parse_diff(whole[:a]).files
    assert file.truncated
    assert file.lines("before") == {1: "1", 2: "2", 3: "3"}
    assert not any(each.truncated for each in last.files)


def test_text_around_the_files_is_ignored() -> None:
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@ def f():\n-old\n+new\n"
    (file,) = parse_diff(b"Subject: x\n\n--- a/no\n+++ b/no\n" + patch + b"-- \n2.39\n").files
    assert (file.path, file.added, file.removed, file.truncated) == ("x", 1, 1, False)
    assert file.hunks[0].heading == "def f():"


def test_content_that_is_not_utf_8_is_shown_with_replacement_characters() -> None:
    patch = b"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@ \xff\n-caf\xe9\r\n+caf\xc3\xa9\n"
    (file,) = parse_diff(patch).files
    assert file.lines("before") == {1: "caf\N{REPLACEMENT CHARACTER}\r"}
    assert file.lines("after") == {1: "café"}
    assert file.hunks[0].heading == "\N{REPLACEMENT CHARACTER}"


def test_a_file_whose_type_changes_is_one_file(repository: TreeRepository) -> None:
    old = repository.tree({b"x": Entry(b"1\n2\n")})
    new = repository.tree({b"x": Entry(b"target", LINK)})
    (file,) = parse_diff(repository.diff(old, new)).files
    assert (file.status, file.old_mode, file.new_mode) == ("modified", "100644", "120000")
    assert file.lines("before") == {1: "1", 2: "2"}
    assert file.lines("after") == {1: "target"}


def test_names_that_would_be_equal_as_text_remain_different() -> None:
    heads = [b'diff --git "a/\\377" "b/\\377"', b'diff --git "a/\\\\xff" "b/\\\\xff"']
    patch = b"".join(head + b"\nold mode 100644\nnew mode 100755\n" for head in heads)
    assert [each.path for each in parse_diff(patch).files] == ["\\xff", "\\xff (2)"]


@settings(max_examples=300)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.sampled_from((*TEXTS, b"diff --git a/x b/x", b"diff --git ", b"@@ -1,3 +1,3 @@")),
            st.sampled_from((b'--- "a/\\', b"+++ ", b"rename from ", b"@@ -9999999999 +1 @@")),
            st.sampled_from((b"GIT binary patch", b"index 0000..1111 100644", b"+x", b"-x", b" x")),
        )
    )
)
def test_any_bytes_are_accepted(rows: list[bytes]) -> None:
    for file in parse_diff(b"\n".join(rows)).files:
        assert file.size == sum(len(hunk.lines) for hunk in file.hunks)
        assert len(file.lines("before")) <= file.size
        assert len(file.lines("after")) <= file.size


def test_a_diff_of_several_megabytes_is_read(repository: TreeRepository) -> None:
    content = b"".join(b"line %d of a long file\n" % each for each in range(200_000))
    diff = repository.diff(repository.tree({}), repository.tree({b"long": Entry(content)}))
    (file,) = parse_diff(diff).files
    assert len(diff) > 5_000_000
    assert (file.added, file.lines("after")[200_000]) == (200_000, "line 199999 of a long file")
