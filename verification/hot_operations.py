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
from enum import StrEnum
from pathlib import Path
from typing import Any

import apsw
import psycopg

from detent.engine import Engine
from detent.store.port import Store
from detent.store.postgres import PostgresStore
from detent.store.sqlite import SqliteStore
from verification.hot_workload import (
    COPIES,
    OPERATIONS,
    Workload,
    copy_statements,
    make_samples,
)
from verification.postgres_server import Server

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
PLAN = re.compile(r"plan:\n(\t?\{.*?\n\t?\})\n(?!\t)", re.DOTALL)
#: The tables with many rows: a plan must not read one as a whole.
LARGE = {*COPIES, "commits", "commit_positions", "stream_commits"}


# ---- PostgreSQL ------------------------------------------------------------------------------


class Statistics(StrEnum):
    """When the tables were analyzed: the planner knows no more of them than that."""

    CURRENT = "current statistics"
    OLD = "statistics of a few rows"
    NONE = "no statistics"


@contextmanager
def on_postgres(
    server: Server, count: int, statistics: Statistics = Statistics.CURRENT
) -> Iterator[PostgresStore]:
    """A store with this many copies. The server has `SETTINGS`."""
    name = _name(count)
    url = server.create_database(name)
    store = PostgresStore(f"{url}?notifier=no")
    make_samples(Engine(store))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET auto_explain.log_min_duration = -1")
        if statistics is Statistics.OLD:
            connection.execute("VACUUM ANALYZE")
        fill_postgres(connection, count)
        if statistics is Statistics.CURRENT:
            connection.execute("VACUUM ANALYZE")
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


def work_for_rounds(store: Store) -> None:
    """Claim from the beginning of the queue and complete, again and again."""
    workload = Workload(Engine(store))
    for _ in range(ROUNDS):
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


@contextmanager
def old_read(path: Path) -> Iterator[None]:
    """A read transaction that keeps the write-ahead log from being moved into the file."""
    reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM system_state").fetchall()
    try:
        yield
    finally:
        reader.close()


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
#: Without current statistics nothing was vacuumed either, so that more blocks are read.
UNKNOWN_FACTOR, UNKNOWN_MORE = 5.0, 100
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
    """Everything that takes more in the larger databases.

    The largest one is measured with an old snapshot too, and without current statistics.
    """
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
    for statistics in (Statistics.OLD, Statistics.NONE):
        with on_postgres(server, sizes[-1], statistics) as store:
            found = measured_on_postgres(server, store)
        say(f"with {statistics}, {_line(sizes[-1], found)}")
        more = differences(small, found, UNKNOWN_FACTOR, UNKNOWN_MORE)
        problems += [f"{statistics}: {each}" for each in more]
    return problems


def compare_on_sqlite(
    where: Path, sizes: Sequence[int], say: Callable[[str], None] = lambda _: None
) -> list[str]:
    """Everything that takes more in the larger databases; in the largest, with an old snapshot."""
    small: Mapping[str, Work] = {}
    problems: list[str] = []
    for count in sizes:
        path = where / f"hot-{count}.db"
        fill_sqlite(path, count)
        found = measured_on_sqlite(path)
        small = small or found
        say(_line(count, found))
        more = differences(small, found, FACTOR_OF_SQLITE, MORE_OF_SQLITE)
        problems += [f"{count:,} rows: {each}" for each in more]
        if count == sizes[-1]:
            with old_read(path):
                store = SqliteStore(path)
                work_for_rounds(store)
                store.close()
                kept = measured_on_sqlite(path)
            say(f"with an old snapshot, {_line(count, kept)}")
            more = differences(small, kept, FACTOR_OF_SQLITE, MORE_OF_SQLITE)
            problems += [f"old snapshot: {each}" for each in more]
        path.unlink()
    return problems


def _line(count: int, found: Mapping[str, Work]) -> str:
    amounts = ", ".join(f"{name} {work.amount}" for name, work in found.items())
    return f"{count:,} rows: {amounts}"
