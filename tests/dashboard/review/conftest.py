"""Fixtures of the tests of the review page: an installation with an agent, and a simple diff."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dashboard.review_scene import ReviewScene, diff_of
from tests.dashboard.review_steps import changed


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReviewScene]:
    made = ReviewScene(Path(tmp_path_factory.mktemp("review")))
    made.prepare()
    made.up()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def simple() -> str:
    """Two files, of which one has two hunks."""
    before = {"app/a.txt": changed(), "app/b.py": "x = 1\n"}
    return diff_of(before, {"app/a.txt": changed(5, 50), "app/b.py": "x = 2\n"})
