"""Edits of tools become unified diffs, which apply to what they replace."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.transcript.edit_diff import MAX_COMPARED, edits_of

HUNK = re.compile(r"@@ -\d+,(\d+) \+\d+,(\d+) @@")
TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "-x", "+y", " z"]), max_size=12).map("\n".join)


def sides(diff: str) -> tuple[list[str], list[str]]:
    """The lines before and after that a diff shows, with its counts checked."""
    before: list[str] = []
    after: list[str] = []
    counted = [0, 0]
    for line in diff.removesuffix("\n").split("\n")[2:]:
        if head := HUNK.fullmatch(line):
            counted = [have + int(more) for have, more in zip(counted, head.groups(), strict=True)]
            continue
        if line[0] != "+":
            before.append(line[1:])
        if line[0] != "-":
            after.append(line[1:])
    assert counted == [len(before), len(after)]
    return before, after


@given(TEXTS, TEXTS)
def test_a_diff_of_a_small_edit_has_both_texts(before: str, after: str) -> None:
    (edit,) = edits_of("Edit", {"path": "f", "old_string": before, "new_string": after})
    old, new = sides(str(edit.diff))
    lines = [text.removesuffix("\n").split("\n") if text else [] for text in (before, after)]
    if lines[0] == lines[1]:
        assert (old, new) == ([], [])
        return
    assert "\n".join(old) in "\n".join(lines[0])
    assert "\n".join(new) in "\n".join(lines[1])
    outside = len(lines[0]) - len(old)
    assert outside == len(lines[1]) - len(new)


def test_lines_that_stay_are_context() -> None:
    before = "\n".join("abcdefghij")
    after = before.replace("e", "E").replace("g", "G")
    (edit,) = edits_of("Edit", {"file_path": "f.py", "old_string": before, "new_string": after})
    assert edit.path == "f.py"
    assert edit.diff == (
        "--- a/f.py\n+++ b/f.py\n@@ -2,9 +2,9 @@\n b\n c\n d\n-e\n+E\n f\n-g\n+G\n h\n i\n j\n"
    )


def test_a_name_with_a_line_break_stays_in_the_head() -> None:
    (edit,) = edits_of("Write", {"path": "a\n+b", "content": "c"})
    assert edit == ("a\n+b", "--- /dev/null\n+++ b/a +b\n@@ -0,0 +1,1 @@\n+c\n")


def test_a_large_edit_is_shown_as_one_change() -> None:
    many = 4 * MAX_COMPARED
    before, after = "same\n" * many + "old\n" * many, "same\n" * many + "new\n" * many
    (edit,) = edits_of("Edit", {"path": "f", "old_string": before, "new_string": after})
    assert str(edit.diff).startswith("--- a/f\n+++ b/f\n@@ -9998,10003 +9998,10003 @@\n same\n")
    assert "more characters" in str(edit.diff)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("str_replace_based_edit_tool", {"command": "str_replace", "path": "f", "old_str": "a"}),
        ("replace", {"file_path": "f", "old_string": "a", "new_string": ""}),
        ("edit", {"filePath": "f", "oldString": "a", "newString": ""}),
        ("MultiEdit", {"file_path": "f", "edits": [{"old_string": "a", "new_string": ""}, 3]}),
    ],
)
def test_replacements_of_every_agent(tool: str, given: dict[str, Any]) -> None:
    assert edits_of(tool, given) == [("f", "--- a/f\n+++ b/f\n@@ -1,1 +0,0 @@\n-a\n")]


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("Write", {"file_path": "f", "content": "a"}),
        ("write_file", {"file_path": "f", "content": "a\n"}),
        ("str_replace_editor", {"command": "create", "path": "f", "file_text": "a"}),
    ],
)
def test_written_files_of_every_agent(tool: str, given: dict[str, Any]) -> None:
    assert edits_of(tool, given) == [("f", "--- /dev/null\n+++ b/f\n@@ -0,0 +1,1 @@\n+a\n")]


def test_each_file_of_a_patch_is_an_edit() -> None:
    patch = (
        "*** Begin Patch\n*** Update File: a.py\n@@ def f():\n one\n-two\n+2\n@@\n-x\n"
        "*** Add File: b.py\n+new\n*** Delete File: c.py\n*** End Patch\n"
    )
    assert edits_of("apply_patch", {"input": patch}) == [
        (
            "a.py",
            "--- a/a.py\n+++ b/a.py\n"
            "@@ -1,2 +1,2 @@ def f():\n one\n-two\n+2\n@@ -1,1 +0,0 @@\n-x\n",
        ),
        ("b.py", "--- /dev/null\n+++ b/b.py\n@@ -0,0 +1,1 @@\n+new\n"),
        ("c.py", "--- a/c.py\n+++ b/c.py\n"),
    ]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"path": "f"},
        {"old_string": "a", "new_string": "b"},
        {"path": 3, "old_string": "a"},
        {"path": "f", "content": "not a writer"},
        {"path": "f", "edits": "none"},
        {"input": "no patch"},
    ],
)
def test_other_calls_are_no_edits(given: dict[str, Any]) -> None:
    assert edits_of("Search", given) == []
