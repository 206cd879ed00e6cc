"""Sets of plain jobs and their tasks on SQLite: a few statements for many jobs.

The columns that a set changes follow from the decision of the kernel, so the statements are made
from them. Their texts repeat, and SQLite keeps them prepared.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, Protocol

import apsw

from detent.store import commit_body
from detent.store.codec import from_json
from detent.store.event_template import ID, SECOND, VALUE
from detent.store.job_sets import (
    At,
    ClaimedRow,
    ClaimedRows,
    JobSet,
    Member,
    NewCheckpoint,
    PlainRun,
    StartedRow,
    Taken,
    resolved,
)
from detent.store.rows import Kind
from detent.store.sqlite import leases
from detent.store.sqlite.commit_log import HEAD, SQL, changed
from detent.store.sqlite.commit_log import INSERT as INSERT_COMMITS
from detent.store.sqlite.connection import Connection, array
from detent.store.work_tables import JOBS, TASKS, Table, tables_of, versions_of, written_columns

PLAIN_RUNS, USED_IDS = SQL["plain_runs"].text, SQL["used_ids"].text
CHECKPOINTS, STEP_JOBS = SQL["checkpoints"].text, SQL["step_jobs"].text
DELETE_JOBS, DELETE_TASKS = SQL["delete_jobs"].text, SQL["delete_tasks"].text
#: How many rows one statement writes: as many as possible of each size.
SIZES = (64, 16, 4, 1)
#: By the number of rows: the statement for new checkpoints.
NEW_CHECKPOINTS = {
    size: "INSERT INTO checkpoints (job_id, name, kind, step, done, value) VALUES "
    + ", ".join(["(?, ?, ?, ?, ?, ?)"] * size)
    for size in SIZES
}
#: What a member has in a list of rows, by the mark that represents it.
GIVEN = {VALUE: "given.column2", SECOND: "given.column3"}


class Transaction(Protocol):
    """The write transaction that the sets belong to."""

    appended: bool

    def saving(self) -> AbstractContextManager[None]: ...
    def now(self) -> int: ...


class SqliteJobSets:
    """Writes sets of jobs within a write transaction."""

    remote = False

    def __init__(self, connection: Connection, transaction: Transaction) -> None:
        self._connection = connection
        self._transaction = transaction

    def insert(self, jobs: JobSet, members: Sequence[Member]) -> None:
        with self._transaction.saving():
            ids = [each.id for each in members]
            if jobs.task:
                ids += _job_ids(jobs, members)
            if self._connection.all(USED_IDS, (array(ids),)):
                raise changed()
            new_rows = NEW_ROWS.get(jobs.template) or _new_rows(jobs)
            for commit, some in self._append(jobs, members):
                for new in new_rows:
                    self._insert(new, commit, some)

    def claim(self, jobs: JobSet, ids: Sequence[str], lease_us: int) -> ClaimedRows:
        with self._transaction.saving():
            members = [Member(each, "") for each in ids]
            until = self._transaction.now() + lease_us
            leased = _job_ids(jobs, members)
            lease = leases.insert(self._connection, jobs.job["worker"], until, leased)
            claimed: list[Any] = []
            started: list[Any] = []
            for commit, some in self._append(jobs, members):
                for table, assigned in self._assigned(jobs, commit):
                    if table is JOBS:
                        assigned.add("lease_id", lease)
                        claimed += self._claim(table, assigned, _job_ids(jobs, some), ClaimedRow)
                    else:
                        own = [each.id for each in some]
                        started += self._claim(table, assigned, own, StartedRow)
            return claimed, started

    def running(self, ids: Sequence[str]) -> Sequence[PlainRun]:
        return [PlainRun._make(row) for row in self._connection.all(PLAIN_RUNS, (array(ids),))]

    def take(self, *_: Any) -> Taken | None:
        """Nothing: a read costs little here."""
        return None

    def end(self, jobs: JobSet, members: Sequence[Member], nonces: Sequence[str]) -> None:  # noqa: ARG002
        connection = self._connection
        with self._transaction.saving():
            for commit, some in self._append(jobs, members):
                for table, assigned in self._assigned(jobs, commit):
                    if table is TASKS and not jobs.task_ends:
                        self._update(table, assigned, [each.id for each in some], ("id",))
                        continue
                    before = connection.changed
                    self._many(_end, table, assigned, some)
                    if connection.changed - before < len(some):
                        raise changed()
            leases.lower(connection, connection.all(DELETE_JOBS, (array(_job_ids(jobs, members)),)))
            if jobs.task_ends:
                connection.all(DELETE_TASKS, (array([each.id for each in members]),))

    def recorded(self, keys: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        return {(row[0], row[1]) for row in self._connection.many(CHECKPOINTS, keys)}

    def record(self, checkpoints: Sequence[NewCheckpoint], nonces: Sequence[str]) -> None:
        expected = {
            (row[0], before + 1, nonce)
            for (row, before, _), nonce in zip(checkpoints, nonces, strict=True)
        }
        found: list[Any] = []
        begin = 0
        with self._transaction.saving():
            for text, count in commit_body.encode_groups([each[2] for each in checkpoints]):
                rows = [each[0] for each in checkpoints[begin : begin + count]]
                begin += count
                commit = self._append_body(text, count)
                values = (f"{commit},", array([row[0] for row in rows]))
                found += self._connection.all(STEP_JOBS, values)
                self._insert_checkpoints(rows)
            if len(found) != len(checkpoints) or expected != set(found):
                raise changed()

    def _insert_checkpoints(self, rows: Sequence[Sequence[Any]]) -> None:
        place = 0
        try:
            for size in SIZES:
                while len(rows) - place >= size:
                    some = chain.from_iterable(rows[place : place + size])
                    self._connection.all(NEW_CHECKPOINTS[size], list(some))
                    place += size
        except apsw.ConstraintError:  # the name of one was used before
            raise changed() from None

    def _append_body(self, text: str, events: int) -> int:
        """Write a commit; returns its id."""
        position: int = self._connection.all(HEAD)[0][0] + 1
        values = (position, self._transaction.now(), events, *commit_body.compressed(text))
        self._connection.all(INSERT_COMMITS, values)
        self._transaction.appended = True
        return position

    def _append(
        self, jobs: JobSet, members: Sequence[Member]
    ) -> Iterator[tuple[int, Sequence[Member]]]:
        """Write the commits of a set; returns the id of each and its members."""
        position, begin = self._connection.all(HEAD)[0][0] + 1, 0
        now = self._transaction.now()
        bodies = commit_body.encode_rows(
            jobs.template, jobs.events, commit_body.row_texts(jobs.template, members)
        )
        for text, events, count in bodies:
            stored = commit_body.compressed(text)
            self._connection.all(INSERT_COMMITS, (position, now, events, *stored))
            yield position, members[begin : begin + count]
            position += events
            begin += count
        self._transaction.appended = True

    def _insert(self, new: "NewRow", commit: int, members: Sequence[Member]) -> None:
        """Insert a row for each member, with the time of the set and the id of its commit."""
        values, place, now = new.values.copy(), 0, self._transaction.now()
        for index, offset in new.times:
            values[index] = now + offset
        values[-1] = f"{commit},"
        for size in SIZES:
            while len(members) - place >= size:
                some = chain.from_iterable(members[place : place + size])
                self._connection.all(new.texts[size], [*values, *some])
                place += size

    def _assigned(self, jobs: JobSet, commit: int) -> Iterator[tuple[Table, "Assigned"]]:
        """What is written in each table of active work."""
        now = self._transaction.now()
        task, job, run = (resolved(each, now) for each in jobs[:3])
        return _assigned(jobs._replace(task=task, job=job, run=run), commit)

    def _update(
        self, table: Table, assigned: "Assigned", ids: Sequence[str], returned: tuple[str, ...]
    ) -> Sequence[Any]:
        """Change rows by id; returns these columns of them."""
        text = _updated(table.active, assigned.key, len(assigned.values), returned)
        rows = self._connection.all(text, (*assigned.values, array(ids), assigned.before))
        if len(rows) != len(ids):
            raise changed()
        return rows

    def _claim(
        self, table: Table, assigned: "Assigned", ids: Sequence[str], row: type[Any]
    ) -> list[Any]:
        """Change rows by id; returns them, with the payload decoded."""
        rows = self._update(table, assigned, ids, row._fields)
        return [row._make((*each[:-1], from_json(each[-1]))) for each in rows]

    def _many(
        self, statement: Any, table: Table, assigned: "Assigned", members: Sequence[Member]
    ) -> None:
        """Execute a statement for all members, with the same values for the other columns."""
        place, values = 0, assigned.values
        for size in SIZES:
            while len(members) - place >= size:
                some = chain.from_iterable(members[place : place + size])
                text = statement(table is JOBS, assigned.key, len(values), size, assigned.suffix)
                self._connection.all(text, [*values, *some])
                place += size


def _job_ids(jobs: JobSet, members: Sequence[Member]) -> list[str]:
    return [each[0] + jobs.suffix for each in members]


# ---- statements --------------------------------------------------------------------------------


#: Names of columns with the expressions for their new values.
Columns = tuple[tuple[str, str], ...]


class Assigned:
    """The columns that a set writes in one table, as SQL expressions with their values."""

    def __init__(
        self, coded: Mapping[str, Kind], own_id: str, versions: tuple[int, int], suffix: str
    ) -> None:
        self._coded = coded
        self._own_id = own_id
        self._columns: list[tuple[str, str]] = []
        self.values: list[Any] = []
        self.before = versions[0]
        #: What the id of a row has after that of the member.
        self.suffix = suffix

    def add(self, name: str, value: Any) -> None:
        if isinstance(value, str) and value.startswith(ID):
            suffix = value.removeprefix(ID)
            own = f"{self._own_id} || '{suffix}'" if suffix else self._own_id
            self._columns.append((name, own))
        elif isinstance(value, str) and value in GIVEN:
            self._columns.append((name, GIVEN[value]))
        else:
            kind = self._coded.get(name)
            self.values.append(value if kind is None else kind.write(value))
            self._columns.append((name, f"?{len(self.values)}"))

    def append(self, name: str, value: str, before: str) -> None:
        """Put a text at the end of what a column has."""
        self.values.append(value)
        self._columns.append((name, f"{before}?{len(self.values)}"))

    @property
    def key(self) -> Columns:
        return tuple(self._columns)


def _assigned(jobs: JobSet, commit: int, new_id: str = "") -> Iterator[tuple[Table, Assigned]]:
    """What is written in each table; `new_id` is the id of the member if its rows are new."""
    for table in tables_of(jobs):
        own_id = new_id or f"{table.active}.{table.member}"
        suffix = jobs.suffix if table is JOBS else ""
        assigned = Assigned(table.coded, own_id, versions_of(jobs, table), suffix)
        for name, value in written_columns(jobs, table):
            assigned.add(name, value)
        assigned.append("commits", f"{commit},", "" if new_id else f"{table.active}.commits || ")
        yield table, assigned


def _given(first: int, size: int) -> str:
    """A list of the members: three parameters for each, after the first ones."""
    places = range(first + 1, first + 3 * size, 3)
    rows = (f"(?{each}, ?{each + 1}, ?{each + 2})" for each in places)
    return f"(VALUES {', '.join(rows)}) AS given"


class NewRow(NamedTuple):
    """The statements that insert rows of one table, by their number."""

    texts: Mapping[int, str]
    #: The values that are equal for all rows of a set; the id of the commit is the last one.
    values: list[Any]
    #: The places of those values that are times, with their offsets.
    times: Sequence[tuple[int, int]]


#: By the template of the events, which determine the rows: the new rows of each table.
NEW_ROWS: dict[str, Sequence[NewRow]] = {}
MAX_TEMPLATES = 1_000


def _new_rows(jobs: JobSet) -> Sequence[NewRow]:
    """Make the statements for new rows, and keep them."""
    new = []
    for table, assigned in _assigned(jobs, 0, "given.column1"):
        names = ", ".join(name for name, _ in assigned.key)
        selected = ", ".join(expression for _, expression in assigned.key)
        insert = f"INSERT INTO {table.active} ({names}) SELECT {selected} FROM "
        texts = {size: insert + _given(len(assigned.values), size) for size in SIZES}
        values = assigned.values
        times = [(at, each.offset) for at, each in enumerate(values) if isinstance(each, At)]
        new.append(NewRow(texts, values, times))
    if len(NEW_ROWS) >= MAX_TEMPLATES:
        NEW_ROWS.clear()
    NEW_ROWS[jobs.template] = new
    return new


@lru_cache
def _updated(table: str, assigned: Columns, values: int, returned: tuple[str, ...]) -> str:
    changes = ", ".join(f"{name} = {expression}" for name, expression in assigned)
    return (
        f"UPDATE {table} SET {changes} WHERE id IN (SELECT value FROM carray(?{values + 1}))"
        f" AND version = ?{values + 2} RETURNING {', '.join(returned)}"
    )


@lru_cache
def _end(of_jobs: bool, assigned: Columns, values: int, size: int, suffix: str) -> str:
    table = JOBS if of_jobs else TASKS
    expressions, active = dict(assigned), table.active
    names = ", ".join(table.columns)
    selected = ", ".join(expressions.get(name, f"{active}.{name}") for name in table.columns)
    own_id = f"given.column1 || '{suffix}'" if suffix else "given.column1"
    return (
        f"INSERT INTO {table.ended} ({names}) SELECT {selected}"
        f" FROM {_given(values, size)} CROSS JOIN {active} ON {active}.id = {own_id}"
    )
