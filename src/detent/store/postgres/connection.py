"""Connections to one PostgreSQL database that send many statements in one round trip.

Uses libpq's pipeline directly, which takes a quarter of the time of psycopg's pipeline. A
connection keeps no state except prepared statements, and those only if the URL allows them.
"""

import select
import time
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from threading import BoundedSemaphore, Lock
from typing import Any, NamedTuple

import psycopg
from psycopg import pq
from psycopg.adapt import Transformer

from detent.errors import Unavailable
from detent.store.postgres.address import Address
from detent.store.statements import PARAMETER, Statement

#: How long the server may take for a response before the connection counts as lost.
RESPONSE_WITHIN_S = 120
#: The maximum number of connections of one process, and how long a thread waits for one.
MAX_CONNECTIONS = 24
FREE_WITHIN_S = 5

#: Constants of libpq as plain integers, because they are compared often.
BINARY = int(pq.Format.BINARY)
END_OF_PIPELINE = int(pq.ExecStatus.PIPELINE_SYNC)
WITH_ROWS, WITHOUT_ROWS = int(pq.ExecStatus.TUPLES_OK), int(pq.ExecStatus.COMMAND_OK)

Rows = list[tuple[Any, ...]]
Value = bytes | str | int | None


class Query(NamedTuple):
    """A statement with `$1` for its first parameter, and the values to bind.

    A query with a name is prepared under this name.
    """

    text: bytes
    values: Sequence[bytes | None] = ()
    name: bytes = b""
    #: Whether it is a transaction of its own, before or after the one that the others are in.
    alone: bool = False


class QueryResult(NamedTuple):
    """The result of a statement: its rows and the command tag of the server."""

    rows: Rows
    done: str


class Failed(Exception):
    """The server refused a statement; has the SQLSTATE and the violated constraint.

    `column` is the table and the column that must not be null.
    """

    def __init__(
        self, message: str, sqlstate: str = "", constraint: str = "", column: str = ""
    ) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate
        self.constraint = constraint
        self.column = column


def ready(statement: Statement) -> Callable[..., Query]:
    """A function that makes a query of a statement from the values of its parameters.

    The name of the prepared statement depends on its text.
    """
    text, parameters = numbered(statement), statement.parameters
    name = _name(text)

    def query(**values: Value) -> Query:
        return Query(text, [_bytes(values[parameter]) for parameter in parameters], name)

    return query


def named(text: str) -> Query:
    """A query without values of a statement with numbered parameters."""
    return Query(text.encode(), (), _name(text.encode()))


def _name(text: bytes) -> bytes:
    return b"detent_" + sha256(text).hexdigest()[:20].encode()


def numbered(statement: Statement) -> bytes:
    """The text of the statement with numbered parameters."""
    numbers = {name: f"${number}" for number, name in enumerate(statement.parameters, 1)}
    text = PARAMETER.sub(lambda match: numbers[match[1]] if match[1] else match[0], statement.text)
    return text.encode()


def _bytes(value: Value) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    return value.encode() if isinstance(value, str) else b"%d" % value


