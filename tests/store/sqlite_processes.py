"""Programs that tests run as processes of their own on one SQLite file: `python -m … NAME PATH …`.

Each prints a line when it has done something that the test waits for.
"""

import os
import resource
import signal
import sys
from pathlib import Path

from detent.engine import Engine
from detent.errors import DetentError, Unavailable
from detent.kernel.commands import Actor, SubmitJob
from detent.store.sqlite import SqliteStore
from detent.testing.conformance.work_actions import submit_job


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def open_only(path: str) -> None:
    """Open the store, which migrates it, as soon as the test says so."""
    say("ready")
    sys.stdin.readline()
    SqliteStore(path).close()
    say("opened")


def count_up(path: str, name: str, turns: str, processes: str) -> None:
    """Increment a number, one commit after the other, until every process has had its turns."""
    store = SqliteStore(path)
    say("ready")
    sys.stdin.readline()
    mine = 0
    counted: dict[str, int] = {}
    while len(counted) < int(processes) or min(counted.values()) < int(turns):
        with store.write() as tx:
            counted = dict(tx.rows("projects"))
            counted[name] = counted.get(name, 0) + 1
            tx.put_rows("projects", {name: counted[name]})
        mine += 1
    say(str(mine))


def stop_inside(path: str) -> None:
    """Have some jobs acknowledged, then stop in the middle of a transaction that has written."""
    store = SqliteStore(path)
    engine = Engine(store)
    for _ in range(5):
        say(submit_job(engine))
    with store.write() as tx:
        inside = Engine(_Inside(tx, store))  # type: ignore[arg-type]
        inside.do(SubmitJob("unacknowledged", "p", "dig"), Actor("person:ann"))
        say("inside")
        signal.pause()


class _Inside:
    """A store whose write transaction is one that has begun already."""

    parallel_writes = False

    def __init__(self, tx: object, store: SqliteStore) -> None:
        self.tx = tx
        self.notify = store.notify

    def write(self) -> "_Inside":
        return self

    def __enter__(self) -> object:
        return self.tx

    def __exit__(self, *_: object) -> None:
        """The transaction stays open."""


def fill_the_disk(path: str) -> None:
    """Write until files cannot grow any more; print the error, and the recovery afterwards."""
    store = SqliteStore(path)
    engine = Engine(store)
    submit_job(engine)
    size = Path(f"{path}-wal").stat().st_size
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50_000, most))
    acknowledged = 1
    try:
        while acknowledged < 10_000:
            submit_job(engine, payload="x" * 1_000)
            acknowledged += 1
    except Unavailable as error:
        say(error.message)
    try:
        submit_job(engine, payload="x" * 1_000)
    except DetentError as error:
        say(error.code)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    submit_job(engine)
    with store.read() as view:
        say(f"{acknowledged + 1} acknowledged, {view.head()} in the log")
    store.close()


def open_as_another_user(path: str) -> None:
    """Open a file as a user who may not write it: root, who may write all, becomes another."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        SqliteStore(path)
    except DetentError as error:
        say(f"{error.code}: {error.message} {error.hint}")


PROGRAMS = {
    each.__name__: each
    for each in (open_only, count_up, stop_inside, fill_the_disk, open_as_another_user)
}

if __name__ == "__main__":
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
