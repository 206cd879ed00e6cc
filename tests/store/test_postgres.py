"""The store on PostgreSQL when things go wrong: killed, cut off, full, misled, and well again."""

import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest
from psycopg import sql

from detent.engine import CommandRequest, CommandResult, Engine, Idempotency
from detent.errors import DetentError, Invalid, StoreUnavailable, Unavailable
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.clock import HostClock
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import Failed
from detent.store.postgres.error_mapping import explained
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import (
    PERSON,
    claim,
    claim_one,
    complete,
    outcome,
    submit_job,
    submit_task,
)
from tests.store.postgres_scene import DEADLINE_S, beside, cut_others, opened, until
from verification.postgres_proxy import READY, SYNC, Link, Message, pass_on, proxy_to
from verification.postgres_server import HOST, Server


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of our own, to be killed and stopped."""
    with (
        TemporaryDirectory(prefix="detent-pg-") as directory,
        Server.start(Path(directory)) as started,
    ):
        yield started


@pytest.fixture
def url(server: Server) -> Iterator[str]:
    name = f"own_{new_id()}"
    yield server.create_database(name)
    server.drop_database(name)


# ---- what was acknowledged stays --------------------------------------------------------------


def test_a_killed_server_loses_nothing_that_was_acknowledged(server: Server, url: str) -> None:
    """Several writers are killed in the middle: what got no answer may be there or not."""
    acknowledged: list[str] = []

    def submit_until_it_fails(engine: Engine) -> None:
        while True:
            results = engine.execute(
                [CommandRequest(c.SubmitJob(new_id(), "p", "dig"), PERSON, fresh=True)]
            )
            if isinstance(results[0], DetentError):
                return
            acknowledged.append(results[0].value)

    engines = [Engine(PostgresStore(url)) for _ in range(3)]
    threads = [threading.Thread(target=submit_until_it_fails, args=[each]) for each in engines]
    for thread in threads:
        thread.start()
    until(lambda: len(acknowledged) > 100, "some jobs were submitted")
    server.kill()
    for thread in threads:
        thread.join(DEADLINE_S)
    server.restart()
    with engines[0].store.read() as view:
        found = {job.id for job, _ in view.jobs(acknowledged)}
    assert found == set(acknowledged)
    audit(engines[0].store)
    for engine in engines:
        engine.store.close()


def test_it_goes_on_by_itself_when_the_server_is_back(server: Server, url: str) -> None:
    with opened(url) as engine:
        first = submit_job(engine)
        server.stop()
        (result,) = engine.execute([CommandRequest(c.SubmitJob(new_id(), "p", "dig"), PERSON)])
        assert isinstance(result, Unavailable)
        assert "the database cannot be reached" in result.message
        assert result.hint.startswith("Check store.url and that the server runs")
        server.restart()
        second = submit_job(engine)
        assert {each.job.id for each in claim(engine, 5)} == {first, second}


def test_connections_that_died_unused_are_not_noticed(server: Server, url: str) -> None:
    with opened(url) as engine:
        submit_job(engine)
        server.restart()
        assert outcome(engine, c.SubmitJob("again", "p", "dig")) == "again"
        server.restart()
        with engine.store.read() as view:
            assert view.head() == 2


# ---- connections that are cut ------------------------------------------------------------------


def test_a_connection_cut_before_the_commit(url: str) -> None:
    with opened(url) as engine, beside(url) as other:

        def write() -> None:
            with engine.store.write() as tx:
                tx.put_rows("projects", {"a": 1})
                assert cut_others(other, state="idle in transaction") == 1
                tx.put_rows("projects", {"b": 2})

        with pytest.raises(Unavailable, match="shutting down"):
            write()
        with engine.store.read() as view:
            assert view.rows("projects") == {}


def test_a_connection_cut_while_it_commits(url: str) -> None:
    """Here it waits for the log, so nothing was written; the caller cannot know that."""
    with opened(url) as engine, beside(url) as other, other.transaction():
        other.execute("LOCK TABLE commits IN SHARE MODE")
        results: list[Any] = []
        ask = [CommandRequest(c.SubmitJob("j", "p", "dig"), PERSON)]
        thread = threading.Thread(target=lambda: results.extend(engine.execute(ask)))
        thread.start()
        until(lambda: cut_others(other, wait_event="relation") == 1, "the writer waits")
        thread.join(DEADLINE_S)
        assert isinstance(results[0], Unavailable)
        assert "It is not known whether the commit was written" in results[0].message
        with engine.store.read() as view:
            assert view.head() == 0


def test_a_connection_cut_after_the_commit(server: Server, url: str) -> None:
    """It was written without a response; a retry with the same key gets the first result."""
    with proxy_to(HOST, server.port) as proxy, opened(f"{proxy.url(url)}&notifier=no") as engine:
        key = Idempotency("p", "k", "body")
        submit_job(engine)
        commits: set[Link] = set()

        def cut_after_commit(link: Link, message: Message) -> None:
            if b"COMMIT\0" in message.data:
                commits.add(link)
            if message.kind == SYNC and link in commits:
                link.swallows = True
                proxy.gate = pass_on
                proxy.on_answer = lambda link, kind: link.cut() if kind == READY else None
            link.forward(message.data)

        proxy.gate = cut_after_commit
        (lost,) = engine.execute([CommandRequest(c.SubmitJob("first", "p", "dig"), PERSON, key)])
        proxy.on_answer = lambda _link, _kind: None
        assert isinstance(lost, Unavailable)
        assert "It is not known whether the commit was written" in lost.message
        (again,) = engine.execute([CommandRequest(c.SubmitJob("second", "p", "dig"), PERSON, key)])
        assert again == CommandResult("first", repeated=True)
        with engine.store.read() as view:
            assert [event.stream for event in view.events(1, 10)] == ["first"]


def test_a_server_that_says_nothing(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("detent.store.postgres.connection.RESPONSE_WITHIN_S", 0.05)
    with opened(url) as engine, beside(url) as other:
        with other.transaction():
            other.execute("LOCK TABLE limits")
            with (
                engine.store.read() as view,
                pytest.raises(Unavailable, match="no response within"),
            ):
                view.rows("limits")
        with engine.store.read() as view:
            assert view.rows("limits") == {}


# ---- faults of the server ----------------------------------------------------------------------


def test_a_full_disk_leaves_nothing_half_done_and_heals(url: str) -> None:
    with opened(url) as engine, beside(url) as other:
        job = submit_job(engine)
        claimed = claim_one(engine)
        other.execute("""
            CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER no_space BEFORE INSERT ON commits EXECUTE FUNCTION no_space();
        """)
        (result,) = engine.execute(
            [CommandRequest(c.CompleteRun(claimed.grant, claimed.job.run_id or ""), PERSON)]
        )
        assert isinstance(result, Unavailable)
        assert "disk of the database is full. Nothing was written" in result.message
        with engine.store.read() as view:
            ((still, _),) = view.jobs([job])
        assert still == claimed.job
        other.execute("DROP TRIGGER no_space ON commits")
        assert complete(engine, claimed) == "completed"
        audit(engine.store)


@pytest.mark.parametrize(
    ("sqlstate", "kind", "message"),
    [
        ("40P01", StoreUnavailable, "two transactions conflicted"),
        ("40001", StoreUnavailable, "two transactions conflicted"),
        ("53300", StoreUnavailable, "max_connections"),
        ("25006", StoreUnavailable, "standby"),
        ("57P01", StoreUnavailable, "shutting down"),
        ("58030", StoreUnavailable, "its disk"),
        ("22P05", Invalid, "the character U+0000"),
    ],
)
def test_the_exception_of_a_fault(sqlstate: str, kind: type[DetentError], message: str) -> None:
    error = explained(Failed("the message of the server", sqlstate), "here")
    assert type(error) is kind
    assert message in error.message
    made = psycopg.errors.lookup(sqlstate)("the message of the server")
    assert explained(made, "here").message == error.message


def test_a_text_with_the_character_zero_is_refused(url: str) -> None:
    with opened(url) as engine:
        asks = [
            CommandRequest(c.SubmitTask(new_id(), "p", "board", "dig", "cli", title="a\0b"), PERSON)
        ]
        (result,) = engine.execute(asks)
        assert isinstance(result, Invalid)
        assert submit_task(engine, payload="a\0b")


def test_a_server_that_takes_no_writes_is_left(url: str) -> None:
    """As after a failover: the next connection may lead to the server that is the first now."""
    with opened(url) as engine, beside(url) as other:
        name = sql.Identifier(other.info.dbname)
        other.execute(
            sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name)
        )
        cut_others(other, state="idle")
        assert outcome(engine, c.SubmitJob("j", "p", "dig")) == "unavailable"
        other.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))
        assert outcome(engine, c.SubmitJob("j", "p", "dig")) == "j"


# ---- the clock -------------------------------------------------------------------------------


def test_after_a_write_with_a_fast_clock_time_goes_on_by_the_servers_clock(
    postgres_url: str,
) -> None:
    """The server's own clock was right before and is right after; one write was an hour ahead."""
    store = PostgresStore(postgres_url)
    fast = PostgresStore(postgres_url, VirtualClock(HostClock()() + 3_600_000_000))
    submit_job(Engine(fast))
    fast.close()
    with store.read() as view:
        first, ahead = view.now(), view.ahead()
    assert 3_500_000_000 < ahead < 3_700_000_000
    until(lambda: _now(store) > first + 50_000, "time goes on")
    again = PostgresStore(postgres_url)
    assert _now(again) >= first
    with again.write() as tx:
        assert tx.reset_clock() > 3_500_000_000
    for each in (store, again):
        with each.read() as view:
            assert (view.now() < first, view.ahead()) == (True, 0)
        each.close()


def _now(store: PostgresStore) -> int:
    with store.read() as view:
        return view.now()
