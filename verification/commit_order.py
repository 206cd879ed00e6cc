"""Writers on PostgreSQL whose commits overlap: every reader sees each event exactly once, in order.

Eight processes append to shared streams. They wait at random between the allocation of a commit id
and the commit, roll back, are killed and are stopped. Readers follow the log meanwhile, and a
process that only assigns positions is killed and stopped too.

`python -m verification.commit_order URL COMMITS` runs it. The processes that it starts have a third
argument: the number of a writer, or `sequencer`.
"""

import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from detent import feed
from detent.errors import DetentError
from detent.kernel import events as e
from detent.kernel.entities import Job
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import Query
from detent.store.postgres.new_commits import NewCommits
from detent.store.types import Changes, LoggedEvent, NewEvent, NewJob

WRITERS = 8
READERS = 3
STREAMS = 40
#: The longest time that a stopped process holds its rows.
HOLD_S = 1.0
#: Within this another writer commits, although one process is stopped.
GOES_ON_S = 30.0
#: One in 12 transactions is rolled back; one in 3 waits before it commits.
ROLLED_BACK, SLOW = 12, 3


class RolledBack(Exception):
    """Raised in a transaction after its rows were sent."""


@dataclass(slots=True)
class Outcome:
    """What was written and read, and what was wrong."""

    commits: int = 0
    events: int = 0
    kills: int = 0
    stops: int = 0
    gaps: int = 0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{self.commits:,} commits with {self.events:,} events, {self.gaps:,} ids rolled back, "
            f"{self.kills} kills, {self.stops} stops"
        )


# ---- the processes ---------------------------------------------------------------------------


def stream_names() -> list[str]:
    return [f"stream-{number:02}" for number in range(STREAMS)]


def create_streams(store: PostgresStore) -> None:
    """One job for each stream, with its first event."""
    with store.write() as tx:
        now = tx.now()
        jobs = [Job(name, "p", "waiting", now, "x", "P2", 0, name) for name in stream_names()]
        entries = [NewEvent(job.id, 1, "p", _record(job.id, 1, now)) for job in jobs]
        rows = [NewJob(job, None) for job in jobs]
        tx.save(Changes(entries, dict.fromkeys(stream_names(), 1), new_jobs=rows))


def _record(stream: str, number: int, at: int) -> e.Record:
    return e.Record(stream, None, e.RunProgressed(note=f"{stream} {number}"), at, "writer")


def write(url: str, number: int) -> None:
    """Append to random streams until the process is killed."""
    store, chance = PostgresStore(f"{url}?max_hold_s={HOLD_S}"), random.Random()
    _delay_commits(chance)
    while True:
        try:
            _append(store, chance, number)
        except RolledBack:
            pass
        except DetentError:
            time.sleep(0.01)


def _append(store: PostgresStore, chance: random.Random, number: int) -> None:
    """One to three streams; one in ten transactions has two saves, with more locks between."""
    with store.write() as tx:
        for _ in range(1 + (chance.random() < 0.1)):
            names = sorted(chance.sample(stream_names(), chance.randint(1, 3)))
            tx.lock([], names)
            jobs = list(tx.jobs(names))
            entries: list[NewEvent] = []
            versions: dict[str, int] = {}
            for job, version in jobs:
                added = chance.randint(1, 3)
                versions[job.id] = version + added
                entries += [
                    NewEvent(job.id, each, "p", _record(job.id, each, tx.now()))
                    for each in range(version + 1, version + added + 1)
                ]
            tx.save(Changes(entries, versions, jobs=[job for job, _ in jobs]))
            if chance.random() < 0.2:
                tx.version_of(names[0])  # the rows are sent now
        if chance.randrange(ROLLED_BACK) == 0:
            tx.version_of(names[0])
            raise RolledBack(number)


def _delay_commits(chance: random.Random) -> None:
    """The server waits at random after it has allocated a commit id."""
    statements = NewCommits.statements

    def delayed(self: NewCommits, rows: Iterator[Query]) -> Iterator[Query]:
        for place, query in enumerate(statements(self, rows)):
            yield query
            if place == 0 and chance.randrange(SLOW) == 0:
                yield Query(b"SELECT pg_sleep(%f)" % chance.uniform(0, 0.02))

    NewCommits.statements = delayed  # type: ignore[method-assign]


def assign(url: str) -> None:
    """Assign positions until the process is killed."""
    store = PostgresStore(url)
    while True:
        with suppress(DetentError):
            store.sequence()
        time.sleep(random.uniform(0, 0.004))


# ---- the run ---------------------------------------------------------------------------------


