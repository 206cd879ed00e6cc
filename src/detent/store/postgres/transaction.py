"""One transaction on one connection: begun with its first statement, ended once, given back.

An idle connection that was lost is replaced transparently; that is safe
because nothing was done on it yet.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from math import inf
from typing import Any, NamedTuple

import psycopg

from detent.errors import DetentError, Unavailable
from detent.store.postgres.connection import Answer, Connection, Failed, Pool, Query, Rows
from detent.store.postgres.error_mapping import READ_ONLY, RETRY_AFTER_S, explained

COMMIT, ROLLBACK = Query(b"COMMIT"), Query(b"ROLLBACK")


class Opening(NamedTuple):
    """How a transaction begins, and for how many seconds the server lets it hold its locks."""

    begin: Sequence[Query]
    hold_s: float = inf
    #: Makes the statement that starts this time again; with 0 it takes the limit away.
    hold_on: Callable[..., Query] | None = None


class Transaction:
    """Nothing is sent before the first statement; the opening goes out with it."""

    def __init__(self, pool: Pool, opening: Opening, where: str) -> None:
        self._pool = pool
        self._opening = opening
        self._begin = opening.begin
        self._where = where
        #: When its time is started again, if it goes on by then.
        self._hold_on_s = time.monotonic() + opening.hold_s / 3
        self._connection: Connection | None = None
        #: The row with which the transaction began: what it was set to, and the time.
        self.started: tuple[Any, ...] = ()
        #: Why it can no longer be committed.
        self._failed: DetentError | None = None
        #: It came to a server that cannot be written: others have led there too.
        self._strayed = False

    def run(self, queries: Iterable[Query] = ()) -> list[Answer]:
        """One round trip, with the beginning of the transaction if it has not begun."""
        try:
            if self._connection is not None:
                return self._run_on(self._connection, queries)
            answers = self._start(list(queries))
            self.started = answers[len(self._begin) - 1].rows[0]
            return answers[len(self._begin) :]
        except DetentError as error:  # a statement could not be made; those before it were sent
            self._failed = error
            raise
        except (psycopg.Error, Failed) as error:
            self._strayed = error.sqlstate == READ_ONLY
            self._failed = explained(error, self._where)
            raise self._failed from error

    def _run_on(self, connection: Connection, queries: Iterable[Query]) -> list[Answer]:
        if time.monotonic() < self._hold_on_s or self._opening.hold_on is None:
            return connection.run(queries)
        self._hold_on_s = time.monotonic() + self._opening.hold_s / 3
        again = self._opening.hold_on(hold_ms=round(self._opening.hold_s * 1_000))
        return connection.run(chain([again], queries))[1:]

    def run_long(self, queries: Iterable[Query]) -> list[Answer]:
        """One round trip that may take as long as it needs."""
        if self._opening.hold_on is None:
            return self.run(queries)
        answers = self.run(chain([self._opening.hold_on(hold_ms=0)], queries))
        self._hold_on_s = 0.0
        return answers[1:]

    def rows(self, query: Query) -> Rows:
        return self.run([query])[0].rows

    def commit(self, queries: Iterable[Query]) -> None:
        """The last statements and the commit, in one round trip. Returns only if it is durable."""
        if self._failed is not None:
            raise self._failed
        if self._connection is None:
            queries = list(queries)
            if not queries:
                return
            self.run()
        try:
            *_, last = self.run(chain(queries, [COMMIT]))
        except Unavailable as error:
            if self._connection is not None and self._connection.alive:
                raise
            raise Unavailable(
                f"{error.message} It was lost during the commit: whether that was written is not "
                "known. Asking again with the same idempotency key is safe.",
                retry_after_s=RETRY_AFTER_S,
            ) from error
        if last.done != "COMMIT":
            raise Unavailable(
                f"{self._where}: the transaction was undone instead of committed.",
                retry_after_s=RETRY_AFTER_S,
            )

    def end(self) -> None:
        """Undo what was not committed, and give the connection back."""
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

    def _start(self, queries: Sequence[Query]) -> list[Answer]:
        """Take a connection and begin. If an idle one was lost, the others probably were too: all
        are dropped, and a new one is opened.
        """
        self._connection = self._pool.take()
        try:
            return self._connection.run([*self._begin, *queries])
        except (psycopg.Error, Failed):
            if self._connection.alive:
                raise
        self._pool.give_back(self._connection)
        self._connection = None
        self._pool.drop_free()
        self._connection = self._pool.take()
        return self._connection.run([*self._begin, *queries])
