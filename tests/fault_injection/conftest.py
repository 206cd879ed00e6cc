"""Fixtures of fault injection: one process supervisor, and a PostgreSQL server in memory."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from verification.fault_injection.matrix import Databases
from verification.fault_injection.process_supervisor import ProcessSupervisor
from verification.memory_directory import directory_in_memory
from verification.postgres_server import VARIABLE, Cluster, Server


@pytest.fixture(scope="session")
def supervisor() -> Iterator[ProcessSupervisor]:
    with ProcessSupervisor() as made:
        yield made


@pytest.fixture
def where() -> Iterator[Path]:
    """A directory in memory."""
    with directory_in_memory("detent-faults-") as made:
        yield made


@pytest.fixture(scope="session")
def databases() -> Iterator[Databases]:
    with (
        directory_in_memory("detent-pg-") as directory,
        Cluster(os.environ[VARIABLE]) if VARIABLE in os.environ else Server.start(directory) as up,
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
