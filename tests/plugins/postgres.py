"""PostgreSQL for tests: a server for each test process, a fresh database for each test.

A server comes up in less than a second. Sharing one between the processes of a parallel session
would save that second and cost a lock, a count of users, and tests that may kill their server.
"""

import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.testing.postgres import Cluster, cluster_for_tests


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Cluster]:
    """A server to create databases in. To kill or configure one, start a `Server` of your own."""
    # Not under pytest's directories: they are kept, and their paths are long for a Unix socket.
    with (
        tempfile.TemporaryDirectory(prefix="detent-pg-") as directory,
        cluster_for_tests(Path(directory)) as cluster,
    ):
        yield cluster


@pytest.fixture
def postgres_url(postgres_server: Cluster) -> Iterator[str]:
    """The URL of an empty database that exists for one test."""
    name = f"detent_test_{uuid.uuid4().hex}"
    yield postgres_server.create_database(name)
    postgres_server.drop_database(name)
