"""What tortures share: a nursery for each test process, and a PostgreSQL server in memory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from verification.fault_injection.matrix import Databases
from verification.fault_injection.process_supervisor import Nursery
from verification.memory_directory import directory_in_memory
from verification.postgres_server import VARIABLE, Cluster, Server


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as made:
        yield made


@pytest.fixture
def where() -> Iterator[Path]:
    """A directory in memory."""
    with directory_in_memory("detent-torture-") as made:
        yield made


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    with (
        directory_in_memory("detent-pg-") as place,
        Cluster(os.environ[VARIABLE]) if VARIABLE in os.environ else Server.start(place) as up,
    ):
        made = Databases(up)
        yield made
        made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def stores(request: pytest.FixtureRequest) -> Databases | None:
    """Databases to be made in a server; None for SQLite files."""
    if request.param == "sqlite":
        return None
    found: Databases = request.getfixturevalue("databases")
    return found
