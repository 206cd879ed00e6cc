"""A transaction over the size bound is written as several commits, all of them or none."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from detent import feed
from detent.engine import CommandRequest, Engine
from detent.errors import StoreUnavailable, Unavailable
from detent.ids import new_id
from detent.integrity import hash_chain
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store import commit_body, log_walk
from detent.store.port import Store
from detent.store.postgres import PostgresStore, new_commits
from detent.store.sqlite import SqliteStore
from detent.testing.audit import audit
from detent.testing.conformance.case import check_streams
from detent.testing.conformance.work_actions import PERSON, do
from tests.altered_database import readable
from tests.store.postgres_scene import beside

#: Jobs of one batch, and the bytes of each payload: a third of the bound.
JOBS, BYTES = 10, commit_body.MAX_BYTES // 3

#: Reads the number of events and the body of every commit.
Commits = Callable[[], list[tuple[int, Any]]]


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[tuple[Store, Commits]]:
    store = SqliteStore(tmp_path / "detent.db")

    def commits() -> list[tuple[int, Any]]:
        database = readable(apsw.Connection(str(tmp_path / "detent.db")))
        text = "SELECT events, sqlar_uncompress(body, size) FROM commits ORDER BY id"
        return list(database.execute(text))

    yield store, commits
    store.close()


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[tuple[Store, Commits]]:
    store = PostgresStore(postgres_url)

    def commits() -> list[tuple[int, Any]]:
        with beside(postgres_url) as connection:
            return connection.execute("SELECT events, body FROM commits ORDER BY id").fetchall()

    yield store, commits
    store.close()


@pytest.fixture(params=["sqlite", "postgres"])
def stored(request: pytest.FixtureRequest) -> tuple[Store, Commits]:
    made: tuple[Store, Commits] = request.getfixturevalue(request.param)
    return made


def submitted(priorities: int) -> list[c.SubmitJob]:
    """Jobs with long payloads; those of one priority are equal, and may be written as a set."""
    return [
        c.SubmitJob(
            new_id(), "p", "dig", priority=f"P{number % priorities}", payload=f"{number}" * BYTES
        )
        for number in range(JOBS)
    ]


def submit(engine: Engine, jobs: list[c.SubmitJob]) -> list[Any]:
    return engine.execute([CommandRequest(job, PERSON, fresh=True) for job in jobs])


@pytest.mark.parametrize("priorities", [1, 4])
def test_a_batch_over_the_bound_is_several_commits(
    stored: tuple[Store, Commits], priorities: int
) -> None:
    store, commits = stored
    jobs = submitted(priorities)
    submit(Engine(store), jobs)
    found = commits()
    assert len(found) > JOBS // 4
    assert sum(events for events, _ in found) == JOBS
    longest = max(len(body if isinstance(body, bytes) else body.encode()) for _, body in found)
    assert longest < commit_body.MAX_BYTES + BYTES
    assert one_by_one(store) == list(range(1, JOBS + 1))
    hash_chain.extend_chain(store)
    do(Engine(store), c.CancelJob(jobs[4].job_id))
    do(Engine(store), c.DeleteJob(jobs[4].job_id))
    check_streams(store)
    audit(store)
    assert verify(store).differences == []
    with store.read() as view:
        kept = [event for event in view.events(0, JOBS) if event.stream != jobs[4].job_id]
    assert all(len(event.data) > BYTES for event in kept)


def one_by_one(store: Store) -> list[int]:
    """The positions that a reader gets that reads one event at a time."""
    found: list[int] = []
    while batch := feed.read(store, found[-1] if found else 0, 1):
        found += [event.position for event in batch]
    return found


@pytest.mark.parametrize("events", [1, 4])
def test_a_page_of_the_log_is_bounded_by_bytes(
    stored: tuple[Store, Commits], monkeypatch: pytest.MonkeyPatch, events: int
) -> None:
    """An event of any size is read, also after one that alone exceeds the bound."""
    store, _ = stored
    engine = Engine(store)
    for at in range(0, JOBS, events):
        submit(engine, submitted(4)[at : at + events])
    for bound in (1, BYTES * 5 // 2):
        monkeypatch.setattr(log_walk, "PAGE_BYTES", bound)
        found: list[int] = []
        while batch := feed.read(store, found[-1] if found else 0):
            assert sum(len(event.data) for event in batch[:-1]) < bound
            found += [event.position for event in batch]
        assert found == list(range(1, JOBS + 1))
    for after in range(JOBS):
        with store.read() as view:
            read = view.commits(after, JOBS, max_bytes=1)
        assert read[0].first <= after + 1 <= read[0].last
        assert len(read) == 1


def test_more_commits_than_a_save_may_have_are_merged(
    postgres: tuple[Store, Commits], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_commits, "MAX_PARTS", 2)
    store, commits = postgres
    submit(Engine(store), submitted(4))
    assert [events for events, _ in commits()] == [6, 4]
    assert one_by_one(store) == list(range(1, JOBS + 1))
    audit(store)


def test_a_full_disk_in_the_middle_of_a_split_batch_leaves_nothing(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    with beside(postgres_url) as other:
        other.execute("""
            CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF NEW.id % 1024 = 1 THEN
                    RAISE 'could not extend file' USING ERRCODE = 'disk_full';
                END IF;
                RETURN NEW;
            END $$;
            CREATE TRIGGER no_space BEFORE INSERT ON commits
                FOR EACH ROW EXECUTE FUNCTION no_space();
        """)
        answers = submit(Engine(store), submitted(4))
        assert {type(answer) for answer in answers} == {StoreUnavailable}
        for table in ("commits", "active_jobs", "arrivals"):
            assert other.execute(f"SELECT count(*) FROM {table}".encode()).fetchone() == (0,)
        other.execute("DROP TRIGGER no_space ON commits")
    submit(Engine(store), submitted(4))
    audit(store)
    store.close()


def test_a_full_disk_while_positions_are_assigned_delays_readers_only(postgres_url: str) -> None:
    store = PostgresStore(postgres_url)
    engine = Engine(store)
    with beside(postgres_url) as other:
        other.execute("""
            CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER no_space BEFORE INSERT ON commit_positions EXECUTE FUNCTION no_space();
        """)
        for _ in range(2):
            submit(engine, submitted(4))
            with pytest.raises(Unavailable, match="disk of the database is full"):
                feed.read(store, 0)
        other.execute("DROP TRIGGER no_space ON commit_positions")
    assert one_by_one(store) == list(range(1, 2 * JOBS + 1))
    store.close()
