"""Every store that a test of workers leaves behind must be what its log says."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.operations.context import Core
from detent.testing.audit import audit
from detent.testing.harness import Harness
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


#: Threads of a worker's own. One that carries out a run may be left behind with it, on purpose.
PARTS = tuple(
    f"detent-{part}"
    for part in ("claimer", "heartbeat", "keeping", "lease-guard", "loop", "reporter", "watch")
)


def parts_at_work() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith(PARTS)}


@pytest.fixture(autouse=True)
def _stopped() -> Iterator[None]:
    """A worker that a test has started is stopped by it: left alone it would go on asking a store
    that is gone."""
    before = parts_at_work()
    yield
    assert parts_at_work() <= before, "a worker was left running"


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
