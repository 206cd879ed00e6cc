"""Upgrades a database of layout 1 and verifies it before and after.

Before: the hash chain over the old log. After: the number of rows of each table, the hash chain
with the same end, and all rows against the log. The end of the chain is stored until then, so that
an upgrade that is interrupted during its verification is verified by the next one.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

from detent.errors import Broken
from detent.integrity import hash_chain
from detent.integrity.hash_chain import Anchor, Progress
from detent.integrity.verify import Verdict, verify
from detent.store.layout_upgrade import Progress as LogProgress
from detent.store.port import ReadTransaction
from detent.store.sqlite.old_layout import SqliteUpgrade
from detent.store.store_url import open_store, require_psycopg, sqlite_path
from detent.store.table_names import UNVERIFIED_UPGRADE

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

    def note(self, name: str, value: Any) -> None:
        """Write a row of `system_state`."""

    def finish(self) -> None:
        """Copy the rows and remove the tables of layout 1."""

    def close(self) -> None:
        """Close files and connections."""


def upgrade_sqlite(url: str, now: int, progress: Progress) -> Upgraded | None:
    """Convert a SQLite database; None if it has the present layout already and was verified.

    No other process may use it. An upgrade that was interrupted continues.
    """
    _convert(SqliteUpgrade(sqlite_path(url), now), progress)
    return verify_upgrade(url, progress)


def upgrade_postgres(url: str, now: int, progress: Progress) -> Upgraded | None:
    """The same on PostgreSQL, as the owner of the tables."""
    require_psycopg()
    from detent.store.postgres.address import read_address
    from detent.store.postgres.old_layout import PostgresUpgrade

    _convert(PostgresUpgrade(read_address(url), now), progress)
    return verify_upgrade(url, progress)


def _convert(upgrade: Conversion, progress: Progress) -> None:
    """Convert the database if it has layout 1, and note what to compare it with."""
    try:
        if not upgrade.needed:
            return
        upgrade.prepare()
        chain = hash_chain.check(cast(ReadTransaction, upgrade.old_log()), progress)
        if chain.breaks:
            raise Broken(
                f"The hash chain is broken, so the database was not upgraded: {chain.breaks[0]}",
                hint=DAMAGED,
            )
        counts = upgrade.counts()
        upgrade.convert(lambda position, _: progress("convert", position))
        before = {"position": chain.position, "chain": chain.value.hex(), "events": chain.events}
        upgrade.note(UNVERIFIED_UPGRADE, before)
        upgrade.finish()
        _compare(counts, upgrade.counts())
    finally:
        upgrade.close()


def _compare(before: object, after: object) -> None:
    if before != after:
        raise Broken(
            f"The upgrade changed the number of rows: {before} before, {after} after.", hint=DAMAGED
        )


def verify_upgrade(url: str, progress: Progress) -> Upgraded | None:
    """Verify a database that was upgraded; None if that was done before."""
    store = open_store(url)
    try:
        with store.read() as view:
            row = view.rows("system_state").get(UNVERIFIED_UPGRADE)
        if row is None:
            return None
        upgraded = Upgraded(row["events"], Anchor(row["position"], row["chain"]))
        _check(upgraded, verify(store, upgraded.anchor, progress))
        with store.write() as tx:
            tx.put_rows("system_state", {UNVERIFIED_UPGRADE: None})
    finally:
        store.close()
    return upgraded


def _check(upgraded: Upgraded, found: Verdict) -> None:
    """There may be more events if detent was started before the verification."""
    if found.events < upgraded.events:
        _compare(upgraded.events, found.events)
    if found.differences:
        raise Broken(
            f"The database is upgraded, and its rows differ from the log: {found.differences[0]}",
            hint="`detent verify` lists every difference; `detent rebuild` repairs rows.",
        )
