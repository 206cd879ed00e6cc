"""Everything moves from SQLite to PostgreSQL: the same log, the same chain, the same rows."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.engine.types import Idempotency
from detent.errors import Broken, Refused
from detent.kernel import commands as c
from detent.store.sqlite import SqliteStore
from detent.store.store_url import open_store
from detent.store.table_names import TABLES
from detent.store.types import Query
from detent.testing.audit import audit, picture
from detent.testing.conformance.case import Case
from detent.testing.conformance.reads import busy
from detent.testing.conformance.work_actions import (
    claim_one,
    complete,
    do,
    submit_job,
    submit_task,
)
from detent.transfer.store_move import move
from tests.altered_database import alter

LEASE_US = 30_000_000
WAYS = {"key": Idempotency("p", "once", "digest")}


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    """Work of every kind, some of it deleted, and a value in each small table."""
    made = Case(lambda clock: SqliteStore(tmp_path / "detent.db", clock))
    busy(made)
    gone = submit_task(made.engine, priority="P0")
    complete(made.engine, claim_one(made.engine))
    do(made.engine, c.DeleteTask(gone))
    do(made.engine, c.SubmitJob("keyed", "p", "dig"), **WAYS)
    tables = [table for table in TABLES if table not in ("resources", "limits", "lifecycles")]
    with made.store.write() as tx:
        for table in tables:
            tx.put_rows(table, {"a": {"of": table}})
    yield made
    made.close()


def source(case: Case) -> SqliteStore:
    assert isinstance(case.store, SqliteStore)
    return case.store


def test_everything_moves(case: Case, empty_postgres_url: str) -> None:
    moved = move(source(case), empty_postgres_url, LEASE_US)
    before = picture(case.store)
    store = open_store(empty_postgres_url, case.clock)
    try:
        assert moved.counts["events"] == len(before["log"])
        assert picture(store) == before
        audit(store)
    finally:
        store.close()


def test_evidence_and_output_come_along(case: Case, postgres_url: str) -> None:
    blob = case.store.blobs.put(BytesIO(b"evidence" * 300_000))
    with case.store.read() as view:
        run_id = view.page(Query("runs", order="id"))[0]["id"]
    reported = {run_id: b"reported " * 50_000}

    def read_output(run: str, offset: int, limit: int) -> bytes:
        return reported.get(run, b"")[offset : offset + limit]

    far: dict[str, tuple[int, int]] = {}
    moved = move(
        *(source(case), postgres_url, LEASE_US, read_output),
        progress=lambda what, at, of: far.update({what: (at, of)}),
    )
    assert far["events"] == (moved.counts["events"], moved.counts["events"])
    assert far["evidence"] == (1, 1)
    assert (moved.counts["blobs"], moved.counts["output"]) == (1, 1)
    store = open_store(postgres_url, case.clock)
    assert b"".join(store.blobs.read(blob.sha256)) == b"evidence" * 300_000
    assert store.outputs is not None
    assert store.outputs.read(run_id, 5, 1_000_000) == reported[run_id][5:]
    store.close()


def test_work_goes_on_where_it_was_moved_to(case: Case, postgres_url: str) -> None:
    head = move(source(case), postgres_url, LEASE_US).anchor.position
    store = open_store(postgres_url, case.clock)
    try:
        engine = Engine(store)
        assert do(engine, c.SubmitJob("keyed", "p", "dig"), **WAYS) == "keyed"  # the key came along
        submit_job(engine)
        complete(engine, claim_one(engine))
        with store.read() as view:
            assert view.events(head, 1)[0].position > head
        audit(store)
    finally:
        store.close()


def test_nothing_is_mixed_with_what_is_there(case: Case, postgres_url: str) -> None:
    store = open_store(postgres_url, case.clock)
    submit_job(Engine(store))
    before = picture(store)
    with pytest.raises(Refused, match="is not empty"):
        move(source(case), postgres_url, LEASE_US)
    assert picture(store) == before
    store.close()


def test_what_is_damaged_stays_where_it_is(case: Case, postgres_url: str) -> None:
    alter(source(case).path, "UPDATE jobs SET fence = 7")
    with pytest.raises(Broken, match="damaged"):
        move(source(case), postgres_url, LEASE_US)
    store = open_store(postgres_url, case.clock)
    with store.read() as view:
        assert view.head() == 0
    store.close()


def test_texts_that_postgresql_cannot_store_are_named_before_anything_is_copied(
    case: Case, empty_postgres_url: str
) -> None:
    job = submit_job(case.engine, priority="P0")
    held = claim_one(case.engine)
    failure = c.FailRun(held.grant, held.job.run_id or "", "cancelled", "a\0b", decision="failed")
    do(case.engine, failure)
    with pytest.raises(Refused, match=rf"{job} \(error in ended_jobs\)"):
        move(source(case), empty_postgres_url, LEASE_US)
    store = open_store(empty_postgres_url, case.clock)
    with store.read() as view:
        assert view.head() == 0
    store.close()
