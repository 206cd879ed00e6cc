"""The bare loop writes every row that detent writes; one that leaves a statement out is refused."""

import pytest

from bench.workloads import jobs, jobs_postgres
from verification.postgres_server import Cluster

COUNT, BATCH = 20, 10


def test_a_missing_statement_is_noticed_on_sqlite() -> None:
    recording = jobs.written(COUNT, BATCH)
    assert jobs.bare(COUNT, recording) > 0
    for number in range(len(recording.transactions[-1])):
        last = recording.transactions[-1]
        fewer = [*recording.transactions[:-1], [*last[:number], *last[number + 1 :]]]
        with pytest.raises(AssertionError, match="the bare loop changed"):
            jobs.bare(COUNT, recording._replace(transactions=fewer))


def test_a_missing_statement_is_noticed_on_postgresql(
    postgres_server: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_postgres, "server", lambda: postgres_server)
    recording = jobs_postgres.written(COUNT, BATCH)
    assert jobs_postgres.bare(COUNT, recording) > 0
    fewer = [*recording.transactions[:-1], recording.transactions[-1][:-1]]
    with pytest.raises(AssertionError, match="rows inserted, updated, deleted"):
        jobs_postgres.bare(COUNT, recording._replace(transactions=fewer))


def test_a_difference_of_the_log_is_noticed() -> None:
    real = jobs_postgres.Counted(10, 5, 1, 100_000)
    jobs_postgres.compare(real._replace(wal_bytes=105_000), real)
    with pytest.raises(AssertionError, match="bytes of log"):
        jobs_postgres.compare(real._replace(wal_bytes=50_000), real)
