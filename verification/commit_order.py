"""Writers on PostgreSQL whose commits overlap: every reader sees each event exactly once, in order.

Eight processes append to shared streams, and submit, claim and complete sets of jobs. They wait at
random between the allocation of a commit id and the commit, and roll back. Processes are killed and
stopped, and connections are ended, those of readers too. Readers follow the log meanwhile, and a
process that only assigns positions is killed and stopped like the others.

`python -m verification.commit_order URL COMMITS` runs it on an empty database. The processes that
it starts have two more arguments: the number of a writer or `sequencer`, and a seed.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import psycopg

from detent import feed
from detent.engine import CommandRequest, Engine
from detent.engine.claims import ClaimRequest
from detent.errors import DetentError
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Job
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import Query
from detent.store.postgres.new_commits import NewCommits
from detent.store.types import Changes, LoggedEvent, NewEvent, NewJob

WRITERS = 8
READERS = 3
STREAMS = 100
#: The longest time that a stopped process holds its rows.
HOLD_S = 1.0
#: Within this another writer commits, although one process is stopped.
GOES_ON_S = 60.0
#: One in 12 transactions is rolled back; one in 5 waits before it commits.
ROLLED_BACK, SLOW = 12, 5
#: The longest pauses: of a reader between two batches, of the sequencer, of the check of progress.
READER_S, SEQUENCER_S, CHECK_S = 0.2, 0.01, 0.03
#: One in 25 actions of a writer is about a set of jobs.
SET, SET_SIZE = 25, 6
#: About this many processes or connections are disturbed in a long run.
DISTURBANCES = 1_000
ACTOR = c.Actor("person:ann")


class RolledBack(Exception):
    """Raised in a transaction after its rows were sent."""


@dataclass(slots=True)
class Outcome:
    """What was written and read, and what was wrong."""

    commits: int = 0
    events: int = 0
    kills: int = 0
    stops: int = 0
    cuts: int = 0
    gaps: int = 0
    problems: list[str] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{self.commits:,} commits with {self.events:,} events, {self.gaps:,} ids rolled back, "
            f"{self.kills} kills, {self.stops} stops, {self.cuts} connections ended"
        )


# ---- the processes ---------------------------------------------------------------------------


def stream_names() -> list[str]:
    return [f"stream-{number:03}" for number in range(STREAMS)]


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


def write(url: str, number: int, seed: int) -> None:
    """Append to random streams until the process is killed."""
    store, chance = _opened(f"{url}?max_hold_s={HOLD_S}"), random.Random(seed)
    engine = Engine(store)
    _delay_commits(chance)
    while True:
        try:
            if chance.randrange(SET) == 0:
                _do_jobs(engine, str(number))
            else:
                _append(store, chance, number)
        except RolledBack:
            pass
        except DetentError:
            time.sleep(0.01)


def _opened(url: str) -> PostgresStore:
    """The connection with which it opens may be ended too."""
    while True:
        with suppress(DetentError, psycopg.Error):
            return PostgresStore(url)
        time.sleep(0.01)


def _do_jobs(engine: Engine, worker: str) -> None:
    """Submit equal jobs together, then claim and complete what is in the queue."""
    jobs = [c.SubmitJob(new_id(), "p", "set", payload={"n": n}) for n in range(SET_SIZE)]
    engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in jobs])
    claimed = engine.claim(ClaimRequest(worker, new_id(), SET_SIZE, ["set"]))
    ends = [c.CompleteRun(each.grant, each.job.run_id or "") for each in claimed]
    engine.execute([CommandRequest(each, ACTOR) for each in ends])


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


def assign(url: str, seed: int) -> None:
    """Assign positions until the process is killed."""
    store, chance = _opened(url), random.Random(seed)
    while True:
        with suppress(DetentError):
            store.sequence()
        time.sleep(chance.uniform(0, SEQUENCER_S))


# ---- the readers -----------------------------------------------------------------------------


class SeenLog:
    """What a reader has seen: positions without a gap, each stream in order, each event once."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.position = 0
        #: Of all streams and versions in the order in which they were seen.
        self.checksum = 0
        self.problem = ""
        self._versions: dict[str, int] = {}

    def add(self, events: Sequence[LoggedEvent]) -> None:
        for event in events:
            self.position += 1
            version = self._versions.get(event.stream, 0) + 1
            self._versions[event.stream] = version
            found, wanted = (event.position, event.version), (self.position, version)
            if found != wanted and not self.problem:
                self.problem = (
                    f"{self.name}: {event.stream} has (position, version) {found}, "
                    f"expected {wanted}"
                )
        text = "".join(f"{event.stream} {event.version}," for event in events)
        self.checksum = zlib.crc32(text.encode(), self.checksum)


class Reader(threading.Thread):
    """Follows the log from its beginning; its connection may be ended."""

    def __init__(self, url: str, name: str, pause_s: float = 0.0) -> None:
        super().__init__(daemon=True)
        self.seen = SeenLog(name)
        self._pause_s = pause_s
        self.ended = threading.Event()
        self._url = url

    def run(self) -> None:
        store = _opened(self._url)
        tail = feed.Tail(store, self.seen.add, 0)
        while not self._read(tail):
            with suppress(DetentError):
                store.wait(tail.cursor, 0.05)
            self.ended.wait(self._pause_s)
        store.close()

    def _read(self, tail: feed.Tail) -> bool:
        """Read everything that is there; whether it was the last time."""
        last_time = self.ended.is_set()
        with suppress(DetentError):
            while tail.step():
                pass
            return last_time
        return False


