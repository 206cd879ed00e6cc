"""PostgreSQL for tests: a server for each test process, a fresh database for each test.

A server comes up in less than a second. Sharing one between the processes of a parallel session
would save that second and cost a lock, a count of users, and tests that may kill their server.
"""

import uuid
from collections.abc import Iterator

import pytest

from detent.store.store_url import open_store
from verification.memory_directory import directory_in_memory
from verification.postgres_programs import binaries_of
from verification.postgres_server import Cluster, Server, cluster_for_tests

#: The oldest version that detent works with, and the newest.
VERSIONS = (15, 18)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Cluster]:
    """A server to create databases in. To kill or configure one, start a `Server` of your own."""
    # Not under pytest's directories: they are kept, and their paths are long for a Unix socket.
    with directory_in_memory("detent-pg-") as directory, cluster_for_tests(directory) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def postgres_pattern(postgres_server: Cluster) -> Iterator[str]:
    """A database with the present schema: a copy of it is made in half the time of a new one."""
    name = _new_name()
    open_store(postgres_server.create_database(name)).close()
    yield name
    postgres_server.drop_database(name)


@pytest.fixture(scope="session", params=VERSIONS)
def versioned_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of the oldest version that detent works with, then one of the newest."""
    with (
        directory_in_memory("detent-pg-") as directory,
        Server.start(directory, binaries=binaries_of(request.param)) as server,
    ):
        yield server


@pytest.fixture
def versioned_url(versioned_server: Server) -> Iterator[str]:
    """The URL of an empty database on each of these servers."""
    name = _new_name()
    yield versioned_server.create_database(name)
    versioned_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: Cluster, postgres_pattern: str) -> Iterator[str]:
    """The URL of a database with nothing but its schema, which exists for one test."""
    name = _new_name()
    yield postgres_server.create_database(name, template=postgres_pattern)
    postgres_server.drop_database(name)


@pytest.fixture
def empty_postgres_url(postgres_server: Cluster) -> Iterator[str]:
    """The URL of a database without any table, which exists for one test."""
    name = _new_name()
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)


def _new_name() -> str:
    return f"detent_test_{uuid.uuid4().hex}"
