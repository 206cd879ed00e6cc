"""The SQLite store under several processes, kills, full disks and clocks that go back."""

import fcntl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from detent.engine import Engine
from detent.errors import Broken, Refused, Unavailable
from detent.kernel.events import JobParked, Record
from detent.store.sqlite import SqliteStore, connection, file_watch, notifier
from detent.store.sqlite.connection import BECOME_NEXT, NO_LONGER_NEXT, Turn, WriteLock
from detent.store.types import Changes, NewEvent
from detent.testing.audit import audit
from detent.testing.clock import START, VirtualClock
from detent.testing.conformance.work_actions import claim, complete, submit_job
from tests.store import sqlite_processes

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "detent.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(path)
    yield opened
    opened.close()


@contextmanager
def process(program: Callable[..., None], *arguments: Any) -> Iterator[subprocess.Popen[str]]:
    run = subprocess.Popen(
        [sys.executable, "-m", sqlite_processes.__name__, program.__name__, *map(str, arguments)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with run:
        try:
            yield run
        finally:
            run.kill()


def line(run: subprocess.Popen[str]) -> str:
    assert run.stdout is not None
    return run.stdout.readline().strip()


def start(run: subprocess.Popen[str]) -> None:
    assert run.stdin is not None
    run.stdin.write("go\n")
    run.stdin.flush()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# ---- several processes -----------------------------------------------------------------------


def test_processes_that_write_concurrently_lose_nothing_and_do_not_starve(path: Path) -> None:
    SqliteStore(path).close()
    with ExitStack() as stack:
        programs = [process(sqlite_processes.count_up, path, name, 200, 3) for name in "abc"]
        runs = [stack.enter_context(program) for program in programs]
        assert [line(run) for run in runs] == ["ready"] * 3
        for run in runs:
            start(run)
        turns = {name: int(line(run)) for name, run in zip("abc", runs, strict=True)}
    store = SqliteStore(path)
    with store.read() as view:
        assert view.rows("projects") == turns
    store.close()


def test_a_process_killed_inside_a_transaction_leaves_what_was_acknowledged(path: Path) -> None:
    store = SqliteStore(path)
    with process(sqlite_processes.stop_inside, path) as run:
        acknowledged = [line(run) for _ in range(5)]
        assert line(run) == "inside"
        later: list[str] = []
        writer = threading.Thread(target=lambda: later.append(submit_job(Engine(store))))
        writer.start()
        with store.read() as view:  # a reader is not blocked
            assert view.head() == 5
        assert not later
        run.kill()
        writer.join(DEADLINE_S)
    with store.read() as view:
        found = [job.id for job, _ in view.jobs([*acknowledged, *later, "unacknowledged"])]
        assert found == [*acknowledged, *later]
        assert len(later) == 1
    audit(store)
    store.close()


def test_a_forked_copy_is_refused(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(Broken, match="forked"), store.write():
        pass
    with pytest.raises(Broken, match="forked"), store.read():
        pass


# ---- threads ---------------------------------------------------------------------------------


def test_threads_get_their_turn_in_the_order_in_which_they_asked() -> None:
    turn = Turn()
    order: list[int] = []

    def take(number: int) -> None:
        with turn:
            order.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(5)]
    with turn:
        for count, thread in enumerate(threads, start=1):
            thread.start()
            wait_for(lambda count=count: len(turn._waiting) == count)  # type: ignore[misc]
    for thread in threads:
        thread.join(DEADLINE_S)
    assert order == [0, 1, 2, 3, 4]


def test_a_writer_that_waits_is_before_one_that_writes_again(tmp_path: Path) -> None:
    """Locks of files are independent of threads: these two behave as two processes."""
    path = tmp_path / "detent.db.lock"
    again, waiting = WriteLock(path), WriteLock(path)
    order: list[str] = []

    def write() -> None:
        with waiting:
            order.append("waiting")

    thread = threading.Thread(target=write)
    with again, path.open("r+b") as other:
        thread.start()
        wait_for(lambda: _another_is_next(other.fileno()))
    with again:
        order.append("again")
    thread.join(DEADLINE_S)
    assert order == ["waiting", "again"]


@pytest.mark.parametrize("name", ["fcntl", "flock"])
def test_a_signal_while_the_lock_is_taken_leaves_it_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The handler of the signal raises when the system call has returned."""
    path = tmp_path / "detent.db.lock"
    interrupted, other = WriteLock(path), WriteLock(path)
    lock = getattr(fcntl, name)

    def lock_and_raise(*given: Any) -> None:
        monkeypatch.undo()
        lock(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(fcntl, name, lock_and_raise)
    with pytest.raises(KeyboardInterrupt), interrupted:
        pass
    done = threading.Event()

    def write() -> None:
        with other:
            done.set()

    threading.Thread(target=write, daemon=True).start()
    assert done.wait(DEADLINE_S)


def _another_is_next(file: int) -> bool:
    """Whether another open file has the place of the next writer; this one leaves it again."""
    try:
        fcntl.fcntl(file, fcntl.F_OFD_SETLK, BECOME_NEXT)
    except BlockingIOError:
        return True
    fcntl.fcntl(file, fcntl.F_OFD_SETLK, NO_LONGER_NEXT)
    return False


def test_writing_from_several_threads_concurrently(store: SqliteStore) -> None:
    engines = [Engine(store) for _ in range(4)]

    def work(engine: Engine) -> None:
        for _ in range(10):
            submit_job(engine)

    threads = [threading.Thread(target=work, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    with store.read() as view:
        assert view.head() == 40
    audit(store)


def test_a_read_stays_as_it_was_and_may_stand_inside_another(store: SqliteStore) -> None:
    engine = Engine(store)
    submit_job(engine)
    with store.read() as before:
        assert before.head() == 1
        submit_job(engine)
        with store.read() as after:
            assert (before.head(), after.head()) == (1, 2)


# ---- faults ----------------------------------------------------------------------------------


def test_a_full_disk_is_reported_and_writing_continues_after_it(path: Path) -> None:
    with process(sqlite_processes.fill_the_disk, path) as run:
        assert "Check the disk" in line(run)
        assert line(run) == "unavailable"
        acknowledged, logged = line(run).split(", ")
        assert acknowledged.split()[0] == logged.split()[0]
    store = SqliteStore(path)
    audit(store)
    store.close()


def test_a_database_that_may_not_grow_is_reported_and_writing_continues_after_it(
    store: SqliteStore,
) -> None:
    engine = Engine(store)
    submit_job(engine)
    assert store._writer is not None
    store._writer.all("PRAGMA max_page_count = 1")
    with pytest.raises(Unavailable, match=r"the disk is full\. Nothing was written"):
        submit_job(engine, payload="x" * 1_000_000)
    submit_job(engine, payload="x" * 1_000_000)  # on a new connection
    with store.read() as view:
        assert view.head() == 2
    audit(store)


def test_another_program_that_holds_the_lock_is_reported(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_MS", 10)
    store = SqliteStore(path)
    shell = apsw.Connection(str(path))
    shell.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="another program holds"):
        submit_job(Engine(store))
    shell.execute("ROLLBACK")
    submit_job(Engine(store))
    store.close()


def test_a_failed_save_is_not_committed_even_if_the_failure_is_ignored(store: SqliteStore) -> None:
    submit_job(Engine(store), job_id="first")
    with store.read() as view:
        [(job, version)] = view.jobs(["first"])
    again = NewEvent(
        job.id, version, "p", Record(job.id, None, JobParked("x"), job.created_at, "a")
    )
    moved = Changes([again], {job.id: version}, jobs=[job._replace(worker="w")], unqueued=[job.id])

    def ignore() -> None:
        with store.write() as tx, suppress(Refused):
            tx.save(moved)

    with pytest.raises(Refused, match="after it was loaded"):
        ignore()
    with store.read() as view:
        assert (view.head(), list(view.jobs(["first"]))) == (1, [(job, version)])
    audit(store)


# ---- the clock and the notifier --------------------------------------------------------------


def test_time_never_goes_back(path: Path) -> None:
    clock, other_clock = VirtualClock(), VirtualClock(START - 1_000_000)
    store, other = SqliteStore(path, clock), SqliteStore(path, other_clock)
    submit_job(Engine(store))
    clock.set(START - 5_000_000)
    for each in (store, other):
        with each.write() as tx:
            assert tx.now() == START
        with each.read() as view:
            assert view.now() == START
    clock.set(START + 1)
    with store.read() as view:
        assert view.now() == START + 1
    store.close()
    other.close()


@pytest.mark.parametrize("watched", [True, False], ids=["watched", "polled"])
def test_a_commit_of_another_process_wakes_waiting_threads(
    path: Path, store: SqliteStore, monkeypatch: pytest.MonkeyPatch, watched: bool
) -> None:
    if watched:  # a poll without a report of the watch would come too late
        for pause in ("POLL_EVERY_S", "POLL_WATCHED_S", "SOON_S"):
            monkeypatch.setattr(notifier, pause, DEADLINE_S)
    else:
        monkeypatch.setattr(file_watch, "watch", lambda _: None)
    other = SqliteStore(path)
    woken: list[bool] = []
    waiters = [
        threading.Thread(target=lambda: woken.append(store.wait(0, DEADLINE_S))) for _ in range(3)
    ]
    for waiter in waiters:
        waiter.start()
    with other.write() as tx:
        tx.put_rows("projects", {"colour": "red"})  # a commit, but the log has not grown
    assert not store.wait(0, 0.01)
    submit_job(Engine(other))
    for waiter in waiters:
        waiter.join(DEADLINE_S)
    assert woken == [True] * 3
    other.close()


def test_a_notification_may_come_before_the_first_wait(path: Path) -> None:
    wakeups = notifier.Wakeups(path)
    wakeups.wake()
    wakeups.wait(DEADLINE_S)  # begins to watch the file
    assert wakeups._poll.poll(0)
    wakeups.wait(DEADLINE_S)
    assert wakeups._poll.poll(0) == []
    wakeups.close()


def test_closing_the_store_wakes_waiting_threads(path: Path) -> None:
    store = SqliteStore(path)
    woken: list[bool] = []
    waiter = threading.Thread(target=lambda: woken.append(store.wait(0, DEADLINE_S)))
    waiter.start()
    wait_for(lambda: store._notifier._polling)
    store.close()
    waiter.join(DEADLINE_S)
    assert woken == [False]


def test_a_file_that_cannot_be_watched_is_polled(tmp_path: Path) -> None:
    assert file_watch.watch(tmp_path / "missing") is None


# ---- size ------------------------------------------------------------------------------------


def test_finished_work_leaves_the_queue(store: SqliteStore) -> None:
    engine = Engine(store)
    for _ in range(10):
        submit_job(engine)
    for claimed in claim(engine, 10):
        complete(engine, claimed)
    with store.read() as view:
        for table in ("queue", "active_jobs", "leases"):
            assert view.raw(f"SELECT count(*) FROM {table}") == [(0,)]
        assert view.raw("SELECT count(*) FROM ended_jobs") == [(10,)]