class Connection:
    """A connection that sends several statements together and then reads all results."""

    def __init__(self, address: Address, on_silence: Callable[[], None] = lambda: None) -> None:
        self.plain = psycopg.connect(address.conninfo, autocommit=True, prepare_threshold=None)
        self._line = self.plain.pgconn
        self._may_prepare = address.prepare
        #: The names of the statements that are prepared on this connection.
        self._prepared: set[bytes] = set()
        #: The number of ends of transactions in the pipeline whose results were not read.
        self._syncs = 0
        self._reader = Transformer(self.plain)
        self._poll = select.poll()
        #: Called repeatedly while the server does not respond.
        self._on_silence = on_silence
        self._silence_s = address.max_hold_s / 6

    @property
    def alive(self) -> bool:
        return self._line.status == pq.ConnStatus.OK

    @property
    def idle(self) -> bool:
        """Whether the connection is alive and outside a transaction."""
        line = self._line
        return (line.status, line.transaction_status) == (
            pq.ConnStatus.OK,
            pq.TransactionStatus.IDLE,
        )

    def lost(self) -> bool:
        """Whether the server has closed the idle connection."""
        try:
            self._poll.register(self._line.socket, select.POLLIN)
            while self._poll.poll(0):
                self._line.consume_input()
        except psycopg.OperationalError:
            return True
        return not self.idle

    def close(self) -> None:
        self.plain.close()

    def run(self, queries: Iterable[Query]) -> list[QueryResult]:
        """Send statements and read their results in one round trip.

        The first statement that fails is raised; none behind it is executed. What is long goes
        out while the rest is made, and the server works on it meanwhile.
        """
        self._line.enter_pipeline_mode()
        sent: list[bytes] = []
        try:
            for query in queries:
                self._send(query, sent)
        finally:
            received = self._receive()
        return self._query_results(sent, received)

    def _query_results(
        self, sent: Sequence[bytes], received: Sequence[pq.abc.PGresult]
    ) -> list[QueryResult]:
        # Statements behind one that failed alone were executed, and were prepared before that.
        for name, each in zip(sent, received, strict=True):
            if name and each.status == WITHOUT_ROWS:
                self._prepared.add(name)
        results = []
        for name, each in zip(sent, received, strict=True):
            result = self._result(each)
            if not name:
                results.append(result)
        return results

    def _send(self, query: Query, sent: list[bytes]) -> None:
        """Send a statement, and prepare it first if needed; `sent` gets its name then."""
        text, values, name, *_ = query
        if not name or not self._may_prepare:
            self._line.send_query_params(text, values, None, None, BINARY)
        else:
            if name not in self._prepared and name not in sent:
                self._line.send_prepare(name, text)
                sent.append(name)
            self._line.send_query_prepared(name, values, None, BINARY)
        sent.append(b"")
        if query.alone:
            self._line.pipeline_sync()
            self._syncs += 1

    def _receive(self) -> list[pq.abc.PGresult]:
        """End the round trip and read all results."""
        line = self._line
        line.pipeline_sync()
        self._syncs += 1
        while line.flush():
            self._await(select.POLLIN | select.POLLOUT)
        results: list[pq.abc.PGresult] = []
        try:
            while self._syncs:
                while line.is_busy():
                    self._await(select.POLLIN)
                result = line.get_result()
                if result is None:
                    if not self.alive:
                        raise psycopg.OperationalError(line.get_error_message())
                elif result.status == END_OF_PIPELINE:
                    self._syncs -= 1
                else:
                    results.append(result)
        except psycopg.OperationalError:
            for result in results:
                self._result(result)  # the server may have sent the reason before it closed
            raise
        line.exit_pipeline_mode()
        return results

    def _await(self, events: int) -> None:
        """Wait for the server and read what it has sent."""
        self._poll.register(self._line.socket, events)
        deadline_s = time.monotonic() + RESPONSE_WITHIN_S
        while not self._poll.poll(1_000 * min(self._silence_s, RESPONSE_WITHIN_S)):
            if time.monotonic() >= deadline_s:
                self.close()
                raise psycopg.OperationalError(f"no response within {RESPONSE_WITHIN_S} s")
            self._on_silence()
        self._line.consume_input()

    def _result(self, result: pq.abc.PGresult) -> QueryResult:
        status = result.status
        if status == WITH_ROWS:
            self._reader.set_pgresult(result)
            return QueryResult(self._reader.load_rows(0, result.ntuples, tuple), "")
        if status == WITHOUT_ROWS:
            return QueryResult([], (result.command_status or b"").decode())
        field, message = result.error_field, result.get_error_message()
        raise Failed(
            message.strip(),
            (field(pq.DiagnosticField.SQLSTATE) or b"").decode(),
            (field(pq.DiagnosticField.CONSTRAINT_NAME) or b"").decode(),
            b".".join(
                field(each) or b""
                for each in (pq.DiagnosticField.TABLE_NAME, pq.DiagnosticField.COLUMN_NAME)
            ).decode(),
        )


class Pool:
    """A pool of open connections; it opens further ones up to a limit."""

    def __init__(self, address: Address, on_silence: Callable[[], None]) -> None:
        self._address = address
        self._on_silence = on_silence
        self._free: list[Connection] = []
        self._guard = Lock()
        self._places = BoundedSemaphore(MAX_CONNECTIONS)
        self._closed = False

    def take(self) -> Connection:
        """An idle connection, or a new one. An idle one may have been lost."""
        if not self._places.acquire(timeout=FREE_WITHIN_S):
            raise Unavailable(
                f"All {MAX_CONNECTIONS} connections to the database are in use.", retry_after_s=1
            )
        try:
            with self._guard:
                free = self._free.pop() if self._free else None
            return free or Connection(self._address, self._on_silence)
        except BaseException:
            self._places.release()
            raise

    def give_back(self, connection: Connection) -> None:
        """Return a connection; it is closed if it is in a transaction or was lost."""
        with self._guard:
            keep = connection.idle and not self._closed
            if keep:
                self._free.append(connection)
        if not keep:
            connection.close()
        self._places.release()

    def drop_free(self) -> None:
        """Close those that are free: when one is dead, all that were opened before it probably
        are.
        """
        with self._guard:
            dropped, self._free = self._free, []
        for connection in dropped:
            connection.close()

    def close(self) -> None:
        """Close the pool; a connection in use is closed when it is returned."""
        with self._guard:
            self._closed = True
        self.drop_free()
