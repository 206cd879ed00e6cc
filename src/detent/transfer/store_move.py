"""Moves an installation from SQLite to PostgreSQL: copies log and tables, rebuilds rows, compares.

Evidence is copied from its directory, and output from the files of the runs.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from detent.errors import Broken, Refused
from detent.integrity.audit import Difference
from detent.integrity.hash_chain import Anchor
from detent.integrity.rebuild import rebuild
from detent.integrity.verify import verify
from detent.store import log_walk
from detent.store.blobs import CopyProgress, Piece, no_progress
from detent.store.clock import CLOCK
from detent.store.port import ReadTransaction, Store
from detent.store.postgres.table_copy import Table, copy_into
from detent.store.sqlite import SqliteStore, table_copy
from detent.store.sqlite.reader import SqliteReader
from detent.store.store_url import open_store
from detent.store.table_names import LISTED, TABLES
from detent.store.types import LoggedEvent, Query
from detent.transfer.blob_copy import copy_blobs
from detent.transfer.exporter import ReadOutput

#: The tables that are copied besides the log: those that cannot be rebuilt from it.
COPIED = ("seals", "idempotency_keys", "intake", "outbox", *TABLES)

#: A column with few values, for tables without a state.
FEW = {"waits": "kind", "checkpoints": "kind", "evidence": "kind", "queue": "intent"}

BATCH = 1_000
PIECE_BYTES = 131_072
#: The most rows that a refusal names.
SHOWN = 10


class Moved(NamedTuple):
    """The number of copied rows by table, and the end of the hash chain on both sides."""

    counts: dict[str, int]
    anchor: Anchor


def move(
    source: SqliteStore,
    url: str,
    lease_us: int,
    read_output: ReadOutput | None = None,
    progress: CopyProgress = no_progress,
) -> Moved:
    """Copy a database that no process uses to an empty one, and compare both."""
    with source.read() as view:
        head = view.head()

    def verifying(what: str, position: int) -> None:
        progress(what, position, head)

    before = verify(source, progress=verifying)
    if before.differences:
        raise Broken(
            f"The database is damaged and was not moved: {before.differences[0]}",
            hint="`detent verify` lists every difference; `detent rebuild` repairs rows.",
        )
    _require_no_nul(source)
    target = open_store(url)
    try:
        _require_empty(target)
        with source.read() as view:
            counts = copy_into(url, _tables(view, progress))
        rebuild(target, lease_us)
        counts["blobs"] = copy_blobs(source.blobs, target.blobs, progress)
        counts["output"] = 0 if read_output is None else _copy_output(source, target, read_output)
        differing = [
            *verify(target, before.anchor, verifying).differences,
            *_differences(source, target),
        ]
    finally:
        target.close()
    if differing:
        raise Broken(
            f"The copy differs from the database, which is unchanged: {differing[0]}",
            hint="Empty the target database and try again. Use the present database until then.",
        )
    return Moved(counts, before.anchor)


def _copy_output(source: Store, target: Store, read_output: ReadOutput) -> int:
    """Copy the output of all runs; returns the number of runs with output."""
    assert target.outputs is not None
    count, after = 0, None
    while True:
        with source.read() as view:
            rows = view.page(Query("runs", order="id", after=after, limit=BATCH))
        for row in rows:
            offset = 0
            while data := read_output(row["id"], offset, PIECE_BYTES):
                target.outputs.append([Piece(row["id"], offset, data)])
                offset += len(data)
            count += bool(offset)
        if not rows:
            return count
        after = (rows[-1]["id"], rows[-1]["id"])


def _tables(view: SqliteReader, progress: CopyProgress) -> Iterator[Table]:
    for name in COPIED:
        yield Table(name, table_copy.columns(view, name), _batches(view, name, progress))
    yield Table("events", LoggedEvent._fields, _events(view, progress))


def _events(view: SqliteReader, progress: CopyProgress) -> Iterator[list[tuple[Any, ...]]]:
    head = view.head()
    for events in log_walk.batches(view):
        yield [tuple(event) for event in events]
        progress("events", events[-1].position, head)


def _batches(
    view: SqliteReader, name: str, progress: CopyProgress
) -> Iterator[list[tuple[Any, ...]]]:
    total, count = table_copy.count(view, name), 0
    for rows in table_copy.batches(view, name):
        yield rows
        count += len(rows)
        progress(name, count, total)


def _require_no_nul(source: SqliteStore) -> None:
    """Refuse a database with texts that PostgreSQL cannot store, before anything is copied."""
    with source.read() as view:
        rows = list(islice(table_copy.with_nul(view), SHOWN))
    if rows:
        listed = ", ".join(f"{key} ({column} in {table})" for table, key, column in rows)
        raise Refused(
            "PostgreSQL cannot store the character U+0000, which these rows contain: "
            f"{listed}. Nothing was copied.",
            hint="Delete this work with `detent delete`, or after its retention with `detent gc`, "
            "and move again.",
        )


def _require_empty(target: Store) -> None:
    with target.read() as view:
        used = [name for name in TABLES if view.rows(name)]
        if view.head() or used or any(_count(view, name) for name in LISTED):
            raise Refused(f"The database {target.url} is not empty.", hint="Use an empty database.")


def _differences(source: Store, target: Store) -> Iterator[Difference]:
    """Differences in the number of rows and in small tables; the hash chain covers the log."""
    with source.read() as here, target.read() as there:
        for name in LISTED:
            counts = _count(here, name), _count(there, name)
            if counts[0] != counts[1]:
                yield Difference("", here.head(), name, "count", *counts)
        for name in TABLES:
            rows = _named_rows(here, name), _named_rows(there, name)
            if rows[0] != rows[1]:
                yield Difference("", here.head(), name, "rows", *rows)
        if here.head() != there.head():
            yield Difference("", here.head(), "log", "position", here.head(), there.head())


def _named_rows(view: ReadTransaction, table: str) -> dict[str, Any]:
    """The rows of a small table, without the time of a store's last write: each has its own."""
    rows = dict(view.rows(table))
    if table == "system_state":
        rows.pop(CLOCK, None)
    return rows


def _count(view: ReadTransaction, table: str) -> int:
    return sum(view.count_by(Query(table), FEW.get(table, "state")).values())
