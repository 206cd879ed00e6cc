"""One transaction on one connection: it begins with the first statement.

An idle connection that was lost is replaced transparently; that is safe, because it was not used
yet.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import psycopg

from detent.errors import DetentError, Unavailable
from detent.store.postgres.connection import Connection, Failed, Pool, Query, QueryResult, Rows
from detent.store.postgres.error_mapping import READ_ONLY, RETRY_AFTER_S, explained

COMMIT, ROLLBACK = Query(b"COMMIT"), Query(b"ROLLBACK")


class Opening(NamedTuple):
    """How a transaction begins, and for how many seconds it may hold its locks."""

    begin: Sequence[Query]
    hold_s: float = inf
    #: Makes the statement that restarts this time limit; 0 removes it.
    hold_on: Callable[..., Query] | None = None


class Transaction:
    """A transaction; the opening is sent with the first statement."""

    def __init__(self, pool: Pool, opening: Opening, where: str) -> None:
        self._pool = pool
        self._opening = opening
        self._begin = opening.begin
        self._where = where
        #: When the time limit is restarted, if the transaction is still open.
        self._hold_on_s = time.monotonic() + opening.hold_s / 3
        self._connection: Connection | None = None
        #: The first row of the opening: the settings and the time.
        self.started: tuple[Any, ...] = ()
        #: Why it can no longer be committed.
        self._failed: DetentError | None = None
        #: Whether the server is read-only: then the idle connections probably lead there too.
        self._strayed = False

    def precede(self, query: Query) -> bool:
        """Send a statement before the transaction, unless that has begun; returns whether it has
        not.
        """
        if self._connection is None:
            self._begin = (query, *self._begin)
        return self._connection is None

    def run(self, queries: Iterable[Query] = (), *, commits: bool = False) -> list[QueryResult]:
        """Execute queries in one round trip, with the opening if the transaction has not begun.

        `commits`: the commit is one of them, so that they are not sent again.
        """
        try:
            if self._connection is not None:
                return self._run_on(self._connection, queries)
            connection = self._take(unused=commits)
            opened = [*self._begin, *queries]
            try:
                results = connection.run(opened)
            except (psycopg.Error, Failed):
                if connection.alive or commits:
                    raise
                results = self._take_new(connection).run(opened)
            self.started = results[len(self._begin) - 1].rows[0]
            return results[len(self._begin) :]
        except DetentError as error:  # a statement could not be made; those before it were sent
            self._failed = error
            raise
        except (psycopg.Error, Failed) as error:
            self._strayed = error.sqlstate == READ_ONLY
            self._failed = explained(error, self._where)
            raise self._failed from error

    def _run_on(self, connection: Connection, queries: Iterable[Query]) -> list[QueryResult]:
        if time.monotonic() < self._hold_on_s or self._opening.hold_on is None:
            return connection.run(queries)
        self._hold_on_s = time.monotonic() + self._opening.hold_s / 3
        again = self._opening.hold_on(hold_ms=round(self._opening.hold_s * 1_000))
        return connection.run(chain([again], queries))[1:]

    def run_long(self, queries: Iterable[Query]) -> list[QueryResult]:
        """Execute queries in one round trip without a time limit."""
        if self._opening.hold_on is None:
            return self.run(queries)
        results = self.run(chain([self._opening.hold_on(hold_ms=0)], queries))
        self._hold_on_s = 0.0
        return results[1:]

    def rows(self, query: Query) -> Rows:
        return self.run([query])[0].rows

    def commit(self, queries: Iterable[Query], then: Sequence[Query] = ()) -> list[QueryResult]:
        """Send the last statements and the commit in one round trip; returns when it is durable.

        `then` has statements after the commit, each a transaction of its own. If nothing was sent
        before, the transaction is this round trip.
        """
        if self._failed is not None:
            raise self._failed
        if self._connection is None:
            queries = list(queries)
            if not queries:
                return []
        try:
            results = self.run(chain(queries, [COMMIT], then), commits=True)
        except Unavailable as error:
            if self._connection is not None and self._connection.alive:
                raise
            raise Unavailable(
                f"{error.message} It is not known whether the commit was written. Trying again "
                "with the same idempotency key is safe.",
                retry_after_s=RETRY_AFTER_S,
            ) from error
        last = results[-1 - len(then)]
        if last.done != "COMMIT":
            raise Unavailable(
                f"{self._where}: the transaction was rolled back instead of committed.",
                retry_after_s=RETRY_AFTER_S,
            )
        return results[: -1 - len(then)]

    def end(self) -> None:
        """Roll back unless committed, and return the connection."""
        if self._connection is None:
            return
        connection, self._connection = self._connection, None
        try:
            if self._strayed:
                connection.close()
                self._pool.drop_free()
            elif connection.alive and not connection.idle:
                connection.run([ROLLBACK])
        except (psycopg.Error, Failed):
            connection.close()
        finally:
            self._pool.give_back(connection)

    def _take(self, *, unused: bool) -> Connection:
        """Take a connection. What commits is not sent again, so it is sent only on a connection
        that the server has not closed (`unused`).
        """
        connection = self._connection = self._pool.take()
        return self._take_new(connection) if unused and connection.lost() else connection

    def _take_new(self, lost: Connection) -> Connection:
        """Take a connection in place of a lost one. The other idle ones were probably lost too: all
        are dropped.
        """
        self._pool.give_back(lost)
        self._connection = None
        self._pool.drop_free()
        connection = self._connection = self._pool.take()
        return connection
