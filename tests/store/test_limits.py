"""Pauses and limits in the log: checked, rebuilt, trimmed, moved, and taken over from before."""

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from detent.engine import Engine
from detent.errors import Misconfigured, Refused
from detent.integrity import hash_chain
from detent.integrity.audit import Difference
from detent.integrity.rebuild import rebuild
from detent.integrity.upgrade import upgrade_postgres, upgrade_sqlite
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.commands import limit_commands as lc
from detent.kernel.evolve import evolve_limits
from detent.store.port import Store
from detent.store.postgres import PostgresStore
from detent.store.postgres import schema as postgres_schema
from detent.store.sqlite import SqliteStore
from detent.store.store_url import open_store
from detent.store.types import Changes, NewEvent
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete, do, submit_job
from detent.transfer.store_move import move
from tests.store import old_databases

#: Rows as a version without events of limits left them.
OLD = {
    "all": '{"paused":true,"paused_by":"ann","paused_at":7,"reason":null}',
    "intent:saw": '{"running":2,"in_file":true}',
}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    place = {"memory": "memory:", "sqlite": str(tmp_path / "detent.db")}.get(request.param)
    made = open_store(place or request.getfixturevalue("postgres_url"), VirtualClock())
    yield made
    made.close()


def some_limits(store: Store) -> dict[str, object]:
    engine = Engine(store)
    do(engine, lc.SetLimit("intent:saw", rate=3, per_s=60))
    do(engine, lc.SetPause("intent:saw", "blunt", 60_000_000))
    do(engine, lc.SetPause("project:barn"))
    do(engine, lc.EndPause("project:barn"))
    do(engine, lc.SetPause("key:k", in_file=True))
    return rows(store)


def rows(store: Store) -> dict[str, object]:
    with store.read() as view:
        return dict(view.rows("limits"))


def differing(store: Store) -> set[tuple[str, str]]:
    return {(each.stream, each.what) for each in verify(store).differences}


@pytest.mark.parametrize(
    "change",
    [
        {"intent:saw": None},
        {"intent:saw": {"rate": 3, "per_s": 60}},
        {"key:k": {"paused": True, "in_file": True, "paused_by": "mallory"}},
        {"worker:w": {"paused": True}},
    ],
)
def test_verify_finds_a_row_that_the_log_does_not_say(
    store: Store, change: dict[str, object]
) -> None:
    some_limits(store)
    assert verify(store).differences == []
    with store.write() as tx:
        tx.put_rows("limits", change)
    (name,) = change
    assert differing(store) == {(e.SYSTEM, f"limit {name}")}


def test_rebuild_makes_the_rows_from_the_log(store: Store) -> None:
    before = some_limits(store)
    with store.write() as tx:
        tx.put_rows("limits", {"intent:saw": None, "all": {"paused": True}})
    assert rebuild(store, 1) == 5
    assert rows(store) == before
    audit(store)


@pytest.mark.parametrize("event", [e.PauseEnded(), e.LimitEnded(), e.LimitsNoted({})])
def test_an_event_that_cannot_follow_is_a_flaw(store: Store, event: e.Event) -> None:
    some_limits(store)
    with store.write() as tx:
        record = e.Record(e.SYSTEM, "project:barn", event, tx.now(), "mallory")
        version = tx.version_of(e.SYSTEM) + 1
        tx.save(Changes([NewEvent(e.SYSTEM, version, "", record)]))
    (flaw,) = verify(store).differences
    assert (flaw.stream, flaw.what, flaw.row) == (e.SYSTEM, "event", event.name)


def test_no_other_stream_sets_limits() -> None:
    """For example, an archive contains streams that another installation has written."""
    record = e.Record("task", "all", e.PauseSet(), 1, "mallory")
    with pytest.raises(Refused):
        evolve_limits({}, record)


def test_a_trim_keeps_what_holds(store: Store) -> None:
    before = some_limits(store)
    engine = Engine(store)
    job = submit_job(engine)
    complete(engine, claim_one(engine))
    do(engine, c.DeleteJob(job))
    hash_chain.extend_chain(store)
    kept = submit_job(engine)
    hash_chain.extend_chain(store)
    assert hash_chain.trim(store) > 5
    with store.read() as view:
        names = [event.name for event in view.events(0, 100)]
    assert names == ["job_created", "limits_noted"]
    assert rows(store) == before
    assert verify(store).differences == []
    do(engine, lc.EndPause("intent:saw"))
    assert rebuild(store, 1) == 3
    assert verify(store).differences == []
    assert rows(store).keys() == before.keys()
    assert hash_chain.trim(store) == 0
    assert claim_one(engine).job.id == kept


def test_events_of_limits_alone_are_not_trimmed_again_and_again(store: Store) -> None:
    some_limits(store)
    hash_chain.extend_chain(store)
    do(Engine(store), lc.EndPause("key:k"))
    hash_chain.extend_chain(store)
    assert hash_chain.trim(store) == 0


def test_limits_move(tmp_path: Path, empty_postgres_url: str) -> None:
    clock = VirtualClock()
    source = SqliteStore(tmp_path / "detent.db", clock)
    before = some_limits(source)
    move(source, empty_postgres_url, 1)
    target = PostgresStore(empty_postgres_url, clock)
    assert rows(target) == before
    assert verify(target).differences == []
    target.close()
    source.close()


# ---- from before -----------------------------------------------------------------------------

PUT = "INSERT INTO limits (name, value, updated_at) VALUES ({0}, {0}, 1)"


def taken_over(store: Store) -> list[Difference]:
    """What the log says of rows that were there before; what differs."""
    with store.read() as view:
        (noted,) = view.events(0, 10)
        assert view.rows("limits").keys() == OLD.keys()
    assert (noted.stream, noted.name, noted.version) == (e.SYSTEM, "limits_noted", 1)
    found = verify(store).differences
    do(Engine(store), lc.EndPause("all"))
    return [*found, *verify(store).differences]


def test_sqlite_takes_over_what_was_set_before(tmp_path: Path) -> None:
    path = tmp_path / "detent.db"
    raw = old_databases.empty(path, upto=7)
    raw.executemany(PUT.format("?"), OLD.items()).fetchall()
    raw.close()
    with pytest.raises(Misconfigured, match="storage layout"):
        SqliteStore(path)
    upgrade_sqlite(str(path), 1, lambda *_: None)
    store = SqliteStore(path)
    assert taken_over(store) == []
    store.close()


def test_postgres_takes_over_what_was_set_before(empty_postgres_url: str) -> None:
    with psycopg.connect(empty_postgres_url) as raw:
        for migration in postgres_schema.MIGRATIONS[:7]:
            raw.execute(migration.text.encode())
            number, name, _, digest = migration
            raw.execute(postgres_schema.NOTE, [number, name, digest])
        raw.cursor().executemany(PUT.format("%s").encode(), list(OLD.items()))
    with pytest.raises(Misconfigured):  # the migration has written an event
        PostgresStore(empty_postgres_url)
    upgrade_postgres(empty_postgres_url, 1, lambda _what, _at: None)
    store = PostgresStore(empty_postgres_url)
    assert taken_over(store) == []
    store.close()
