"""The store on SQLite: one file on a local disk, any number of processes of one machine."""

from detent.store.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
