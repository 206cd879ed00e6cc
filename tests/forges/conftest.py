"""A GitHub with one repository, and an installation that works on it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.forges.world import World, world

FILES = {"code.py": "a = 1\nb = 2\nc = 3\n"}


@pytest.fixture
def w(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path, FILES) as made:
        yield made
