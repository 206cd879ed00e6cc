"""Converts the log of layout 1 on PostgreSQL, some events in each transaction.

What was converted is in `commits`, so that a conversion that was killed continues.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import psycopg

from detent import failpoints
from detent.store.layout_upgrade import CHUNK, ConvertedCommit, Progress, convert
from detent.store.postgres.locks import Lock
from detent.store.postgres.schema import IDLE_LIMIT, TURN
from detent.store.rows import END_OF_LOG
from detent.store.types import LoggedEvent

COPY_COMMITS = b"COPY commits (id, at, events, body) FROM STDIN"
COPY_POSITIONS = b"COPY commit_positions (first_position, commit_id) FROM STDIN"
COPY_STREAMS = b"COPY stream_commits (stream, commit_id) FROM STDIN"
ENDS = "SELECT to_position FROM seals"
HEAD = "SELECT coalesce(max(position), 0) FROM events"
DONE = """
    SELECT coalesce(max(first_position + events - 1), 0) FROM (
        SELECT first_position, commit_id FROM commit_positions ORDER BY first_position DESC LIMIT 1
    ) AS last JOIN commits ON commits.id = last.commit_id
"""
EVENTS = """
    SELECT position, stream, version, project, name, schema, subject, at, actor, data, digest
    FROM events WHERE position > %s AND position <= %s ORDER BY position LIMIT %s
"""


def convert_log(
    connection: psycopg.Connection, progress: Progress = lambda _done, _head: None
) -> None:
    """Convert all events that were not converted yet."""
    ends = {end for (end,) in connection.execute(ENDS)}
    head = _number(connection, HEAD)
    while True:
        with connection.transaction():
            connection.execute(IDLE_LIMIT)
            connection.execute(TURN, [Lock.SCHEMA])
            done = _convert_chunk(connection, ends)
            if done is None:
                return
            failpoints.hit("migration.commit")
        progress(done, head)


def _convert_chunk(connection: psycopg.Connection, ends: Collection[int]) -> int | None:
    """Convert the next events; returns the position of the last one, None if there are none."""
    rows = connection.execute(EVENTS, [_number(connection, DONE), END_OF_LOG, CHUNK]).fetchall()
    events = [LoggedEvent._make(row) for row in rows]
    commits = convert(events, ends)
    append(connection, commits)
    return events[-1].position if events else None


def append(connection: psycopg.Connection, commits: Sequence[ConvertedCommit]) -> None:
    """Write converted commits with their positions."""
    places = ((each.id, each.id) for each in commits)
    _copy(connection, COPY_COMMITS, (each[:4] for each in commits))
    _copy(connection, COPY_POSITIONS, places)
    _copy(connection, COPY_STREAMS, _pairs(commits))


def _pairs(commits: Iterable[ConvertedCommit]) -> Iterable[tuple[str, int]]:
    return ((stream, each.id) for each in commits for stream in each.streams)


def _copy(connection: psycopg.Connection, text: bytes, rows: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(text) as copy:
        for row in rows:
            copy.write_row(row)


def _number(connection: psycopg.Connection, query: str) -> int:
    (number,) = connection.execute(query.encode()).fetchone() or (0,)
    return int(number)
