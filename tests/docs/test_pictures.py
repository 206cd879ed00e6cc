"""Pictures of the dashboard are there, are shown, and were taken from the sources of today."""

import shutil
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tools import pictures


def test_the_pictures_of_the_pages_are_current() -> None:
    assert pictures.flaws(ROOT) == []


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A repository with a dashboard of one file, and a page with one picture of it."""
    for name, text in {
        "web/src/app.tsx": "one",
        "web/src/app.test.ts": "test",
        "docs/page.md": "![The inbox](images/inbox-light.png)",
        "docs/images/inbox-light.png": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / pictures.TAKEN_FROM).write_text(pictures.sources_digest(tmp_path))
    assert pictures.flaws(tmp_path) == []
    return tmp_path


def test_a_picture_of_an_earlier_dashboard_is_found(small: Path) -> None:
    (small / "web/src/app.test.ts").write_text("another test")
    assert pictures.flaws(small) == []
    (small / "web/src/app.tsx").write_text("two")
    assert pictures.flaws(small) == [
        "the dashboard has changed since docs/images was taken: run ./dev pictures"
    ]


def test_a_picture_that_is_missing_or_not_shown_is_found(small: Path) -> None:
    shutil.move(small / "docs/images/inbox-light.png", small / "docs/images/board-light.png")
    assert pictures.flaws(small) == [
        "docs/page.md shows inbox-light.png, which is missing: run ./dev pictures",
        "no page shows docs/images/board-light.png: delete it",
    ]
