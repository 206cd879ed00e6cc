"""Changes a SQLite database behind the store's back, with SQL on events, tasks, jobs and the queue.

The events are a table while the statements run; then the commits are written from it.
"""

import re
import zlib
from pathlib import Path
from typing import Any

import apsw

from detent.store import commit_body
from detent.store.types import LoggedEvent

NAMES = ", ".join(LoggedEvent._fields)
#: The views that statements may change, and the statements on tables that do the same.
TABLES = {
    r"(UPDATE|DELETE FROM) (jobs|tasks)\b": (r"\1 active_\2", r"\1 ended_\2"),
    r"DELETE FROM runs\b": ("DELETE FROM other_runs",),
    r"DELETE FROM queue\b": ("UPDATE active_jobs SET lane = NULL, lease_id = NULL",),
}


def alter(path: Path, *statements: str) -> None:
    """Execute the statements and close the file."""
    connection = readable(apsw.Connection(str(path)))
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("BEGIN IMMEDIATE")
    of_events = any(re.search(r"\bevents\b", each) for each in statements)
    if of_events:
        connection.execute(f"CREATE TEMP TABLE events AS SELECT {NAMES} FROM main.events")
    for statement in statements:
        for each in _on_tables(statement):
            connection.execute(each).fetchall()
    if of_events:
        _write_commits(connection)
    connection.execute("COMMIT")
    connection.close()


def readable(connection: apsw.Connection) -> apsw.Connection:
    """The connection with a function of SQLite's shell, which the view `events` needs."""
    connection.create_scalar_function("sqlar_uncompress", _uncompress, 2)
    return connection


def _uncompress(*values: Any) -> bytes:
    return zlib.decompress(values[0])


def _on_tables(statement: str) -> list[str]:
    for pattern, tables in TABLES.items():
        if re.match(pattern, statement):
            return [re.sub(pattern, table, statement, count=1) for table in tables]
    return [statement]


def _write_commits(connection: apsw.Connection) -> None:
    """Write each uninterrupted sequence of events as a commit; commits begin where they began."""
    times: dict[Any, Any] = {}
    for commit_id, at in connection.execute("SELECT id, at FROM commits"):
        times[commit_id] = at
    rows = connection.execute(f"SELECT {NAMES} FROM temp.events ORDER BY position").fetchall()
    commits: list[list[LoggedEvent]] = []
    for event in map(LoggedEvent._make, rows):
        follows = commits and event.position == commits[-1][-1].position + 1
        if follows and event.position not in times:
            commits[-1].append(event)
        else:
            commits.append([event])
    connection.execute("DROP TRIGGER IF EXISTS commits_keep_the_last")
    connection.execute("DELETE FROM commits")
    for events in commits:
        first, at = events[0].position, int(times.get(events[0].position, events[0].at))
        body = commit_body.compressed(commit_body.from_logged(events, at))
        row = (first, at, len(events), *body)
        connection.execute("INSERT INTO commits VALUES (?, ?, ?, ?, ?)", row)
