"""The work of hot operations as a database grows: what PostgreSQL and SQLite read for each.

A database gets one task or job of each kind through the engine, and a given number of copies of
their rows and commits. Then the engine submits, claims, renews and completes jobs, and reads the
log. On PostgreSQL the server logs the plan of every statement (`auto_explain`) with the blocks that
it has read; on SQLite the instructions of its machine are counted. Nothing is measured in time.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import psycopg

from detent import feed
from detent.engine import Claimed, CommandRequest, Engine, Idempotency, due_timers
from detent.engine.claims import ClaimRequest
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.port import Store
from detent.store.postgres import PostgresStore
from detent.store.sqlite import SqliteStore
from verification.postgres_server import Server

ACTOR = c.Actor("person:ann")
#: The number of jobs of one operation.
BATCH = 8
#: The rounds of work while an old snapshot is open.
ROUNDS = 60
#: Settings of the server: it logs the plan of every statement.
SETTINGS = {
    "shared_preload_libraries": "auto_explain",
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_buffers": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_format": "json",
    "autovacuum": "off",
}
#: The columns that differ in the copies of a row: a letter before the number, or the number added.
COPIES: Mapping[str, Mapping[str, str]] = {
    "active_tasks": {"id": "c", "root_id": "c", "created_at": "", "state_at": ""},
    "ended_tasks": {"id": "d", "root_id": "d", "created_at": "", "state_at": ""},
    "active_jobs": {"id": "q", "root_id": "q", "rank": "", "created_at": "", "state_at": ""},
    "ended_jobs": {"id": "e", "root_id": "e", "created_at": "", "state_at": ""},
    "idempotency_keys": {"key": "k"},
    "deadlines": {"job_id": "q"},
    "waits": {"job_id": "q"},
}
#: Which row is copied, where the table has several.
SAMPLES = {"active_jobs": "state = 'queued'", "active_tasks": "state = 'pending'"}
PLAN = re.compile(r"plan:\n(\t?\{.*?\n\t?\})\n(?!\t)", re.DOTALL)
#: The tables with many rows: a plan must not read one as a whole.
LARGE = {*COPIES, "commits", "commit_positions", "stream_commits"}


# ---- the operations --------------------------------------------------------------------------


@dataclass(slots=True)
class Workload:
    """The work of one process; the operations follow each other."""

    engine: Engine
    held: list[Claimed] = field(default_factory=list)

    def submit_jobs(self) -> None:
        commands = [c.SubmitJob(new_id(), "p", "dig", payload={"n": n}) for n in range(BATCH)]
        self.engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in commands])

    def submit_tasks(self) -> None:
        commands = [
            c.SubmitTask(new_id(), "p", "board", "fill", "cli", queue=True) for _ in range(BATCH)
        ]
        self.engine.execute([CommandRequest(each, ACTOR, fresh=True) for each in commands])

    def submit_with_a_key(self) -> None:
        key = Idempotency("p", new_id(), "body")
        self.engine.execute([CommandRequest(c.SubmitJob(new_id(), "p", "dig"), ACTOR, key)])

    def claim(self, intents: Sequence[str] = ("dig", "fill")) -> None:
        request = ClaimRequest("w", new_id(), BATCH, [*intents])
        self.held = self.engine.claim(request)
        if not self.held:
            raise AssertionError("nothing was claimed")

    def renew(self) -> None:
        grants = [each.grant[:2] for each in self.held]
        if self.engine.renew("w", grants) != set(grants):
            raise AssertionError("a lease was not renewed")

    def checkpoint(self) -> None:
        commands = [c.RecordCheckpoint(each.grant, "page", 1) for each in self.held[:2]]
        self.engine.execute([CommandRequest(each, ACTOR) for each in commands])

    def complete(self) -> None:
        ends = [c.CompleteRun(each.grant, each.job.run_id or "") for each in self.held]
        self.engine.execute([CommandRequest(each, ACTOR) for each in ends])

    def run_due_timers(self) -> None:
        self.engine.transaction(lambda tx: due_timers.run(tx, 100, self.engine.lifetimes))

    def read_the_feed(self) -> None:
        feed.read(self.engine.store, feed.head(self.engine.store) - 50, 100)

    def read_history(self) -> None:
        with self.engine.store.read() as view:
            view.events(0, 100, stream=self.held[0].job.id)

    def everything(self) -> None:
        for operation in OPERATIONS.values():
            operation(self)


OPERATIONS: Mapping[str, Callable[[Workload], None]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(Workload.submit_jobs, Workload.submit_tasks, Workload.submit_with_a_key),
        *(Workload.claim, Workload.renew, Workload.checkpoint, Workload.complete),
        *(Workload.run_due_timers, Workload.read_the_feed, Workload.read_history),
    )
}


def make_samples(engine: Engine) -> None:
    """One row of each table that gets copies: the tables have no other rows."""
    work = Workload(engine)
    work.submit_with_a_key()
    engine.do(c.SubmitTask(new_id(), "p", "board", "fill", "cli", queue=True), ACTOR)
    work.claim()
    work.complete()
    options = {"job_timeout_ms": 86_400_000}
    engine.do(c.SubmitJob("sample", "p", "sleep", options=options), ACTOR)
    work.claim(["sleep"])
    (held,) = work.held
    far = 1 << 60
    wait = c.SuspendRun(held.grant, held.job.run_id or "", "nap", "timer", due_at=far)
    engine.do(wait, ACTOR)
    engine.do(c.SubmitTask(new_id(), "p", "board", "fill", "cli"), ACTOR)
    engine.do(c.SubmitJob(new_id(), "p", "dig", payload={"n": 1}), ACTOR)


def copy_statements(columns: Mapping[str, Sequence[str]], numbers: str) -> Iterator[str]:
    """Statements that add copies of the sample rows; `numbers` is a table with a column `n`."""
    for table, changed in COPIES.items():

        def column(name: str, changed: Mapping[str, str] = changed) -> str:
            if name not in changed:
                return f"sample.{name}"
            letter = changed[name]
            return f"'{letter}' || (1000000000 + n)" if letter else f"sample.{name} + n"

        names = columns[table]
        yield (
            f"INSERT INTO {table} ({', '.join(names)}) SELECT {', '.join(map(column, names))} "
            f"FROM (SELECT * FROM {table} WHERE {SAMPLES.get(table, 'true')} LIMIT 1) AS sample "
            f"CROSS JOIN {numbers}"
        )
    yield (
        "INSERT INTO stream_commits (stream, commit_id) "
        f"SELECT 's' || (1000000000 + n), n FROM {numbers}"
    )


# ---- PostgreSQL ------------------------------------------------------------------------------


@contextmanager
def on_postgres(server: Server, count: int) -> Iterator[PostgresStore]:
    """A store with this many copies. The server has `SETTINGS`."""
    name = _name(count)
    url = server.create_database(name)
    store = PostgresStore(f"{url}?notifier=no")
    make_samples(Engine(store))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET auto_explain.log_min_duration = -1")
        fill_postgres(connection, count)
    try:
        yield store
    finally:
        store.close()
        server.drop_database(name)


def _name(count: int) -> str:
    return f"hot_{count}"


def drop_index(server: Server, count: int, index: str) -> None:
    with psycopg.connect(server.url(_name(count)), autocommit=True) as connection:
        connection.execute(f"DROP INDEX {index}".encode())


def fill_postgres(connection: psycopg.Connection, count: int) -> None:
    """Copies of rows, and commits without a position, which the sequencer then numbers."""
    query = """
        SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
        FROM information_schema.columns
        WHERE table_schema = 'public' AND is_generated = 'NEVER' GROUP BY table_name
    """
    columns: dict[str, list[str]] = dict(connection.execute(query).fetchall())
    for statement in copy_statements(columns, f"generate_series(1, {count}) AS n"):
        connection.execute(statement.encode())
    connection.execute(
        """
        INSERT INTO commits (id, at, events, body)
        SELECT last_value + 1024 * n, at, events, body
        FROM (SELECT * FROM commits ORDER BY id DESC LIMIT 1) AS sample
        CROSS JOIN commit_ids CROSS JOIN generate_series(1, %s::integer) AS n
        """,
        [count],
    )
    connection.execute("SELECT setval('commit_ids', (SELECT max(id) FROM commits))")
    connection.execute("SELECT sequence_commits()")
    connection.execute("VACUUM ANALYZE")


class ServerLog:
    """The plans in the log of a server, from the end of the log on."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, path.stat().st_size

    def plans(self) -> list[dict[str, Any]]:
        """Plans that were added since the last call."""
        with self._path.open("rb") as log:
            log.seek(self._read)
            text = log.read().decode()
            self._read = log.tell()
        return [json.loads(found) for found in PLAN.findall(text)]


