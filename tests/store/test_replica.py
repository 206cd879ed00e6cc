"""The replica: what is read from it, and when the primary is read instead."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from detent import feed
from detent.engine import Engine
from detent.errors import Misconfigured
from detent.ids import new_id
from detent.integrations.telemetry.store_gauges import replica as replica_gauges
from detent.operations.context import Core
from detent.operations.queries import list_jobs
from detent.operations.registry import OWNER
from detent.settings import Settings
from detent.store.configured_store import open_configured
from detent.store.port import Store
from detent.store.postgres import PostgresStore
from detent.store.postgres.replica import Replica
from detent.store.stale_reads import read_stale
from detent.store.types import LoggedEvent
from detent.testing.conformance.work_actions import submit_job
from verification.memory_directory import directory_in_memory
from verification.postgres_server import Pair, primary_with_standby

WITHIN_S = 120.0
MAX_LAG_MS = 2_000


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    """A primary with a standby that it does not wait for."""
    with (
        directory_in_memory("detent-replica-") as directory,
        primary_with_standby(directory, settings={"max_connections": "100"}) as made,
    ):
        administer(made.primary.url("postgres"), "ALTER SYSTEM RESET synchronous_standby_names")
        administer(made.primary.url("postgres"), "SELECT pg_reload_conf()")
        yield made


@pytest.fixture
def store(pair: Pair) -> Iterator[PostgresStore]:
    """A new database, which the replica has and is used for."""
    name = f"replica_{new_id()}"
    pair.primary.create_database(name)
    settings = Settings(
        store_url=pair.primary.url(name),
        store_replica_url=pair.standby.url(name) + "?connect_timeout=2",
        store_replica_max_lag_ms=MAX_LAG_MS,
    )
    opened = open_configured(settings)
    assert isinstance(opened, PostgresStore)
    try:
        until_used(opened)
        yield opened
    finally:
        opened.close()


def administer(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


def until(holds: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < end_s, f"not within {WITHIN_S} s: {what}"
        time.sleep(0.02)


def replica_of(store: Store) -> Replica:
    assert isinstance(store.replica, Replica)
    return store.replica


def until_used(store: Store, *, used: bool = True) -> None:
    """Wait until reads that may be stale are read there; each read starts or repeats checks."""

    def is_so() -> bool:
        with read_stale(store):
            return replica_of(store).status.used == used

    until(is_so, f"the replica is {'used' if used else 'not used'}")


def reaches(store: Store, position: int) -> bool:
    begun = replica_of(store).begin(position)
    if begun is None:
        return False
    with begun as view:
        return view.head() >= position


def listed(store: Store) -> set[str]:
    page = list_jobs(Core(store, Engine(store)), OWNER)
    return {each["id"] for each in page["items"]}


def log_of(store: Store) -> list[tuple[int, str]]:
    with store.read() as view:
        return [(each.position, each.stream) for each in view.events(0, 10_000)]


class Seen:
    """A reader of the feed from the beginning."""

    def __init__(self, store: Store) -> None:
        self.events: list[tuple[int, str]] = []
        self._tail = feed.Tail(store, self._deliver, 0)

    def _deliver(self, batch: Sequence[LoggedEvent]) -> None:
        self.events += [(each.position, each.stream) for each in batch]

    def read(self) -> list[tuple[int, str]]:
        while self._tail.step():
            pass
        return self.events


def test_lists_are_read_from_the_replica_and_a_job_by_its_id_from_the_primary(
    store: PostgresStore, pair: Pair
) -> None:
    engine = Engine(store)
    before = submit_job(engine)
    until(lambda: before in listed(store), "the replica has the first job")
    administer(pair.standby.url("postgres"), "SELECT pg_wal_replay_pause()")
    try:
        after = submit_job(engine)
        assert listed(store) == {before}
        with store.read() as view:
            assert [job.id for job, _ in view.jobs([after])] == [after]
        until_used(store, used=False)
        assert "behind" in replica_of(store).status.reason
        assert listed(store) == {before, after}
    finally:
        administer(pair.standby.url("postgres"), "SELECT pg_wal_replay_resume()")
    until_used(store)
    until(lambda: listed(store) == {before, after}, "the replica has both")


def test_the_feed_is_complete_and_in_order_while_the_replica_is_paused_and_lost(
    store: PostgresStore, pair: Pair
) -> None:
    engine, seen = Engine(store), Seen(store)
    standby = pair.standby.url("postgres")
    submit_job(engine)
    assert seen.read() == log_of(store)
    administer(standby, "SELECT pg_wal_replay_pause()")
    try:
        for _ in range(3):
            submit_job(engine)
            assert seen.read() == log_of(store)
    finally:
        administer(standby, "SELECT pg_wal_replay_resume()")
    pair.standby.kill()
    submit_job(engine)
    assert seen.read() == log_of(store)
    assert len(listed(store)) == 5
    assert not replica_of(store).status.used
    pair.standby.restart()
    until_used(store)
    submit_job(engine)
    assert seen.read() == log_of(store)


def test_the_feed_is_read_from_the_replica_and_never_beyond_the_primary(
    store: PostgresStore, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(store)
    submit_job(engine)
    first = feed.head(store)
    submit_job(engine)
    end = feed.head(store)
    until(lambda: reaches(store, end), "the replica has both jobs")
    with monkeypatch.context() as patched:
        patched.setattr(PostgresStore, "read", lambda _: pytest.fail("the primary was read"))
        patched.setattr(Replica, "acknowledged", lambda _: end)
        assert [each.position for each in feed.read(store, 0)] == list(range(1, end + 1))
        patched.setattr(Replica, "acknowledged", lambda _: first)
        assert [each.position for each in feed.read(store, 0)] == list(range(1, first + 1))


def test_after_a_failover_the_replica_is_used_when_it_follows_the_new_primary(
    store: PostgresStore, pair: Pair
) -> None:
    replica = replica_of(store)
    administer(pair.standby.url("postgres"), "SELECT pg_wal_replay_pause()")
    try:
        replica._timeline = "0000FFFF"  # as `acknowledged` reads it from the new primary
        assert replica.begin(0) is None
        replica.check()
        assert replica.status.reason == "it does not follow the present primary"
    finally:
        administer(pair.standby.url("postgres"), "SELECT pg_wal_replay_resume()")
    until_used(store)


def test_metrics_show_the_use_and_the_lag(store: PostgresStore) -> None:
    core = Core(store, Engine(store))
    found = {each.name: each.samples[0].value for each in replica_gauges(core)}
    assert found["detent_replica_used"] == 1
    assert 0 <= found["detent_replica_lag_seconds"] <= MAX_LAG_MS / 1_000
    store.replica, closed = None, replica_of(store)
    closed.close()
    assert list(replica_gauges(core)) == []


def test_a_file_has_no_replica(tmp_path: Path) -> None:
    settings = Settings(
        store_url=str(tmp_path / "detent.db"), store_replica_url="postgresql://localhost/x"
    )
    with pytest.raises(Misconfigured, match="only a PostgreSQL store has a replica"):
        open_configured(settings)


def test_a_promoted_replica_is_not_read(store: PostgresStore, pair: Pair) -> None:
    """The last test: the standby goes its own way from here on."""
    engine, seen = Engine(store), Seen(store)
    submit_job(engine)
    assert seen.read() == log_of(store)
    pair.standby.promote()
    other = PostgresStore(pair.standby.url(store.url.rpartition("/")[2]))
    stray = submit_job(Engine(other))
    other.close()
    own = submit_job(engine)
    assert seen.read() == log_of(store)
    assert own in listed(store)
    assert stray not in {stream for _, stream in seen.events}
    assert not replica_of(store).status.used
