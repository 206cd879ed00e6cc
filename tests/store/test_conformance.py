"""Every store against every check of the conformance suite, with its notifier and without."""

import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from detent.store.memory import Database, MemoryStore
from detent.store.postgres import PostgresStore
from detent.store.sqlite import SqliteStore
from detent.testing.conformance import CHECKS, OpenStore, run
from tests.sampling import FULL

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
#: In the name of a check: something is waited for.
AWAITED = re.compile(r"claim|due|wait|wake|read|feed|notif|time")


@pytest.fixture
def open_store(request: pytest.FixtureRequest) -> OpenStore:
    opened: OpenStore = request.param(request)
    return opened


def cases() -> Iterator[Any]:
    """Without its notifier PostgreSQL only differs where work is awaited: that is what is claimed,
    due or read. The other checks are left to `./dev faults`."""
    for backend, check, notifier in product(BACKENDS, CHECKS, (True, False)):
        silent = backend is postgres and not notifier
        left_out = silent and not AWAITED.search(check)
        name = f"{backend.__name__}-{check}-{'notifier' if notifier else 'silent'}"
        yield pytest.param(backend, check, notifier, id=name, marks=[FULL] if left_out else [])


@pytest.mark.parametrize(("open_store", "check", "notifier"), [*cases()], indirect=["open_store"])
def test_store(open_store: OpenStore, check: str, notifier: bool) -> None:
    run(CHECKS[check], open_store, notifier=notifier)
