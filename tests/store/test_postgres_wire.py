"""One write transaction on the wire: cut or stopped at every message, also within one."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
import pytest

from detent.engine import Claimed, Engine
from detent.engine import engine as engine_module
from detent.errors import Unavailable
from detent.ids import new_id
from detent.integrity.hash_chain import next_chain_block
from detent.kernel import commands as c
from detent.store.postgres.address import read_address
from detent.store.postgres.connection import Query
from detent.store.postgres.silent_sessions import SilentSessions
from detent.testing.audit import audit
from detent.testing.conformance.work_actions import (
    claim_one,
    completion,
    job_of,
    outcome,
    submit_job,
    submit_task,
)
from tests.plugins.postgres import VERSIONS
from tests.sampling import sampled
from tests.store.postgres_scene import DEADLINE_S, beside, opened, store_of, until
from verification.postgres_proxy import READY, SYNC, Link, Message, Proxy, pass_on, proxy_to
from verification.postgres_server import HOST, Server

#: For how long a stopped process may hold locks in these tests.
HOLD_S = 0.3
#: The same where a transaction must not be ended because the machine is busy.
LONGER_S = 2.0
#: Within this the others go on. It has room for a busy machine, and none for the usual minute.
GOES_ON_S = 45.0


#: `./dev test` runs the long tests on the newest version only.
ON_EACH_VERSION = pytest.mark.parametrize(
    "versioned_server", sampled(sorted(VERSIONS, reverse=True), len(VERSIONS)), indirect=True
)


@pytest.fixture
def proxy(versioned_server: Server) -> Iterator[Proxy]:
    with proxy_to(HOST, versioned_server.port) as made:
        yield made


def through(proxy: Proxy, url: str) -> str:
    """Without prepared statements a transaction has the same messages each time."""
    return f"{proxy.url(url)}&notifier=no&prepare=no"


class At:
    """A gate that acts once, when it comes to the message with this number."""

    def __init__(self, number: int, act: Callable[[Link, Message], None]) -> None:
        self._number = number
        self._act = act
        self.count = 0
        #: The server's process of the link on which it acted.
        self.pid = 0
        self.fired = threading.Event()

    def __call__(self, link: Link, message: Message) -> None:
        self.count, number = self.count + 1, self.count
        if number == self._number:
            self.pid = link.pid
            self.fired.set()
            self._act(link, message)
        else:
            pass_on(link, message)


def work(engine: Engine) -> Claimed:
    """A claimed job of a task: its end locks the root, changes several tables, and appends."""
    submit_task(engine)
    return claim_one(engine, intents=["dig"])


def messages_of_a_report(proxy: Proxy, engine: Engine, direct: Engine) -> int:
    """How many messages the end of a run is."""
    held = work(direct)
    proxy.gate = counted = At(-1, pass_on)
    assert outcome(engine, completion(held)) == "completed"
    proxy.gate = pass_on
    return counted.count


@pytest.fixture(autouse=True)
def reads_limits_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that every write has the same messages."""
    monkeypatch.setattr(engine_module, "LIMITS_FRESH_S", 0.0)


# ---- cut ---------------------------------------------------------------------------------------


def cut_before(link: Link, _message: Message) -> None:
    link.cut()


