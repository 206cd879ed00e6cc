"""`detent diff`: the changes of a task, and what changed since an earlier round."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from detent.cli import output
from detent.cli.diff_lines import file_heading, file_lines
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.service import open_core
from detent.settings_loader import load
from tests.cli.conftest import Run
from tests.cli.reviewed_work import submit_reviewed, work
from tests.operations.reviewed_task import patch

SAME = patch("same.txt", "y")
FIRST = patch("src/a.py", "one", "two") + patch("gone.txt", "x") + SAME
MODE = "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n"
SECOND = patch("src/a.py", "one", "2\x1b[31m") + MODE + SAME
BINARY = "diff --git a/b.bin b/b.bin\nindex 1111111..2222222 100644\nGIT binary patch\n"


@pytest.fixture
def core(data: Path) -> Iterator[Core]:
    """A task that is in review for the second time, and one without a diff."""
    with open_core(load(flags={"gateway_port": 0})) as made:
        submit_reviewed(made)
        work(made, FIRST)
        call("reject_task", made, OWNER, task_id="t", comment="again", run=True)
        work(made, SECOND + BINARY)
        made.engine.do(c.SubmitTask("empty", "p", "review", "runQA", "cli"), c.Actor("person"))
        yield made


@pytest.mark.usefixtures("ready")
def test_the_diff_under_review_is_printed(run: Run) -> None:
    assert run("diff", "t").stdout.splitlines() == [
        "src/a.py  +2 -1",
        "@@ -1,1 +1,2 @@",
        "-old",
        "+one",
        "+2<U+001B>[31m",
        "run.sh  +0 -0",
        "Mode: 100644 -> 100755.",
        "same.txt  +1 -1",
        "@@ -1,1 +1,1 @@",
        "-old",
        "+y",
        "b.bin  +0 -0",
        "Binary file.",
    ]
    assert "run.sh" not in run("diff", "t", "src/a.py").stdout


@pytest.mark.usefixtures("ready")
def test_the_changes_since_a_round_are_printed(run: Run) -> None:
    assert run("diff", "t", "src/a.py", "--since", "1").stdout.splitlines() == [
        "src/a.py  +1 -1",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2<U+001B>[31m",
    ]
    assert run("diff", "t", "--since", "1", "same.txt").stdout == "No file differs.\n"
    listed = run("diff", "t", "--since", "1", "--stat").stdout
    assert [line.split()[0] for line in listed.splitlines()] == [
        *("FILE", "src/a.py", "run.sh", "b.bin", "gone.txt")
    ]


def test_nothing_in_a_diff_is_hidden() -> None:
    lines = [{"kind": "added", "text": "a\u202eb\x00\u2066\r", "no_newline": False}]
    hunk = {"before_start": 0, "before_count": 0, "after_start": 1, "after_count": 1}
    file = {
        "path": "c\x1b[2K.py",
        "old_path": "b\u200f.py",
        "added": 1,
        "removed": 0,
        "binary": False,
        "truncated": False,
        "hunks": [{**hunk, "heading": "", "lines": lines}],
    }
    assert [each.text for each in file_lines(file)] == [
        "b<U+200F>.py -> c<U+001B>[2K.py  +1 -0",
        "@@ -0,0 +1,1 @@",
        "+a<U+202E>b<U+0000><U+2066>",
    ]


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        (None, "100644", []),
        (None, "100755", ["Executable file."]),
        (None, "120000", ["Symbolic link."]),
        ("120000", None, ["Symbolic link."]),
        (None, "160000", ["Submodule."]),
        ("100644", "120000", ["Mode: 100644 -> 120000."]),
    ],
)
def test_what_is_no_plain_file_is_named(old: str | None, new: str | None, note: list[str]) -> None:
    file = {"path": "x", "old_path": None, "added": 1, "removed": 0, "binary": False}
    heading = file_heading({**file, "truncated": False, "old_mode": old, "new_mode": new})
    assert [each.text for each in heading][1:] == note


@pytest.mark.usefixtures("ready")
def test_programs_get_json(run: Run) -> None:
    found = json.loads(run("diff", "t", "--json").stdout)
    assert found["diff"] == hashlib.sha256((SECOND + BINARY).encode()).hexdigest()
    assert found["files"][0]["hunks"][0]["lines"][2]["text"] == "2\x1b[31m"
    listed = json.loads(run("diff", "t", "--since", "1", "--stat", "--json").stdout)
    assert listed["since"] == hashlib.sha256(FIRST.encode()).hexdigest()
    assert "hunks" not in listed["files"][0]


@pytest.mark.usefixtures("ready")
def test_wrong_input_is_clear(run: Run) -> None:
    assert "Task empty has no diff." in run("diff", "empty", code=3).stderr
    for since in ((), ("--since", "1")):
        assert "no file 'src/b.py'" in run("diff", "t", "src/b.py", *since, code=3).stderr
    refused = run("diff", "t", "--since", "7", code=2).stderr
    assert "Task t has no earlier diff of round 7; rounds: 1." in refused
    assert "There is no task 'unknown'" in run("diff", "unknown", code=3).stderr


@pytest.mark.usefixtures("core")
def test_a_diff_that_is_too_large_says_how_to_save_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("review_diffs", "review_page"):
        monkeypatch.setattr(f"detent.operations.{module}.MAX_DIFF_BYTES", 10)
    refused = run("diff", "t", code=5).stderr
    assert "at most 10 are shown" in refused
    assert "detent evidence t-j2-r1 --save DIR" in refused


@pytest.mark.usefixtures("core")
def test_colours_are_for_terminals(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b" not in run("diff", "t").stdout
    monkeypatch.setattr(output, "has_colour", lambda: True)
    styled: list[str] = []
    monkeypatch.setattr(click, "echo", lambda text, **_: styled.append(text))
    run("diff", "t", "src/a.py")
    assert "\x1b[32m+one\x1b[0m" in styled
    assert "\x1b[32m+2<U+001B>[31m\x1b[0m" in styled  # the content controls nothing