# ---- the run ---------------------------------------------------------------------------------


def run(
    url: str, commits: int, seed: int = 1, say: Callable[[str], None] = lambda _: None
) -> Outcome:
    """Write at least `commits` commits to an empty database; kill and stop processes meanwhile."""
    outcome = Outcome()
    store = PostgresStore(url)
    create_streams(store)
    readers = [
        Reader(url, f"reader {number}", number * READER_S / READERS) for number in range(READERS)
    ]
    for reader in readers:
        reader.start()
    with psycopg.connect(url, autocommit=True) as beside, _processes(url, seed) as processes:
        disturbance = Disturbance(url, seed, processes, beside, outcome)
        while disturbance.commits < commits and not outcome.problems:
            disturbance.next(max(60, commits // DISTURBANCES))
            if outcome.stops % 100 == 0:
                say(f"{disturbance.commits:,} of {commits:,} commits")
    for reader in readers:
        reader.ended.set()
    for reader in readers:
        reader.join()
    late = Reader(url, "a reader that began at the end")
    late.ended.set()
    late.run()
    with psycopg.connect(url, autocommit=True) as beside:
        _check(beside, late.seen, [reader.seen for reader in readers], outcome)
    store.close()
    return outcome


@contextmanager
def _processes(url: str, seed: int) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    roles = [*(str(number) for number in range(WRITERS)), "sequencer"]
    processes = {role: _start(url, role, seed + place) for place, role in enumerate(roles)}
    try:
        yield processes
    finally:
        for process in processes.values():
            _end(process)


def _start(url: str, role: str, seed: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "verification.commit_order", url, "0", role, str(seed)]
    return subprocess.Popen(command, stdin=subprocess.PIPE)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


class Disturbance:
    """Kills and stops processes and ends connections, each after some more commits."""

    def __init__(
        self,
        url: str,
        seed: int,
        processes: dict[str, subprocess.Popen[bytes]],
        beside: psycopg.Connection,
        outcome: Outcome,
    ) -> None:
        self._url, self._chance = url, random.Random(seed)
        self._processes, self._beside, self._outcome = processes, beside, outcome
        self.commits = self._last_id = 0

    def next(self, every: int) -> None:
        """Wait for at most twice `every` commits, then disturb one process or connection."""
        self._wait_for(self._chance.randint(1, 2 * every), "")
        role = self._chance.choice([*self._processes, "sequencer"])
        action = self._chance.choices((self._kill, self._cut, self._stop), (4, 1, 5))[0]
        action(role)

    def _kill(self, role: str) -> None:
        _end(self._processes[role])
        self._processes[role] = _start(self._url, role, self._chance.getrandbits(32))
        self._outcome.kills += 1

    def _cut(self, _role: str) -> None:
        """End a connection of any process, whatever it is doing."""
        query = """
            SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid() ORDER BY pid
        """
        if pids := [pid for (pid,) in self._beside.execute(query)]:
            self._beside.execute("SELECT pg_terminate_backend(%s)", [self._chance.choice(pids)])
            self._outcome.cuts += 1

    def _stop(self, role: str) -> None:
        """Stop a process until others have committed."""
        process = self._processes[role]
        process.send_signal(signal.SIGSTOP)
        try:
            self._wait_for(WRITERS, f" while {role} is stopped")
            self._outcome.stops += 1
        finally:
            process.send_signal(signal.SIGCONT)

    def _wait_for(self, more: int, when: str) -> None:
        wanted, deadline = self.commits + more, time.monotonic() + GOES_ON_S
        while self._count() < wanted:
            if time.monotonic() > deadline:
                self._outcome.problems.append(f"no writer commits{when}")
                return
            time.sleep(CHECK_S)

    def _count(self) -> int:
        """Commits so far, without those that became visible late."""
        query = "SELECT count(*), max(id) FROM commits WHERE id > %s"
        count, last = self._beside.execute(query, [self._last_id]).fetchone() or (0, None)
        self.commits, self._last_id = self.commits + count, last or self._last_id
        return self.commits


def _check(
    beside: psycopg.Connection, late: SeenLog, readers: Sequence[SeenLog], outcome: Outcome
) -> None:
    query = """
        SELECT count(*), coalesce(sum(events), 0),
            (SELECT last_value / 1024 FROM commit_ids) - count(DISTINCT id / 1024)
        FROM commits
    """
    outcome.commits, written, outcome.gaps = beside.execute(query).fetchone() or (0, 0, 0)
    outcome.events = late.position
    if written != late.position:
        outcome.problems.append(f"the log has {late.position} of {written} events")
    outcome.problems += [each.problem for each in (late, *readers) if each.problem]
    for each in readers:
        if (each.position, each.checksum) != (late.position, late.checksum):
            outcome.problems.append(
                f"{each.name} has seen {each.position} of {late.position} events, or other ones"
            )


def _end_with_the_parent() -> None:
    """The other end of the input is closed when the process that started this one has ended."""
    sys.stdin.buffer.read()
    os._exit(0)


def main() -> None:
    url, commits, *role = sys.argv[1:]
    if role:
        threading.Thread(target=_end_with_the_parent, daemon=True).start()
    if role and role[0] == "sequencer":
        assign(url, int(role[1]))
    elif role:
        write(url, int(role[0]), int(role[1]))
    else:
        outcome = run(url, int(commits), say=print)
        print(outcome.line())
        sys.exit("\n".join(outcome.problems) or 0)


if __name__ == "__main__":
    main()
