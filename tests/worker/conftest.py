"""Every store that a test of workers leaves behind must be what its log says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.operations.core import Core
from detent.testing.audit import audit
from detent.testing.inline import Harness
from tests.worker.waiting import installation


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest) -> str:
    """Where the store is: an SQLite file in the data directory, or a database of its own."""
    if request.param == "sqlite":
        return ""
    found: str = request.getfixturevalue("postgres_url")
    return found


@pytest.fixture
def core(tmp_path: Path, url: str) -> Iterator[Core]:
    """An installation on each kind of store."""
    with installation(tmp_path, url, worker_grace_ms=300) as made:
        yield made


@pytest.fixture(autouse=True)
def _audited(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    made: list[Harness] = []
    begin = Harness.__init__

    def remember(self: Harness, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Harness, "__init__", remember)
    yield
    for harness in made:
        audit(harness.store)
