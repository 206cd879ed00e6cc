"""The store on PostgreSQL: one database, any number of processes on any number of machines."""

from detent.store.postgres.store import PostgresStore

__all__ = ["PostgresStore"]
