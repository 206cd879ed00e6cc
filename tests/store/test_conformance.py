"""Every store against every check of the conformance suite, with its notifier and without."""

from collections.abc import Callable
from pathlib import Path

import pytest

from detent.store.memory import Database, MemoryStore
from detent.store.postgres import PostgresStore
from detent.store.sqlite import SqliteStore
from detent.testing.conformance import CHECKS, OpenStore, run

Backend = Callable[[pytest.FixtureRequest], OpenStore]


def memory(_: pytest.FixtureRequest) -> OpenStore:
    database = Database()
    return lambda clock: MemoryStore(clock, database)


def sqlite(request: pytest.FixtureRequest) -> OpenStore:
    path: Path = request.getfixturevalue("tmp_path")
    return lambda clock: SqliteStore(path / "detent.db", clock)


def postgres(request: pytest.FixtureRequest) -> OpenStore:
    url: str = request.getfixturevalue("postgres_url")
    return lambda clock: PostgresStore(url, clock)


# A backend is one line here; one that cannot be imported or started fails.
BACKENDS: tuple[Backend, ...] = (memory, sqlite, postgres)


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.__name__)
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    opened: OpenStore = request.param(request)
    return opened


@pytest.mark.parametrize("notifier", [True, False], ids=["notifier", "silent"])
@pytest.mark.parametrize("check", CHECKS)
def test_store(open_store: OpenStore, check: str, notifier: bool) -> None:
    run(CHECKS[check], open_store, notifier=notifier)