class Reader(threading.Thread):
    """Follows the log from its beginning."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[int, str, int]] = []
        self.ended = threading.Event()
        self._store = PostgresStore(url)

    def run(self) -> None:
        tail = feed.Tail(self._store, self._add, 0)
        last_time = False
        while tail.step() or not last_time:
            last_time = self.ended.is_set()
            self._store.wait(tail.cursor, 0.05)
        self._store.close()

    def _add(self, events: object) -> None:
        self.seen += [_place(each) for each in events]  # type: ignore[attr-defined]


def _place(event: LoggedEvent) -> tuple[int, str, int]:
    return event.position, event.stream, event.version


def run(url: str, commits: int, seed: int = 1) -> Outcome:
    """Write at least `commits` commits to an empty database; kill and stop processes meanwhile."""
    outcome, chance = Outcome(), random.Random(seed)
    store = PostgresStore(url)
    create_streams(store)
    readers = [Reader(url) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    with psycopg.connect(url, autocommit=True) as beside, _processes(url) as processes:
        while _count(beside) < commits and not outcome.problems:
            _disturb(url, processes, chance, beside, outcome)
    for reader in readers:
        reader.ended.set()
    for reader in readers:
        reader.join()
    with psycopg.connect(url, autocommit=True) as beside:
        _check(store, beside, readers, outcome)
    store.close()
    return outcome


@contextmanager
def _processes(url: str) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    roles = [*(str(number) for number in range(WRITERS)), "sequencer"]
    processes = {role: _start(url, role) for role in roles}
    try:
        yield processes
    finally:
        for process in processes.values():
            process.kill()
        for process in processes.values():
            process.wait()


def _start(url: str, role: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "verification.commit_order", url, "0", role])


def _count(beside: psycopg.Connection) -> int:
    (count,) = beside.execute("SELECT count(*) FROM commits").fetchone() or (0,)
    return int(count)


def _disturb(
    url: str,
    processes: dict[str, subprocess.Popen[bytes]],
    chance: random.Random,
    beside: psycopg.Connection,
    outcome: Outcome,
) -> None:
    """Kill a process, or stop it until others have committed."""
    time.sleep(chance.uniform(0.05, 0.4))
    role = chance.choice([*processes, "sequencer"])
    process = processes[role]
    if chance.random() < 0.4:
        process.kill()
        process.wait()
        processes[role] = _start(url, role)
        outcome.kills += 1
        return
    process.send_signal(signal.SIGSTOP)
    try:
        before, deadline = _count(beside), time.monotonic() + GOES_ON_S
        while _count(beside) < before + WRITERS:
            if time.monotonic() > deadline:
                outcome.problems.append(f"no writer commits while {role} is stopped")
                break
            time.sleep(0.01)
        outcome.stops += 1
    finally:
        process.send_signal(signal.SIGCONT)


def _check(
    store: PostgresStore, beside: psycopg.Connection, readers: list[Reader], outcome: Outcome
) -> None:
    log = [_place(each) for each in feed.read(store, 0, 1 << 40)]
    outcome.events, outcome.commits = len(log), _count(beside)
    query = """
        SELECT (last_value / 1024) - (SELECT count(DISTINCT id / 1024) FROM commits) FROM commit_ids
    """
    (outcome.gaps,) = beside.execute(query).fetchone() or (0,)
    (written,) = beside.execute("SELECT sum(events) FROM commits").fetchone() or (0,)
    if written != len(log):
        outcome.problems.append(f"the log has {len(log)} of {written} events")
    if [position for position, _, _ in log] != list(range(1, len(log) + 1)):
        outcome.problems.append("positions have gaps or are not in order")
    for number, reader in enumerate(readers):
        if reader.seen != log:
            outcome.problems.append(_difference(number, reader, log))
    versions: Counter[str] = Counter()
    for position, stream, version in log:
        versions[stream] += 1
        if version != versions[stream]:
            found = f"{stream} has version {version} at position {position}"
            outcome.problems.append(f"{found}, expected {versions[stream]}")
            break


def _difference(number: int, reader: Reader, log: list[tuple[int, str, int]]) -> str:
    for seen, logged in zip(reader.seen, log, strict=False):
        if seen != logged:
            return f"reader {number} has seen {seen} where the log has {logged}"
    return f"reader {number} has seen {len(reader.seen)} of {len(log)} events"


def main() -> None:
    url, commits, *role = sys.argv[1:]
    if role == ["sequencer"]:
        assign(url)
    elif role:
        write(url, int(role[0]))
    else:
        outcome = run(url, int(commits))
        print(outcome.line())
        sys.exit("\n".join(outcome.problems) or 0)


if __name__ == "__main__":
    main()
