"""Converts a SQLite database of layout 1, in which the log had one row for each event.

Each step is a transaction of its own; a conversion that was interrupted continues where it ended.
The tables of layout 1 are removed by the last step.
"""

from collections.abc import Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import apsw

from detent import failpoints
from detent.store import commit_body
from detent.store.codec import from_json, to_json
from detent.store.layout_upgrade import CHUNK, Progress, convert
from detent.store.logged_commit import LoggedCommit, as_commits
from detent.store.migration_files import LAYOUT
from detent.store.rows import END_OF_LOG
from detent.store.sqlite import checks, schema
from detent.store.sqlite.commit_log import INSERT, INSERT_STREAM_COMMITS
from detent.store.sqlite.connection import Connection, Rows
from detent.store.sqlite.error_mapping import explained
from detent.store.sqlite.reader import NAMED
from detent.store.types import ChainBlock, LoggedEvent

EVENTS = """
    SELECT position, stream, version, project, name, schema, subject, at, actor, data, digest
    FROM events WHERE position > ? AND position <= ? ORDER BY position LIMIT ?
"""
HEAD = "SELECT coalesce(max(position), 0) FROM events"
CONVERTED = "SELECT coalesce((SELECT id + events - 1 FROM commits ORDER BY id DESC LIMIT 1), 0)"
ENDS = "SELECT to_position FROM seals WHERE to_position >= ? AND to_position <= ?"
CHAIN_BLOCKS = """
    SELECT from_position, to_position, count, chain, at FROM seals
    WHERE to_position > ? ORDER BY to_position LIMIT ?
"""
NOTE = "INSERT OR REPLACE INTO system_state (name, value, updated_at) VALUES (?, ?, ?)"
#: The number of rows of each table by a column, before and after; the same in both layouts.
COUNTED = {
    "tasks": "SELECT state, count(*) FROM tasks GROUP BY state",
    "jobs": "SELECT state, count(*) FROM jobs GROUP BY state",
    "runs": "SELECT state, count(*) FROM runs GROUP BY state",
    "queue": "SELECT intent, count(*) FROM queue GROUP BY intent",
    "steps": "SELECT state, count(*) FROM steps GROUP BY state",
    "waits": "SELECT kind, count(*) FROM waits GROUP BY kind",
    "signals": "SELECT taken, count(*) FROM signals GROUP BY taken",
    "checkpoints": "SELECT kind, count(*) FROM checkpoints GROUP BY kind",
    "evidence": "SELECT kind, count(*) FROM evidence GROUP BY kind",
    "outbox": "SELECT target, count(*) FROM outbox GROUP BY target",
    "idempotency_keys": "SELECT project, count(*) FROM idempotency_keys GROUP BY project",
}


class SqliteUpgrade:
    """The conversion of one file. The caller has stopped all processes that use it."""

    def __init__(self, path: Path, now: int) -> None:
        self._path = path
        self._now = now
        with ExitStack() as opened:
            lock = opened.enter_context(closing(checks.write_lock(path)))
            opened.enter_context(lock)
            self._connection = opened.enter_context(closing(Connection(path)))
            self._opened = opened.pop_all()

    def close(self) -> None:
        self._opened.close()

    @property
    def needed(self) -> bool:
        """Whether the log is in layout 1."""
        return schema.has_old_log(self._connection)

    def prepare(self) -> None:
        """Create the tables of layout 2 beside the old ones."""
        schema.apply(self._connection, self._path, self._now, upto=LAYOUT - 1)

    def old_log(self) -> "OldLog":
        return OldLog(self._connection, self._now)

    def counts(self) -> dict[str, Mapping[Any, int]]:
        """The number of rows of each table, by a column with few values."""
        return {table: dict(self._connection.all(text)) for table, text in COUNTED.items()}

    def convert(self, progress: Progress) -> None:
        """Convert the rest of the log, one part in each transaction."""
        try:
            head = self._connection.all(HEAD)[0][0]
            while (done := self._connection.all(CONVERTED)[0][0]) < head:
                self._convert_part(done)
                progress(self._connection.all(CONVERTED)[0][0], head)
        except apsw.Error as error:
            raise explained(error, str(self._path)) from error

    def _convert_part(self, after: int) -> None:
        connection = self._connection
        rows = connection.all(EVENTS, (after, END_OF_LOG, CHUNK))
        events = [LoggedEvent._make(row) for row in rows]
        ends = {row[0] for row in connection.all(ENDS, (after, events[-1].position))}
        connection.all("BEGIN IMMEDIATE")
        try:
            for commit in convert(events, ends):
                connection.all(INSERT, (*commit[:3], *commit_body.compressed(commit.body)))
                pairs = [(stream, commit.id) for stream in commit.streams]
                connection.many(INSERT_STREAM_COMMITS, pairs)
            failpoints.hit("migration.commit")
            connection.all("COMMIT")
        finally:
            connection.roll_back()

    def note(self, name: str, value: Any) -> None:
        """Write a row of `system_state`."""
        self._connection.all(NOTE, (name, to_json(value), self._now))

    def finish(self) -> None:
        """Copy the rows and remove the tables of layout 1, in one transaction."""
        schema.apply(self._connection, self._path, self._now)


class OldLog:
    """Reads the log of layout 1, as the check of the hash chain needs it."""

    def __init__(self, connection: Connection, now: int) -> None:
        self._connection = connection
        self._now = now

    def now(self) -> int:
        return self._now

    def head(self) -> int:
        position: int = self._connection.all(HEAD)[0][0]
        return position

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> list[LoggedEvent]:
        assert stream is None, "the check reads the whole log"
        rows: Rows = self._connection.all(
            EVENTS, (after, END_OF_LOG if upto is None else upto, limit)
        )
        return [LoggedEvent._make(row) for row in rows]

    def commits(self, after: int, limit: int, upto: int | None = None) -> list[LoggedCommit]:
        return as_commits(self.events(after, limit, upto=upto))

    def rows(self, table: str) -> Mapping[str, Any]:
        named = self._connection.all(NAMED[table].text)
        return {name: from_json(value) for name, value in named}

    def chain_blocks(self, after: int, limit: int) -> list[ChainBlock]:
        rows = self._connection.all(CHAIN_BLOCKS, (after, limit))
        return [ChainBlock._make(row) for row in rows]
