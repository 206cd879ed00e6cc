"""The tutorial's own words, typed by somebody with an empty home who has installed the wheel."""

from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Reader
from tests.plugins.wheel import Installed

TUTORIAL = ROOT / "docs" / "tutorial"
#: Many real processes, each of which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def test_first_task(home: Path, installed: Installed) -> None:
    with Reader(home, bin_dir=installed()) as reader:
        said = reader.follow(TUTORIAL / "first-task.md")
    assert "hello, Grace" in said
    assert "ended with 10" in said
    assert "Clean: the log" in said


def test_a_durable_handler(home: Path, installed: Installed) -> None:
    with Reader(home, bin_dir=installed()) as reader:
        said = reader.follow(TUTORIAL / "durable-handler.md")
    assert "run_cancelled" in said
    assert "task_accepted" in said
    notes = (reader.place / "notes.txt").read_text().split("\n")
    assert [note.split()[0] for note in notes if note] == [
        "building",
        "testing",
        "testing",
        "uploading",
    ]


def test_an_agent_under_review(home: Path, installed: Installed) -> None:
    with Reader(home, bin_dir=installed()) as reader:
        said = reader.follow(TUTORIAL / "agent-under-review.md")
    assert "+    assert min(prices) >= 0" in said
    assert "raise ValueError('negative price')" in said
    assert "raise ValueError" in (reader.place / "shop" / "shop.py").read_text()


def test_many_machines(home: Path, installed: Installed, postgres_url: str) -> None:
    replaced = {"postgresql://localhost/detent": postgres_url}
    with Reader(home, replaced, installed("postgres")) as reader:
        said = reader.follow(TUTORIAL / "many-machines.md")
    assert "Clean: the log" in said
    assert "cancelled" in said
    assert not (reader.place / ".detent").exists()
