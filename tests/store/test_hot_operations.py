"""Hot operations read the same amount in a large database as in a small one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from verification import hot_operations
from verification.hot_operations import Work, differences
from verification.memory_directory import directory_in_memory
from verification.postgres_server import Server

#: `python -m verification.fault_injection --part operations` does it with a million.
SMALL, LARGE = 10, 10_000


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with (
        directory_in_memory("detent-pg-") as directory,
        Server.start(directory, settings=hot_operations.SETTINGS) as started,
    ):
        yield started


def test_postgres_reads_no_more_in_a_large_database(server: Server) -> None:
    """Nor does it with an old snapshot, which keeps the rows of the jobs that were claimed."""
    assert not hot_operations.compare_on_postgres(server, [SMALL, LARGE])


def test_sqlite_does_no_more_in_a_large_database(tmp_path: Path) -> None:
    assert not hot_operations.compare_on_sqlite(tmp_path, [SMALL, LARGE])


def test_more_work_and_a_whole_table_are_found() -> None:
    small = {"claim": Work(10), "renew": Work(5)}
    large = {"claim": Work(26), "renew": Work(5, ["reads all of commits: SELECT"])}
    assert differences(small, large, 2, 5) == [
        "claim: 10 in a small database, 26 in a large one",
        "renew reads all of commits: SELECT",
    ]
    assert not differences(small, small, 1, 0)


def test_a_plan_without_an_index_is_found(server: Server) -> None:
    with hot_operations.on_postgres(server, LARGE) as store:
        hot_operations.drop_index(server, LARGE, "active_jobs_lanes")
        found = hot_operations.measured_on_postgres(server, store)
    assert any("reads all of active_jobs" in each for each in found["claim"].problems)
