"""The scene of a test of agents: an installation of its own on SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.scene import Scene, scene


@pytest.fixture
def s(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as made:
        yield made
