"""Sets of plain jobs on SQLite: a few statements for many jobs.

The columns that a set changes follow from the decision of the kernel, so the statements are made
from them. Their texts repeat, and SQLite keeps them prepared.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, Protocol

from detent.kernel.entities import Job, Run
from detent.store import commit_body
from detent.store.codec import from_json
from detent.store.commit_body import ID, VALUE
from detent.store.job_sets import ClaimedRow, JobSet, Member, PlainRun
from detent.store.rows import CODED, columns
from detent.store.sqlite import leases
from detent.store.sqlite.commit_log import INSERT as INSERT_COMMITS
from detent.store.sqlite.commit_log import SQL, changed
from detent.store.sqlite.connection import Connection, array

PLAIN_RUNS, USED_IDS = SQL["plain_runs"].text, SQL["used_ids"].text
DELETE_JOBS = SQL["delete_jobs"].text
#: How many rows one statement writes: as many as possible of each size.
SIZES = (64, 16, 4, 1)
#: The fields of a run that are not columns of its job's row.
NOT_IN_ROWS = ("id", "job_id", "step")
RUN_COLUMNS = tuple(f"run_{name}" for name in Run._fields if name not in NOT_IN_ROWS)
ENDED_COLUMNS = (*columns(Job), *RUN_COLUMNS, "version", "payload", "commits")
RETURNED = ", ".join(ClaimedRow._fields)


class Transaction(Protocol):
    """The write transaction that the sets belong to."""

    appended: bool

    def saving(self) -> AbstractContextManager[None]: ...
    def head(self) -> int: ...
    def now(self) -> int: ...


class Column(NamedTuple):
    """A column and the SQL expression for its new value."""

    name: str
    expression: str


class SqliteJobSets:
    """Writes sets of jobs within a write transaction."""

    def __init__(self, connection: Connection, transaction: Transaction) -> None:
        self._connection = connection
        self._transaction = transaction

    def insert(self, jobs: JobSet, members: Sequence[Member]) -> None:
        with self._transaction.saving():
            if self._connection.all(USED_IDS, (array([each.id for each in members]),)):
                raise changed()
            for commit, some in self._append(jobs, members):
                assigned, values = _assigned(jobs, "given.column1")
                assigned += (
                    Column("payload", "given.column2"),
                    Column("commits", f"?{len(values) + 1}"),
                )
                self._many(_insert, assigned, [*values, f"{commit},"], some)

    def claim(self, jobs: JobSet, ids: Sequence[str], until: int) -> Sequence[ClaimedRow]:
        with self._transaction.saving():
            lease = leases.insert(self._connection, jobs.job["worker"], until, ids)
            members = [Member(each, "") for each in ids]
            found = []
            for commit, some in self._append(jobs, members):
                assigned, values = _assigned(jobs, "id")
                place = len(values)
                assigned += (
                    Column("lease_id", f"?{place + 1}"),
                    Column("commits", f"commits || ?{place + 2}"),
                )
                wanted = array([each.id for each in some])
                text = _update(assigned, place + 3)
                rows = self._connection.all(
                    text, (*values, lease, f"{commit},", wanted, jobs.before)
                )
                if len(rows) != len(some):
                    raise changed()
                found += rows
            return [ClaimedRow._make((*row[:-1], from_json(row[-1]))) for row in found]

    def running(self, ids: Sequence[str]) -> Sequence[PlainRun]:
        return [PlainRun._make(row) for row in self._connection.all(PLAIN_RUNS, (array(ids),))]

    def end(self, jobs: JobSet, members: Sequence[Member]) -> None:
        connection = self._connection
        with self._transaction.saving():
            before = connection.changed
            for commit, some in self._append(jobs, members):
                assigned, values = _assigned(jobs, "active_jobs.id")
                place = len(values) + 1
                assigned += (Column("commits", f"active_jobs.commits || ?{place}"),)
                self._many(_end, assigned, [*values, f"{commit},"], some)
            deleted = connection.all(DELETE_JOBS, (array([each.id for each in members]),))
            leases.lower(connection, deleted)
            if len(deleted) != len(members) or connection.changed - before < 2 * len(members):
                raise changed()

    def _append(
        self, jobs: JobSet, members: Sequence[Member]
    ) -> Iterator[tuple[int, Sequence[Member]]]:
        """Write the commits of a set; returns the id of each and its jobs."""
        position, begin = self._transaction.head() + 1, 0
        if VALUE in jobs.template:
            rows = [f'["{each[0]}",{each[1]}]' for each in members]
        else:
            rows = [f'["{each[0]}"]' for each in members]
        now = self._transaction.now()
        bodies = commit_body.encode_rows(jobs.template, jobs.version - jobs.before, rows)
        for text, events, count in bodies:
            self._connection.all(INSERT_COMMITS, (position, now, events, text))
            yield position, members[begin : begin + count]
            position += events
            begin += count
        self._transaction.appended = True

    def _many(
        self, statement: Any, assigned: tuple[Column, ...], values: list[Any], rows: Sequence[Any]
    ) -> None:
        """Execute a statement for all rows, with the same values for the others of its columns."""
        place = 0
        for size in SIZES:
            while len(rows) - place >= size:
                some = chain.from_iterable(rows[place : place + size])
                self._connection.all(statement(assigned, len(values), size), [*values, *some])
                place += size


def _assigned(jobs: JobSet, own_id: str) -> tuple[tuple[Column, ...], list[Any]]:
    """The columns that a set writes, and the values of their parameters."""
    found: list[Column] = []
    values: list[Any] = []
    given = [(name, value, CODED[Job].get(name)) for name, value in jobs.job.items()]
    given += [(f"run_{name}", jobs.run[name], None) for name in jobs.run if name not in NOT_IN_ROWS]
    for name, value, kind in [*given, ("version", jobs.version, None)]:
        if isinstance(value, str) and value.startswith(ID):
            suffix = value.removeprefix(ID)
            found.append(Column(name, f"{own_id} || '{suffix}'" if suffix else own_id))
        elif isinstance(value, str) and value == VALUE:
            found.append(Column(name, "given.column2"))
        else:
            values.append(value if kind is None else kind.write(value))
            found.append(Column(name, f"?{len(values)}"))
    return tuple(found), values


def _given(first: int, size: int) -> str:
    """The rows of a statement: pairs of parameters after the first ones."""
    pairs = (f"(?{first + 2 * each + 1}, ?{first + 2 * each + 2})" for each in range(size))
    return f"(VALUES {', '.join(pairs)}) AS given"


@lru_cache
def _insert(assigned: tuple[Column, ...], values: int, size: int) -> str:
    names = ", ".join(each.name for each in assigned)
    selected = ", ".join(each.expression for each in assigned)
    return f"INSERT INTO active_jobs ({names}) SELECT {selected} FROM {_given(values, size)}"


@lru_cache
def _update(assigned: tuple[Column, ...], parameter: int) -> str:
    changes = ", ".join(f"{name} = {expression}" for name, expression in assigned)
    return (
        f"UPDATE active_jobs SET {changes} WHERE id IN (SELECT value FROM carray(?{parameter}))"
        f" AND version = ?{parameter + 1} RETURNING {RETURNED}"
    )


@lru_cache
def _end(assigned: tuple[Column, ...], values: int, size: int) -> str:
    expressions = dict(assigned)
    names = ", ".join(ENDED_COLUMNS)
    selected = ", ".join(expressions.get(name, f"active_jobs.{name}") for name in ENDED_COLUMNS)
    return (
        f"INSERT INTO ended_jobs ({names}) SELECT {selected} FROM {_given(values, size)}"
        " CROSS JOIN active_jobs ON active_jobs.id = given.column1"
    )