@dataclass(slots=True)
class Work:
    """What an operation took: a number that does not depend on the speed of the machine."""

    amount: int = 0
    problems: list[str] = field(default_factory=list)


def work_of_plans(plans: Sequence[Mapping[str, Any]]) -> Work:
    """Blocks that the statements have read, and large tables that were read as a whole."""
    work = Work()
    for plan in plans:
        top = plan["Plan"]
        work.amount += top.get("Shared Hit Blocks", 0) + top.get("Shared Read Blocks", 0)
        for node in _nodes(top):
            if node["Node Type"] == "Seq Scan" and node["Relation Name"] in LARGE:
                text = " ".join(plan["Query Text"].split())[:100]
                work.problems.append(f"reads all of {node['Relation Name']}: {text}")
    return work


def _nodes(node: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def measured_on_postgres(server: Server, store: PostgresStore) -> dict[str, Work]:
    """The work of each operation, in a process that has done each of them before."""
    log, workload = ServerLog(server.log), Workload(Engine(store))
    workload.everything()
    log.plans()
    found = {}
    for name, operation in OPERATIONS.items():
        operation(workload)
        plans = log.plans()
        if not plans:
            raise AssertionError(f"the server has not logged what it did to {name}")
        found[name] = work_of_plans(plans)
    return found


@contextmanager
def old_snapshot(url: str) -> Iterator[None]:
    """A transaction that keeps every version of every row that is deleted from now on."""
    with psycopg.connect(url, autocommit=True) as connection, connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM system_state")
        yield


def work_for_rounds(store: Store, rounds: int = ROUNDS) -> None:
    """Claim from the beginning of the queue and complete, again and again."""
    workload = Workload(Engine(store))
    for _ in range(rounds):
        workload.claim(["dig"])
        workload.complete()


# ---- SQLite ----------------------------------------------------------------------------------


class Instructions:
    """Counts the instructions of all connections that are opened while it is active."""

    EVERY = 50

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> "Instructions":
        apsw.connection_hooks.append(self._watch)
        return self

    def __exit__(self, *_error: object) -> None:
        apsw.connection_hooks.remove(self._watch)

    def _watch(self, connection: apsw.Connection) -> None:
        connection.set_progress_handler(self._add, self.EVERY)

    def _add(self) -> bool:
        self.count += self.EVERY
        return False


def fill_sqlite(path: Path, count: int) -> None:
    SqliteStore(path).close()
    store = SqliteStore(path)
    make_samples(Engine(store))
    store.close()
    numbers = (
        f"(WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count}) "
        "SELECT n FROM n)"
    )
    database = apsw.Connection(str(path))
    database.execute("PRAGMA synchronous = OFF")
    with database:
        columns = {
            table: [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            for table in COPIES
        }
        for statement in copy_statements(columns, numbers):
            database.execute(statement)
        names = [row[1] for row in database.execute("PRAGMA table_info(commits)")]
        values = ["last.id + last.events * n" if name == "id" else f"last.{name}" for name in names]
        database.execute(
            f"INSERT INTO commits ({', '.join(names)}) SELECT {', '.join(values)} "
            f"FROM (SELECT * FROM commits ORDER BY id DESC LIMIT 1) AS last CROSS JOIN {numbers}"
        )
    database.close()


def measured_on_sqlite(path: Path) -> dict[str, Work]:
    with Instructions() as instructions:
        store = SqliteStore(path)
        workload = Workload(Engine(store))
        workload.everything()
        found = {}
        for name, operation in OPERATIONS.items():
            before = instructions.count
            operation(workload)
            found[name] = Work(instructions.count - before)
        store.close()
    return found


# ---- the comparison --------------------------------------------------------------------------

#: The factor for the depth of indexes and for pages that are full at one size and not at the other.
FACTOR, MORE = 2.5, 20
#: SQLite's instructions do not depend on the depth of an index.
FACTOR_OF_SQLITE, MORE_OF_SQLITE = 1.2, 200


def differences(
    small: Mapping[str, Work], large: Mapping[str, Work], factor: float, more: int
) -> list[str]:
    """Operations that take more work in a large database than this, and whole tables read."""
    found = [
        f"{name}: {small[name].amount} in a small database, {work.amount} in a large one"
        for name, work in large.items()
        if work.amount > factor * small[name].amount + more
    ]
    return found + [f"{name} {each}" for name, work in large.items() for each in work.problems]


def compare_on_postgres(
    server: Server, sizes: Sequence[int], say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Everything that takes more in the larger databases; in the largest, with an old snapshot."""
    small: Mapping[str, Work] = {}
    problems: list[str] = []
    for count in sizes:
        with on_postgres(server, count) as store:
            found = measured_on_postgres(server, store)
            small = small or found
            say(_line(count, found))
            problems += [f"{count:,} rows: {e}" for e in differences(small, found, FACTOR, MORE)]
            if count != sizes[-1]:
                continue
            with old_snapshot(server.url(_name(count))):
                work_for_rounds(store)
                kept = measured_on_postgres(server, store)
            say(f"with an old snapshot, {_line(count, kept)}")
            problems += [f"old snapshot: {e}" for e in differences(small, kept, FACTOR, MORE)]
    return problems


def compare_on_sqlite(
    where: Path, sizes: Sequence[int], say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Everything that takes more in the larger databases."""
    small: Mapping[str, Work] = {}
    problems: list[str] = []
    for count in sizes:
        path = where / f"hot-{count}.db"
        fill_sqlite(path, count)
        found = measured_on_sqlite(path)
        path.unlink()
        small = small or found
        say(_line(count, found))
        more = differences(small, found, FACTOR_OF_SQLITE, MORE_OF_SQLITE)
        problems += [f"{count:,} rows: {each}" for each in more]
    return problems


def _line(count: int, found: Mapping[str, Work]) -> str:
    amounts = ", ".join(f"{name} {work.amount}" for name, work in found.items())
    return f"{count:,} rows: {amounts}"
