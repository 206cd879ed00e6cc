"""Fixtures of the submission tests: an installation on each kind of store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.operations.context import Core
from tests.worker.waiting import installation


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "sqlite":
        return ""
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def core(tmp_path: Path, url: str) -> Iterator[Core]:
    with installation(tmp_path, url, worker_grace_ms=300) as made:
        yield made
