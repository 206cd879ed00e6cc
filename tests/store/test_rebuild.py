"""Rows are rebuilt from the log, whatever their content was, if the log is intact."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from detent.engine import Engine
from detent.errors import Broken
from detent.integrity.rebuild import rebuild
from detent.kernel import commands as c
from detent.store.port import Store
from detent.store.sqlite import SqliteStore
from detent.store.store_url import open_store
from detent.store.table_names import LISTED, REBUILT
from detent.testing.audit import audit, picture
from detent.testing.conformance.case import Case
from detent.testing.conformance.deletion import worked_on
from detent.testing.conformance.reads import busy
from detent.testing.conformance.work_actions import (
    claim_one,
    complete,
    do,
    run_of,
    submit_job,
    submit_task,
)
from tests.altered_database import alter

LEASE_US = 30_000_000


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Case]:
    place = {"memory": "memory:", "sqlite": str(tmp_path / "detent.db")}.get(request.param)
    url = place or request.getfixturevalue("postgres_url")
    made = Case(lambda clock: open_store(url, clock))
    yield made
    made.close()


def full(case: Case) -> None:
    """Work of every kind, running work, deleted work, work with a time limit, work that depends."""
    busy(case)
    gone = submit_task(case.engine, options={"job_timeout_ms": 60_000}, priority="P0")
    complete(case.engine, claim_one(case.engine))
    do(case.engine, c.DeleteTask(gone))
    first = submit_task(case.engine, options={"job_timeout_ms": 60_000})
    submit_task(case.engine, depends_on=(first,), tags=("late",))
    do(case.engine, c.AssignTask(first, "ada"))
    submit_job(case.engine, options={"queue_timeout_ms": 60_000})


def rows(store: Store) -> dict[str, object]:
    return picture(store)


def test_rows_that_were_lost_come_back_as_they_were(case: Case) -> None:
    full(case)
    before = rows(case.store)
    with case.store.write() as tx:
        tx.clear_rows()
    emptied = rows(case.store)
    assert [table for table in LISTED if emptied[table]] == []
    assert rebuild(case.store, LEASE_US) > 0
    assert rows(case.store) == before
    audit(case.store)


def test_work_goes_on_after_a_rebuild(case: Case) -> None:
    submit_task(case.engine)
    claimed = claim_one(case.engine)
    rebuild(case.store, LEASE_US)
    do(case.engine, c.RecordCheckpoint(claimed.grant, "page-1", 1))
    do(case.engine, c.CompleteRun(claimed.grant, run_of(claimed)))
    waiting = submit_task(case.engine)
    rebuild(case.store, LEASE_US)
    assert claim_one(case.engine).job.task_id == waiting
    audit(case.store)


def test_deleted_work_does_not_come_back(case: Case) -> None:
    submit_job(case.engine)
    do(case.engine, c.DeleteJob(worked_on(case)))
    rebuild(case.store, LEASE_US)
    found = rows(case.store)
    assert [table for table in LISTED if found[table]] == []


def test_a_running_job_has_a_whole_lease_to_report_in(case: Case) -> None:
    job = submit_job(case.engine)
    claim_one(case.engine)
    case.clock.advance(seconds=20)
    rebuild(case.store, LEASE_US)
    case.clock.advance(seconds=29)
    with case.store.write() as tx:
        assert tx.due(10, tx.now()).leases == []
    case.clock.advance(seconds=1)
    with case.store.write() as tx:
        assert [each[0] for each in tx.due(10, tx.now()).leases] == [job]


def test_every_table_of_rows_is_emptied_first(tmp_path: Path) -> None:
    """A row without events in the log is removed, in every table."""
    case = Case(lambda clock: SqliteStore(tmp_path / "detent.db", clock))
    full(case)
    with case.store.write() as tx:
        tx.clear_rows()
    found = apsw.Connection(str(tmp_path / "detent.db"))
    left = {table: found.execute(f"SELECT count(*) FROM {table}").get for table in REBUILT}
    kept = found.execute("SELECT count(*) FROM commits").get
    found.close()
    assert set(left.values()) == {0}
    assert kept
    rebuild(case.store, LEASE_US)
    case.close()


def test_a_damaged_log_leaves_the_rows_alone(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "detent.db")
    submit_job(Engine(store))
    alter(tmp_path / "detent.db", "UPDATE events SET name = 'unheard_of' WHERE position = 1")
    before = rows(store)
    with pytest.raises(Broken, match="The log itself is damaged"):
        rebuild(store, LEASE_US)
    assert rows(store) == before
    store.close()
