"""Upgrades a database of layout 1 and verifies it before and after.

Before: the hash chain over the old log. After: the hash chain with the same end, all rows against
the log, and the number of rows of each table.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

from detent.errors import Broken
from detent.integrity import hash_chain
from detent.integrity.hash_chain import Anchor, Progress
from detent.integrity.verify import verify
from detent.store.layout_upgrade import Progress as LogProgress
from detent.store.port import ReadTransaction
from detent.store.sqlite.old_layout import SqliteUpgrade
from detent.store.store_url import open_store, require_psycopg, sqlite_path

DAMAGED = "Restore a backup, or use the earlier version of detent to examine the database."


class Upgraded(NamedTuple):
    """The number of events, and the end of the hash chain, which is the same as before."""

    events: int
    anchor: Anchor


class Conversion(Protocol):
    """The steps of an upgrade of one database."""

    @property
    def needed(self) -> bool:
        """Whether the log is in layout 1."""

    def prepare(self) -> None:
        """Create the tables of layout 2 beside the old ones."""

    def old_log(self) -> Any:
        """The log of layout 1, with the methods that the check of the hash chain uses."""

    def counts(self) -> Mapping[str, Mapping[Any, int]]:
        """The number of rows of each table."""

    def convert(self, progress: LogProgress) -> None:
        """Convert the rest of the log."""

    def finish(self) -> None:
        """Copy the rows and remove the tables of layout 1."""

    def close(self) -> None:
        """Close files and connections."""


def upgrade_sqlite(url: str, now: int, progress: Progress) -> Upgraded | None:
    """Convert a SQLite database; None if it has the present layout already.

    No other process may use it. An upgrade that was interrupted continues.
    """
    return _upgrade(SqliteUpgrade(sqlite_path(url), now), url, progress)


def upgrade_postgres(url: str, now: int, progress: Progress) -> Upgraded | None:
    """The same on PostgreSQL, as the owner of the tables."""
    require_psycopg()
    from detent.store.postgres.address import read_address
    from detent.store.postgres.old_layout import PostgresUpgrade

    return _upgrade(PostgresUpgrade(read_address(url), now), url, progress)


def _upgrade(upgrade: Conversion, url: str, progress: Progress) -> Upgraded | None:
    try:
        if not upgrade.needed:
            return None
        upgrade.prepare()
        before = hash_chain.check(cast(ReadTransaction, upgrade.old_log()), progress)
        if before.breaks:
            raise Broken(
                f"The hash chain is broken, so the database was not upgraded: {before.breaks[0]}",
                hint=DAMAGED,
            )
        counts = upgrade.counts()
        upgrade.convert(lambda position, _: progress("convert", position))
        upgrade.finish()
        _compare(counts, upgrade.counts())
    finally:
        upgrade.close()
    anchor = Anchor(before.position, before.value.hex())
    _verify(url, anchor, before.events, progress)
    return Upgraded(before.events, anchor)


def _compare(before: object, after: object) -> None:
    if before != after:
        raise Broken(
            f"The upgrade changed the number of rows: {before} before, {after} after.", hint=DAMAGED
        )


def _verify(url: str, anchor: Anchor, events: int, progress: Progress) -> None:
    store = open_store(url)
    try:
        found = verify(store, anchor, progress)
        _compare(events, found.events)
    finally:
        store.close()
    if found.differences:
        raise Broken(
            f"The database is upgraded, and its rows differ from the log: {found.differences[0]}",
            hint="`detent verify` lists every difference; `detent rebuild` repairs rows.",
        )