def cut_within(link: Link, message: Message) -> None:
    link.forward(message.data[: len(message.data) // 2])
    link.cut()


def lose_the_answer(proxy: Proxy, link: Link, message: Message) -> None:
    """The server does what it was sent and answers; the answer does not arrive."""
    answered = threading.Event()
    link.swallows = True
    proxy.on_answer = lambda _link, kind: answered.set() if kind in (READY, "") else None
    link.forward(message.data)
    assert answered.wait(DEADLINE_S)
    proxy.on_answer = lambda _link, _kind: None
    link.cut()


def is_gone(connection: psycopg.Connection, pid: int) -> bool:
    assert pid
    query = "SELECT FROM pg_stat_activity WHERE pid = %s"
    return connection.execute(query, [pid]).fetchone() is None


@ON_EACH_VERSION
def test_a_write_that_is_cut_at_any_message_is_done_or_not_done(
    proxy: Proxy, versioned_url: str
) -> None:
    """What was acknowledged is there; what was not may be there, whole; nothing is half done."""
    outcomes: set[tuple[Any, str]] = set()
    with (
        opened(through(proxy, versioned_url)) as engine,
        opened(versioned_url) as direct,
        beside(versioned_url) as other,
    ):
        count = messages_of_a_report(proxy, engine, direct)
        assert count > 40
        cuts = [(number, act) for number in range(count) for act in (cut_before, cut_within)]
        lost = partial(lose_the_answer, proxy)
        for number, act in [*cuts, *((number, lost) for number in syncs(proxy, engine, direct))]:
            held = work(direct)
            proxy.gate = fault = At(number, act)
            answer = outcome(engine, completion(held))
            proxy.gate = pass_on
            until(partial(is_gone, other, fault.pid), "the server has noticed")
            state = job_of(direct.store, held.job.id).state
            outcomes.add((answer, state))
            if state == "running":
                assert outcome(direct, completion(held)) == "completed"
        audit(direct.store)
    assert ("completed", "running") not in outcomes
    assert outcomes == {
        ("completed", "completed"),
        ("unavailable", "running"),
        ("unavailable", "completed"),
    }


def syncs(proxy: Proxy, engine: Engine, direct: Engine) -> list[int]:
    """Which messages of a report end a round trip."""
    kinds: list[str] = []

    def note(link: Link, message: Message) -> None:
        kinds.append(message.kind)
        pass_on(link, message)

    held = work(direct)
    proxy.gate = note
    assert outcome(engine, completion(held)) == "completed"
    proxy.gate = pass_on
    return [number for number, kind in enumerate(kinds) if kind == SYNC]


# ---- stopped -----------------------------------------------------------------------------------


def stop_before(link: Link, _message: Message) -> None:
    link.closed.wait()


def stop_within(link: Link, message: Message) -> None:
    link.forward(message.data[: len(message.data) // 2])
    link.closed.wait()


def goes_on(engine: Engine, command: c.Command) -> Any:
    """The answer to a command, asked again while the store is unavailable."""
    answers: list[Any] = []

    def answered() -> bool:
        answers.append(outcome(engine, command))
        return bool(answers[-1] != "unavailable")

    until(answered, f"{command} is answered", GOES_ON_S)
    return answers[-1]


@contextmanager
def stopped_at(proxy: Proxy, engine: Engine, held: Claimed, fault: At) -> Iterator[None]:
    """A writer whose messages come no further than this one.

    On a busy machine the server may end its session before: then it begins again.
    """
    proxy.gate = fault
    deadline_s = time.monotonic() + DEADLINE_S
    while not fault.fired.is_set():
        assert time.monotonic() < deadline_s
        fault.count = 0
        writer = threading.Thread(target=outcome, args=(engine, completion(held)))
        writer.start()
        until(partial(has_come_to, fault, writer), "the writer is stopped")
    proxy.gate = pass_on
    try:
        yield
    finally:
        for link in proxy.links:
            link.cut()
        writer.join(DEADLINE_S)
        assert not writer.is_alive()


def has_come_to(fault: At, writer: threading.Thread) -> bool:
    return fault.fired.is_set() or not writer.is_alive()


@ON_EACH_VERSION
@pytest.mark.parametrize("act", sampled([stop_before, stop_within], 2))
def test_a_write_that_is_stopped_at_any_message_holds_up_others_only_briefly(
    proxy: Proxy, versioned_url: str, act: Callable[[Link, Message], None]
) -> None:
    """Neither who writes elsewhere nor who writes to the same rows waits longer than the bound."""
    short = f"max_hold_s={HOLD_S}"
    with (
        opened(through(proxy, versioned_url)) as counted,
        opened(f"{through(proxy, versioned_url)}&{short}") as engine,
        opened(f"{versioned_url}?notifier=no&{short}") as other,
        opened(versioned_url) as calm,
    ):
        for number in range(messages_of_a_report(proxy, counted, calm)):
            held = work(calm)
            with stopped_at(proxy, engine, held, At(number, act)):
                goes_on(other, c.SubmitJob(new_id(), "p", "dug"))
                goes_on(other, c.CancelJob(held.job.id))
        audit(calm.store)


# ---- who is not ended --------------------------------------------------------------------------


def test_a_long_transaction_that_goes_on_is_not_ended(versioned_url: str) -> None:
    """It takes longer than the limit, and this process never pauses that long."""
    hold_s = 2 * LONGER_S
    with opened(f"{versioned_url}?max_hold_s={hold_s}") as engine:
        begun_s = time.monotonic()
        with engine.store.write() as tx:
            while time.monotonic() < begun_s + 1.25 * hold_s:
                tx.put_rows("projects", {"p": time.monotonic()})
                time.sleep(0.02)
        with engine.store.read() as view:
            assert view.rows("projects")["p"] > begun_s + hold_s


def test_a_statement_that_clears_or_trims_may_take_its_time(versioned_url: str) -> None:
    slow = Query(b"SELECT pg_sleep(%f)" % (1.5 * LONGER_S))
    with opened(f"{versioned_url}?max_hold_s={LONGER_S}") as engine:
        transaction = store_of(engine)._begin_writing()
        transaction.run()
        assert len(transaction.run_long([slow])) == 1
        transaction.commit([])
        transaction.end()


def test_the_time_of_a_transaction_is_limited_by_the_server(postgres_url: str) -> None:
    slow = Query(b"SELECT pg_sleep(%f)" % (20 * LONGER_S))
    with opened(f"{postgres_url}?max_hold_s={LONGER_S}") as engine:
        transaction = store_of(engine)._begin_writing()
        transaction.run()
        with pytest.raises(Unavailable, match="max_hold_s"):
            transaction.run([slow])
        transaction.end()


def test_sessions_that_copy_or_have_nothing_to_do_are_not_ended(
    versioned_server: Server, versioned_url: str
) -> None:
    with beside(versioned_url) as copies, beside(versioned_url) as idle:
        copies.execute("CREATE TABLE numbers (number integer)")
        idle.execute("BEGIN")
        with copies.cursor().copy("COPY numbers FROM STDIN") as copy:
            copy.write_row([1])
            address = read_address(f"{versioned_url}?max_hold_s=0.1")
            until(lambda: silent_for(idle, copies.info.backend_pid, 0.1), "it has been silent")
            SilentSessions(address).end()
            copy.write_row([2])
        assert copies.execute("SELECT count(*) FROM numbers").fetchone() == (2,)
        assert idle.execute("SELECT 1").fetchone() == (1,)


def silent_for(connection: psycopg.Connection, pid: int, seconds: float) -> bool:
    query = """
        SELECT wait_event = 'ClientRead'
            AND query_start < clock_timestamp() - %s * interval '1 second'
        FROM pg_stat_activity WHERE pid = %s
    """
    return connection.execute(query, [seconds, pid]).fetchone() == (True,)


def test_extending_the_hash_chain_blocks_no_writer(versioned_url: str) -> None:
    with opened(versioned_url) as engine, opened(versioned_url) as other:
        submit_job(engine)
        with engine.store.read() as view:
            block = next_chain_block(view)
        assert block is not None
        with engine.store.write() as tx:
            tx.put_chain_block(block)
            assert submit_job(other)
