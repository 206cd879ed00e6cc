"""`detent review` on a terminal: a pager, an editor and a verdict; no written text is lost."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.service import open_core
from detent.settings_loader import load
from tests.cli.conftest import served
from tests.cli.reviewed_work import submit_reviewed, work
from tests.cli.terminal import Terminal
from tests.operations.commented_task import BEN, FIRST, SECOND
from tests.worker.waiting import until

PROMPT = "(l)ater [later]: "


@pytest.fixture
def core(data: Path) -> Iterator[Core]:
    """A task under review, behind a gateway."""
    with open_core(load(flags={"gateway_port": 0})) as made:
        submit_reviewed(made)
        work(made, FIRST)
        with served(made, data):
            yield made


def drafts(core: Core) -> list[Any]:
    return [each["text"] for each in call("task_comments", core, OWNER, task_id="t")["drafts"]]


def review(tmp_path: Path, editor: str, **environment: str) -> Terminal:
    """Start `detent review` on a terminal; `editor` is a shell script about the file $1."""
    script = tmp_path / "editor.sh"
    script.write_text(editor)
    chosen = {"EDITOR": f"sh {script}", "PAGER": "tee pager.txt", "TERM": "xterm", **environment}
    inherited = {name: text for name, text in os.environ.items() if name != "VISUAL"}
    argv = [sys.executable, "-m", "detent", "review", "t"]
    return Terminal(argv, {**inherited, **chosen, "COLUMNS": "200"})


def test_a_review_from_the_first_look_to_the_verdict(core: Core, tmp_path: Path) -> None:
    (tmp_path / "words").write_text("Why 3?")
    terminal = review(tmp_path, 'sed -i "/│+b = 3/a $(cat words)" "$1"')
    shown = terminal.shows(PROMPT)
    assert "\x1b[32m+b = 3\x1b[0m" in shown
    assert "\x1b[31m-b = 2\x1b[0m" in (tmp_path / "pager.txt").read_text()
    assert "round:     1 (0 requests for changes" in shown
    assert "(a)ccept, request (c)hanges, (r)eject" in shown
    assert "1 draft saved." in terminal.types("e\n", until=PROMPT)
    assert drafts(core) == ["Why 3?"]
    # Another reviewer is faster, and the agent has left another diff.
    call("request_changes", core, BEN, task_id="t", comment="again")
    work(core, SECOND)
    terminal.types("accept\n", until="Publish your draft too? [Y/n]: ")
    terminal.types("\n", until="Comment on the whole work: ")
    refused = terminal.types("\n", until=PROMPT)
    assert "[diff_changed]" in refused
    assert "\x1b[32m+import x\x1b[0m" in refused
    # The verdict is about the new diff now. It changes again while comments are written.
    (tmp_path / "words").write_text("Too late.")
    call("request_changes", core, BEN, task_id="t", comment="again")
    work(core, FIRST)
    moved = terminal.types("e\n", until=PROMPT)
    assert "are part of the comment on the whole work now" in moved
    ended = terminal.types("c\n", until="t: queued")
    assert "Comment on the whole work" not in ended
    assert terminal.end()[0] == 0
    assert call("show_task", core, OWNER, task_id="t")["comment"] == "app.py:3: Too late."
    (comment,) = call("task_comments", core, OWNER, task_id="t")["comments"]
    assert comment["text"] == "Why 3?"
    assert not list((tmp_path / "data" / "reviews").iterdir())


def test_what_was_written_survives_every_accident(core: Core, tmp_path: Path) -> None:
    kept = tmp_path / "data" / "reviews"
    terminal = review(
        tmp_path,
        """\
case $(cat step) in
    1) sed -i '/│+b = 3/a Why 3?' "$1"; exit 7 ;;
    2) grep -q 'Why 3?' "$1" && sed -i 's/│+c = 4/│+c = 5/' "$1" ;;
    3) sed -i -e 's/│+c = 5/│+c = 4/' -e '/A draft without text/a Nearly.' "$1" ;;
    4) : > "$1" ;;
esac
""",
        NO_COLOR="1",
    )
    assert "\x1b[3" not in terminal.shows(PROMPT)

    def step(number: int, typed: str, until: str) -> str:
        (tmp_path / "step").write_text(str(number))
        return terminal.types(typed, until)

    assert "failed with the status 7" in step(1, "e\n", PROMPT)
    assert drafts(core) == []
    assert "Why 3?" in next(kept.iterdir()).read_text()
    assert "this is no line of the diff" in step(2, "e\n", "Edit it again? [Y/n]: ")
    assert drafts(core) == []
    assert "1 draft saved." in step(3, "y\n", PROMPT)
    assert "No draft has changed." in step(4, "e\n", PROMPT)
    assert drafts(core) == ["Why 3?"]
    code, shown = terminal.interrupt()
    assert code != 0
    assert "There is no verdict. Drafts that were saved stay on the server." in shown
    assert call("show_task", core, OWNER, task_id="t")["state"] == "ready"
    # The next review has it all.
    terminal = review(tmp_path, "exit 1")
    assert "was not sent" in terminal.shows(PROMPT)
    terminal.types("reject\n", until="Publish your draft too? [Y/n]: ")
    assert "1 comment published.\nt: pending" in terminal.types("\n", until="t: pending")
    assert terminal.end()[0] == 0
    assert call("show_task", core, OWNER, task_id="t")["comment"] == "Nearly."
    assert not list(kept.iterdir())


def test_a_closed_terminal_does_not_lose_the_comments(core: Core, tmp_path: Path) -> None:
    slow = """\
trap '' HUP
touch opened
while [ ! -e written ]; do sleep 0.02; done
sed -i '/│+b = 3/a Why 3?' "$1"
"""
    terminal = review(tmp_path, slow)
    terminal.shows(PROMPT)
    terminal.types("e\n")
    until((tmp_path / "opened").exists, "the editor")
    os.close(terminal.fd)
    (tmp_path / "written").touch()
    os.waitpid(terminal.pid, 0)
    assert drafts(core) == ["Why 3?"]
