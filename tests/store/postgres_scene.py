"""Stores and connections on PostgreSQL for tests, and waiting until something is so."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from detent.engine import Engine
from detent.store.postgres import PostgresStore

DEADLINE_S = 60.0


@contextmanager
def opened(url: str) -> Iterator[Engine]:
    store = PostgresStore(url)
    try:
        yield Engine(store)
    finally:
        store.close()


def store_of(engine: Engine) -> PostgresStore:
    assert isinstance(engine.store, PostgresStore)
    return engine.store


@contextmanager
def beside(url: str) -> Iterator[psycopg.Connection]:
    """A connection that has nothing to do with the store."""
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def until(condition: Callable[[], bool], what: str, within_s: float = DEADLINE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


def cut_others(connection: psycopg.Connection, **having: str) -> int:
    """End the store's sessions that are in a given condition; how many there were."""
    conditions = " AND ".join(f"{column} LIKE %s" for column in having)
    query = f"""
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE datname = current_database() AND pid <> pg_backend_pid() AND {conditions}
    """
    return len(connection.execute(query.encode(), list(having.values())).fetchall())
