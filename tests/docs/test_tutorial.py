"""The tutorial's commands, run in an empty home directory with the wheel installed."""

from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.testing.harness import Harness
from tests.docs import machines
from tests.docs.pages import ROOT, Reader, blocks, imported
from tests.plugins.wheel import Installed

TUTORIAL = ROOT / "docs" / "tutorial"
#: Many real processes, each of which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(900)


#: What takes its time on a page is held up here until the kill, however slow the machine is.
HELD = 'while not Path("go").exists():\n        time.sleep(0.05)'


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_first_task(home: Path, installed: Installed) -> None:
    with Reader(home, bin_dir=installed()) as reader:
        output = reader.follow(TUTORIAL / "first-task.md")
    assert "hello, Grace" in output
    assert "ended with 10" in output
    assert "Clean: the log" in output


def test_a_durable_handler(home: Path, installed: Installed) -> None:
    replaced = {"time.sleep(4)": HELD, "cat notes.txt": "touch go && cat notes.txt"}
    with Reader(home, replaced, bin_dir=installed()) as reader:
        output = reader.follow(TUTORIAL / "durable-handler.md")
    assert "run_cancelled" in output
    assert "task_accepted" in output
    notes = [note.split()[0] for note in (reader.place / "notes.txt").read_text().splitlines()]
    # A test that takes longer than its lease on a busy machine is made once more.
    assert notes == ["building", "testing", *["testing"] * notes[2:].count("testing"), "uploading"]
    assert notes.count("testing") >= 2


@pytest.mark.parametrize("write", range(8))
def test_the_durable_handler_uploads_wherever_it_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: int
) -> None:
    page = (TUTORIAL / "durable-handler.md").read_text("utf-8")
    module = imported(next(each for each in blocks(page) if each.title == "work.py"), tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(module.time, "sleep", lambda _: None)
    harness = Harness(module.app)
    handle = harness.submit("release", {"version": "1.4.0"}, lifecycle="review")
    harness.drain()
    task = handle.task()
    assert task is not None
    harness.engine.do(c.AnswerTask(task.id, "yes"), c.Actor("person"))
    harness.crash_at(write)
    harness.drain(advance=True)
    assert handle.result(timeout=0) == "shop-1.4.0 is out"
    assert Path("notes.txt").read_text().count("uploading") == 1


def test_an_agent_under_review(home: Path, installed: Installed) -> None:
    with Reader(home, bin_dir=installed()) as reader:
        output = reader.follow(TUTORIAL / "agent-under-review.md")
    assert "+    assert min(prices) >= 0" in output
    assert "raise ValueError('negative price')" in output
    assert "raise ValueError" in (reader.place / "shop" / "shop.py").read_text()


def test_many_machines(home: Path, installed: Installed) -> None:
    """Each machine is a network namespace; `tests/deploy/test_image.py` has containers too."""
    output = machines.follow(home, installed("postgres"))
    assert "Clean: the log" in output
    assert "cancelled" in output
    assert not (home / "here" / ".detent").exists()
