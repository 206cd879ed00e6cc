"""A process of the PostgreSQL server that is stopped (SIGSTOP) with locks delays only their users.

No timeout of the server ends such a session: its process cannot handle one before it continues.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psycopg
import pytest

from detent import feed
from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import Unavailable
from detent.ids import new_id
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.postgres import PostgresStore

ACTOR = c.Actor("person:ann")
#: For how long a session may hold rows; a write that waits for them gives up after this time.
HOLD_S = 1.0
#: Less than the time after which a process gives up waiting for any response of the server.
GIVES_UP_S = 60.0
DEADLINE_S = 60.0


@pytest.fixture
def engine(versioned_url: str) -> Iterator[Engine]:
    store = PostgresStore(f"{versioned_url}?max_hold_s={HOLD_S}")
    yield Engine(store)
    store.close()


@contextmanager
def stopped(url: str, *statements: str) -> Iterator[None]:
    """A server process that has executed these statements in a transaction, and is stopped."""
    connection = psycopg.connect(url)
    for text in statements:
        connection.execute(text.encode())
    pid = connection.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        with suppress(psycopg.Error):
            connection.rollback()
        connection.close()


def until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"waited in vain until {what}"


def is_done(engine: Engine, command: c.Command) -> bool:
    (result,) = engine.execute([CommandRequest(command, ACTOR)])
    return not isinstance(result, Unavailable)


def work(engine: Engine) -> None:
    """Submit a job, claim it and complete it."""
    engine.do(c.SubmitJob(new_id(), "p", "dig"), ACTOR)
    (held,) = engine.claim(ClaimRequest("w", new_id(), 1, ["dig"]))
    engine.do(c.CompleteRun(held.grant, held.job.run_id or ""), ACTOR)


def test_a_stopped_backend_with_rows_delays_only_what_needs_them(
    versioned_url: str, engine: Engine
) -> None:
    task = engine.do(c.SubmitTask(new_id(), "p", "board", "rest", "cli"), ACTOR)
    edit = c.EditTask(task, {"title": "later"})
    lock = f"SELECT id FROM active_tasks WHERE id = '{task}' FOR UPDATE"
    with stopped(versioned_url, lock):
        before = feed.head(engine.store)
        work(engine)
        assert len(feed.read(engine.store, before)) == 6
        begun_s = time.monotonic()
        assert not is_done(engine, edit)
        assert time.monotonic() - begun_s < GIVES_UP_S
        work(engine)
    until(lambda: is_done(engine, edit), "the task can be edited")
    assert verify(engine.store).differences == []


def test_a_stopped_backend_that_assigns_positions_delays_no_writer(
    versioned_url: str, engine: Engine
) -> None:
    engine.do(c.SubmitJob(new_id(), "p", "rest"), ACTOR)
    before = feed.head(engine.store)
    engine.do(c.SubmitJob(new_id(), "p", "rest"), ACTOR)
    with stopped(versioned_url, "SELECT sequence_commits()"):
        work(engine)
        work(engine)
    until(lambda: feed.head(engine.store) > before, "positions are assigned")
    assert len(feed.read(engine.store, before)) == 1 + 2 * 6
    assert verify(engine.store).differences == []
