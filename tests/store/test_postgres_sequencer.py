"""The sequencer on PostgreSQL: clients that stop, gaps, and many commits without a position."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
import pytest

from detent import feed
from detent.engine import Engine
from detent.errors import DetentError
from detent.testing.conformance.work_actions import submit_job
from tests.store.postgres_scene import DEADLINE_S, beside, opened, store_of, until
from verification.postgres_proxy import EXECUTE, PARSE, Link, Message, Proxy, pass_on, proxy_to
from verification.postgres_server import HOST, Server

#: Within this readers go on. It has room for a busy machine, and none for the usual minute.
GOES_ON_S = 45.0
#: Before version 17, a process that waits ends sessions that are silent for half of this.
HOLD_S = 1.0


@pytest.fixture
def proxy(versioned_server: Server) -> Iterator[Proxy]:
    with proxy_to(HOST, versioned_server.port) as made:
        yield made


def stop_before(link: Link, _message: Message) -> None:
    link.closed.wait()


def stop_within(link: Link, message: Message) -> None:
    link.forward(message.data[: len(message.data) // 2])
    link.closed.wait()


def stop_after(link: Link, message: Message) -> None:
    link.forward(message.data + b"H\0\0\0\4")
    link.closed.wait()


@contextmanager
def stopped_sequencer(
    proxy: Proxy, engine: Engine, number: int, act: Callable[[Link, Message], None]
) -> Iterator[int]:
    """A client that assigns positions and stops at the message with this number.

    Yields the server's process for it. A turn ends sooner if its connection was cut before,
    so the client takes turns until one stops.
    """
    count, pid, stopped = 0, 0, threading.Event()

    def gate(link: Link, message: Message) -> None:
        nonlocal count, pid
        count += 1
        if count == number:
            pid = link.pid
            stopped.set()
            act(link, message)
        else:
            pass_on(link, message)

    def sequence() -> None:
        nonlocal count
        deadline = time.monotonic() + DEADLINE_S
        while not stopped.is_set() and time.monotonic() < deadline:
            count = 0
            with suppress(DetentError):
                store_of(engine).sequence()

    proxy.gate = gate
    client = threading.Thread(target=sequence)
    client.start()
    try:
        assert stopped.wait(DEADLINE_S)
        yield pid
    finally:
        proxy.gate = pass_on
        for link in proxy.links:
            link.cut()
        client.join(DEADLINE_S)
        assert not client.is_alive()


def messages_of_a_turn(proxy: Proxy, engine: Engine) -> list[str]:
    kinds: list[str] = []

    def note(link: Link, message: Message) -> None:
        kinds.append(message.kind)
        pass_on(link, message)

    proxy.gate = note
    store_of(engine).sequence()
    proxy.gate = pass_on
    return kinds


@pytest.mark.parametrize("act", [stop_before, stop_within, stop_after])
def test_a_sequencer_that_is_stopped_at_any_message_blocks_no_writer_and_delays_readers_briefly(
    proxy: Proxy, versioned_url: str, act: Callable[[Link, Message], None]
) -> None:
    with (
        opened(f"{proxy.url(versioned_url)}&notifier=no&prepare=no") as sequencer,
        opened(f"{versioned_url}?notifier=no&max_hold_s={HOLD_S}") as other,
        beside(versioned_url) as connection,
    ):
        kinds = messages_of_a_turn(proxy, sequencer)
        assert kinds[0] == PARSE
        assert EXECUTE in kinds
        for number in range(1, len(kinds) + 1):
            submit_job(other)  # without a position, so that the turn has something to do
            with stopped_sequencer(proxy, sequencer, number, act) as pid:
                until(partial(has_done, connection, pid), "it has done what it was sent")
                job = submit_job(other)
                until(partial(has_read, other, job), "a reader goes on", GOES_ON_S)
    assert_sequenced(versioned_url)


def has_done(connection: psycopg.Connection, pid: int) -> bool:
    """Whether the session waits for its client."""
    query = "SELECT wait_event FROM pg_stat_activity WHERE pid = %s"
    return connection.execute(query, [pid]).fetchone() == ("ClientRead",)


def has_read(engine: Engine, job: str) -> bool:
    with suppress(DetentError):
        return any(event.stream == job for event in feed.read(engine.store, 0, 10_000))
    return False


def assert_sequenced(url: str) -> None:
    with beside(url) as connection:
        query = (
            "SELECT count(*) FROM commits WHERE id NOT IN (SELECT commit_id FROM commit_positions)"
        )
        assert connection.execute(query).fetchone() == (0,)


def put_commits(connection: psycopg.Connection, condition: str) -> None:
    """Add commits of three events; ids that do not satisfy the condition are gaps."""
    connection.execute(
        f"""
        INSERT INTO commits (id, at, events, body)
        SELECT 1024 * n, n, 3, '[]' FROM generate_series(1, 10000) AS n WHERE {condition}
    """.encode()
    )
    connection.execute("SELECT setval('commit_ids', 1024 * 10000)")


def test_a_backlog_with_gaps_gets_positions_without_gaps(versioned_url: str) -> None:
    """Late commits get the next positions, and ids that were rolled back are dropped."""
    turn = "SELECT high, position, cardinality(missing) FROM sequencer_turns ORDER BY turn DESC"
    with opened(versioned_url) as engine, beside(versioned_url) as connection:
        with beside(versioned_url) as late, late.transaction():
            late.execute("SELECT pg_current_xact_id()")
            put_commits(connection, "n % 10 > 0")
            store_of(engine).sequence()
            assert connection.execute(turn).fetchone() == (1024 * 9999, 27_000, 999)
            put_commits(late, "n % 20 = 0")
        store_of(engine).sequence()
        assert connection.execute(turn).fetchone() == (1024 * 10000, 28_500, 0)
        submit_job(engine)
        store_of(engine).sequence()
        assert connection.execute(turn).fetchone() == (1024 * 10001, 28_501, 0)
        query = """
            SELECT first_position FROM commit_positions ORDER BY first_position
        """
        positions = [position for (position,) in connection.execute(query)]
        assert positions == list(range(1, 28_502, 3))
        late_query = "SELECT min(first_position) FROM commit_positions WHERE commit_id % 20480 = 0"
        assert connection.execute(late_query).fetchone() == (27_001,)
