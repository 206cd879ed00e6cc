"""Sets of plain jobs and their tasks on PostgreSQL: a fixed number of statements for many jobs.

The columns that a set changes follow from the decision of the kernel, so the statements are made
from them. The rows of the commit's body are a parameter, and the values of the rows of the tables
are read from it. A statement that finds another row than it was given sets a column to NULL that
must not be NULL: the server refuses it, and the engine decides about each job.
"""

import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any, Protocol

from detent.errors import Refused
from detent.store import commit_body
from detent.store.clock import Bound
from detent.store.codec import encode, from_json, to_json
from detent.store.event_template import ID, SECOND, VALUE
from detent.store.job_sets import (
    MAX_CLAIMED,
    At,
    ClaimedRow,
    ClaimedRows,
    JobSet,
    Member,
    NewCheckpoint,
    PlainRun,
    Shape,
    StartedRow,
    Taken,
)
from detent.store.postgres.claims import LaneFilter, Lanes
from detent.store.postgres.connection import Query, Rows, named
from detent.store.postgres.locks import Lock, share_names
from detent.store.postgres.reader import READY
from detent.store.types import ClaimFilter
from detent.store.work_tables import JOBS, TASKS, Table, tables_of, versions_of, written_columns

#: What a member has in its row of the body, by the mark that represents it.
GIVEN = {VALUE: "(own -> 1)::text", SECOND: "(own -> 2) #>> '{}'"}
#: The time of the transaction, and the id of a new commit. The transaction has an id before.
NOW = "current_setting('detent.now')::bigint"
NEW_COMMIT = "CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('commit_ids') END"
#: The parameters that all statements with rows begin with.
ROWS = "json_array_elements_text($1::json), json_array_elements($2::json)"
LOGGED = (
    "logged AS (INSERT INTO commits (id, at, events, body) SELECT mark.id, mark.at, $3::integer,"
    " '[[' || $4::text || ',' || $2::text || ']]' FROM mark)"
)


class Writer(Protocol):
    """The write transaction that the sets belong to."""

    appended: bool
    #: What is known of the time before the transaction begins.
    bound: Callable[[], Bound]

    def set_time(self) -> Iterable[Query]:
        """The statement that sets the time for the statements of sets, once."""

    def save_later(self, queries: Iterable[Query], *, arrived: bool) -> None:
        """Send these with the commit; `arrived`: they bring new work."""

    def ask(self, *queries: Query) -> list[Rows]:
        """Send these now."""

    def finish(self, first: Iterable[Query], last: Sequence[Query]) -> list[Rows]:
        """Send these before and after what was saved, and commit; returns the rows of the last."""


class PostgresJobSets:
    """Writes sets of jobs within a write transaction."""

    remote = True

    def __init__(self, writer: Writer, lanes: Lanes) -> None:
        self._writer = writer
        self._lanes = lanes

    def insert(self, jobs: JobSet, members: Sequence[Member]) -> None:
        """Write new rows in the order of ids, so that two writers of the same do not deadlock."""
        insert, values, arrival = INSERTS.get(jobs.template) or _insert(jobs)
        queries = [
            insert._replace(values=[*given, *values]) for given, _ in _bodies(jobs, sorted(members))
        ]
        self._save([*self._writer.set_time(), *queries, arrival], arrived=True)

    def running(self, ids: Sequence[str]) -> Sequence[PlainRun]:
        (rows,) = self._writer.ask(READY["plain_runs"](ids=to_json(ids)))
        return [PlainRun._make(row) for row in rows]

    def recorded(self, keys: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        wanted = [{"job_id": job_id, "name": name} for job_id, name in keys]
        (rows,) = self._writer.ask(READY["checkpoints"](keys=to_json(wanted)))
        return {(row[0], row[1]) for row in rows}

    def record(self, checkpoints: Sequence[NewCheckpoint], nonces: Sequence[str]) -> None:
        """Lock the jobs in the order of ids."""
        rows = [
            (*each.row, each.before, nonce) for each, nonce in zip(checkpoints, nonces, strict=True)
        ]
        queries, begin = [READY["lock_stepping"](ids=to_json([row[0] for row in rows]))], 0
        for text, count in commit_body.encode_groups([each.text for each in checkpoints]):
            own = to_json(rows[begin : begin + count])
            begin += count
            queries.append(READY["record_steps"](rows=own, events=count, body=text))
        self._save([*self._writer.set_time(), *queries])

    def end(self, jobs: JobSet, members: Sequence[Member], nonces: Sequence[str]) -> None:
        """Lock the rows in the order of ids: first those of the tasks, which are the roots."""
        end, values = _end(jobs)
        nonce_of = {each[0]: nonce for each, nonce in zip(members, nonces, strict=True)}
        members = sorted(members)
        queries: list[Query] = []
        if jobs.task:
            queries.append(READY["lock_plain_tasks"](ids=to_json([each[0] for each in members])))
        for given, some in _bodies(jobs, members):
            own = to_json([nonce_of[each[0]] for each in some]).encode()
            queries += [end._replace(values=[*given, own, *values]), READY["release_ended"]()]
        self._save([*self._writer.set_time(), *queries])

    def claim(self, jobs: JobSet, ids: Sequence[str], lease_us: int) -> ClaimedRows:
        claimed: list[ClaimedRow] = []
        started: list[StartedRow] = []
        for begin in range(0, len(ids), MAX_CLAIMED):
            some = [each + jobs.suffix for each in ids[begin : begin + MAX_CLAIMED]]
            first = [*self._writer.set_time(), READY["set_chosen"](ids=to_json(some))]
            rows = self._writer.ask(*first, *_claim(jobs, lease_us))
            found, tasks = _claimed(jobs, rows[len(first) :])
            if len(found) != len(some) or (jobs.task and len(tasks) != len(some)):
                raise Refused("another process has claimed one of them", code="version_conflict")
            claimed += found
            started += tasks
        self._writer.appended = True
        return claimed, started

    def take(
        self, wanted: Mapping[Shape, JobSet], claim_filter: ClaimFilter, most: int, lease: int
    ) -> Taken | None:
        """Learn about the lanes, choose, claim and commit in one round trip.

        The lock of the limits is the first one of the transaction. The commit id is allocated after
        the jobs are locked: their streams may have been written until then.
        """
        lane_filter = LaneFilter.of(claim_filter)
        with self._lanes.turn:
            known = self._lanes.known(lane_filter, self._writer.bound().now)
            if known is None or most > MAX_CLAIMED:
                return None
            lanes = self._lanes.wanted(known, lane_filter, claim_filter.shares)
            choose = READY["choose_plain"](**lanes, limit=most, sets=to_json(_texts(wanted)))
            learn = self._lanes.queries(known)
            claims = [_claim(jobs, lease) for jobs in wanted.values()]
            for place, queries in enumerate(claims, 1):
                queries.insert(0, READY["choose_set"](place=str(place)))
            rows = self._writer.finish(
                [share_names(Lock.NAMED, ["limits"]), *self._writer.set_time()],
                [*learn, READY["read_now"](), choose, *chain.from_iterable(claims)],
            )
            self._lanes.learned(known, rows[: len(learn)])
        ((now,),), ((_, refused),), *written = rows[len(learn) :]
        found = []
        for jobs, queries in zip(wanted.values(), claims, strict=True):
            found.append(_claimed(jobs, written[1 : len(queries)]))
            del written[: len(queries)]
        self._writer.appended |= any(rows for rows, _ in found)
        return None if refused else Taken(found, now)

    def _save(self, queries: Sequence[Query], *, arrived: bool = False) -> None:
        self._writer.save_later(queries, arrived=arrived)
        self._writer.appended = True


def _texts(shapes: Iterable[Shape]) -> list[str]:
    """What `choose_plain` compares jobs with."""
    return [f"{project}\x1f{plain}" for project, plain in shapes]


def _bodies(
    jobs: JobSet, members: Sequence[Member]
) -> Iterator[tuple[list[bytes], Sequence[Member]]]:
    """The first parameters of a statement for each body, with the members in it."""
    rows, template, begin = commit_body.row_texts(jobs.template, members), jobs.template.encode(), 0
    for count in commit_body.divided(rows):
        some = members[begin : begin + count]
        own = f"[{','.join(rows[begin : begin + count])}]"
        ids = encode([each[0] for each in some])
        yield [ids, own.encode(), b"%d" % (jobs.events * count), template], some
        begin += count


def _claim(jobs: JobSet, lease_us: int) -> list[Query]:
    """The statements that claim the chosen jobs. The first two rows are those of `_claimed`."""
    lease = secrets.randbits(62)
    worker = jobs.job["worker"]
    events = {"events": jobs.events, "template": jobs.template, "suffix": jobs.suffix}
    job, values = _update(jobs, JOBS)
    queries = [READY["allocate_chosen"](), job._replace(values=[*values, b"%d" % lease])]
    if jobs.task:
        task, values = _update(jobs, TASKS)
        queries.append(task._replace(values=values))
    leased = READY["lease_chosen"](id=lease, worker=worker, lease_us=lease_us)
    return [*queries, leased, READY["log_chosen"](**events)]


def _claimed(jobs: JobSet, rows: Sequence[Rows]) -> tuple[list[ClaimedRow], list[StartedRow]]:
    """What `_claim` has returned, by rank and with decoded payloads."""
    found = [ClaimedRow._make((*each[:-1], from_json(each[-1]))) for each in rows[1]]
    found.sort(key=lambda each: (each.rank, each.root_id))
    if not jobs.task:
        return found, []
    return found, [StartedRow._make((*each[:-1], from_json(each[-1]))) for each in rows[2]]


# ---- statements --------------------------------------------------------------------------------


#: Names of columns with the expressions for their new values.
Columns = tuple[tuple[str, str], ...]


class Assigned:
    """The columns that a set writes in one table, as SQL expressions with their values."""

    def __init__(self, table: Table, own_id: str, at: str, values: list[bytes], first: int) -> None:
        self._table, self._own_id, self._at = table, own_id, at
        #: The values of the parameters after the first ones.
        self._values, self._first = values, first
        self._columns: list[tuple[str, str]] = []

    def add(self, name: str, value: Any) -> None:
        self._columns.append((name, self._expression(name, value)))

    def put(self, name: str, expression: str) -> None:
        self._columns.append((name, expression))

    def _expression(self, name: str, value: Any) -> str:
        if isinstance(value, At):
            return f"{self._at} + {value.offset}"
        if isinstance(value, str) and value.startswith(ID):
            suffix = value.removeprefix(ID)
            return f"{self._own_id} || '{suffix}'" if suffix else self._own_id
        if isinstance(value, str) and value in GIVEN:
            return GIVEN[value]
        kind = self._table.coded.get(name)
        written = value if kind is None else kind.write(value)
        if written is None or isinstance(written, bool):
            return {None: "NULL", True: "TRUE", False: "FALSE"}[written]
        self._values.append(str(written).encode())
        kind_of = {int: "bigint", float: "double precision"}.get(type(written), "text")
        return f"${self._first + len(self._values)}::{kind_of}"

    @property
    def key(self) -> Columns:
        return tuple(self._columns)


def _assigned(
    jobs: JobSet, table: Table, own_id: str, at: str, values: list[bytes], first: int
) -> Assigned:
    """What is written in one table, without its commits."""
    assigned = Assigned(table, own_id, at, values, first)
    for name, value in written_columns(jobs, table):
        assigned.add(name, value)
    return assigned


#: By the template of the events, which determine the rows: what `_insert` returned.
INSERTS: dict[str, tuple[Query, list[bytes], Query]] = {}
MAX_TEMPLATES = 1_000


def _insert(jobs: JobSet) -> tuple[Query, list[bytes], Query]:
    """Make and keep the statement for new rows, the values of its further parameters, and the
    statement for the lane that gets the jobs.

    `project` is NULL if there is such an ended row, and `version` if its stream is deleted.
    """
    values: list[bytes] = []
    keys: list[Columns] = []
    for table in reversed(tables_of(jobs)):
        assigned = _assigned(jobs, table, "given.id", "mark.at", values, 4)
        assigned.put("commits", "mark.id::text")
        keys.append(assigned.key)
    job = jobs.job
    lane = {"lane": job["lane"], "project": job["project"], "key": job["concurrency_key"] or ""}
    arrival = READY["plain_arrival"](**lane, offset=job["rank"].offset)
    if len(INSERTS) >= MAX_TEMPLATES:
        INSERTS.clear()
    made = INSERTS[jobs.template] = (_insert_text(jobs.suffix, *keys), values, arrival)
    return made


def _end(jobs: JobSet) -> tuple[Query, list[bytes]]:
    """The statement for ends, and the values of its further parameters."""
    values: list[bytes] = []
    keys: list[Columns] = []
    for table in reversed(tables_of(jobs)):
        row = "was" if table is JOBS or jobs.task_ends else table.active
        assigned = _assigned(jobs, table, f"{row}.{table.member}", "mark.at", values, 5)
        assigned.put("commits", f"{row}.commits || ',' || mark.id")
        keys.append(assigned.key)
    versions = (jobs.task_versions[0], jobs.job_versions[0])
    return _end_text(versions, jobs.suffix, jobs.task_ends, *keys), values


def _update(jobs: JobSet, table: Table) -> tuple[Query, list[bytes]]:
    """The statement for the claim of the chosen jobs, or for the start of their tasks."""
    values: list[bytes] = []
    assigned = _assigned(jobs, table, f"{table.active}.{table.member}", NOW, values, 0)
    assigned.put("commits", f"{table.active}.commits || ',' || current_setting('detent.commit')")
    before = versions_of(jobs, table)[0]
    if table is JOBS:
        assigned.put("lease_id", f"${len(values) + 1}::bigint")
    return _update_text(table is JOBS, assigned.key, before, jobs.suffix), values


@lru_cache
def _insert_text(suffix: str, jobs: Columns, tasks: Columns = ()) -> Query:
    parts = [
        f"WITH mark AS MATERIALIZED (SELECT {NEW_COMMIT} AS id, {NOW} AS at)",
        f"given AS MATERIALIZED (SELECT * FROM ROWS FROM ({ROWS}) AS given (id, own))",
        LOGGED,
    ]
    if tasks:
        parts.append(f"tasks AS ({_insert_into(TASKS, tasks, 'given.id')})")
    own_id = f"given.id || '{suffix}'" if suffix else "given.id"
    return named(f"{', '.join(parts)} {_insert_into(JOBS, jobs, own_id)}")


def _insert_into(table: Table, assigned: Columns, own_id: str) -> str:
    expressions = dict(assigned)
    expressions["project"] = f"CASE WHEN there.id IS NULL THEN {expressions['project']} END"
    expressions["version"] = f"CASE WHEN gone.stream IS NULL THEN {expressions['version']} END"
    return (
        f"INSERT INTO {table.active} ({', '.join(expressions)})"
        f" SELECT {', '.join(expressions.values())} FROM mark CROSS JOIN given"
        f" LEFT JOIN LATERAL (SELECT id FROM {table.ended} WHERE {table.ended}.id = {own_id}"
        " OFFSET 0) AS there ON true"
        " LEFT JOIN LATERAL (SELECT stream FROM tombstones"
        f" WHERE tombstones.stream = {own_id} OFFSET 0) AS gone ON true"
    )


@lru_cache
def _end_text(
    versions: tuple[int, int], suffix: str, task_ends: bool, jobs: Columns, tasks: Columns = ()
) -> Query:
    """Delete the active rows in the order of ids, which locks them; then allocate the commit id.

    The deleted rows and the members are both in the order of ids, so that they are put side by
    side. If a row is not there or of another claim, the rank of an ended one is NULL.
    """
    own_id = f"id || '{suffix}'" if suffix else "id"
    held = f"was.id = was.wanted || '{suffix}' AND was.nonce = was.of_claim"
    if tasks:
        held += " AND (SELECT count(id) = count(*) FROM own_tasks)"
    rank = f"CASE WHEN {held} THEN was.rank END"
    parts = [
        "WITH gone AS (DELETE FROM active_jobs WHERE id = ANY ("
        f"ARRAY(SELECT {own_id} FROM json_array_elements_text($1::json) AS wanted (id)))"
        f" AND version = {versions[1]} AND fence = 1 AND run_state = 'running'"
        " AND lease_id IS NOT NULL RETURNING active_jobs.*)",
        f"held AS MATERIALIZED (SELECT * FROM ROWS FROM ({ROWS},"
        " json_array_elements_text($5::json),"
        " unnest(ARRAY(SELECT gone::active_jobs FROM gone ORDER BY gone.id)))"
        " AS given (wanted, own, of_claim))",
        f"mark AS MATERIALIZED (SELECT {NEW_COMMIT} AS id, {NOW} AS at"
        " FROM (SELECT count(*) FROM held) AS locked)",
        *(_own_tasks(versions[0], task_ends, tasks) if tasks else ()),
        f"ended AS ({_insert_ended(JOBS, (*jobs, ('rank', rank)))}"
        " FROM mark CROSS JOIN held AS was)",
        LOGGED,
    ]
    released = (
        "SELECT set_config('detent.released', coalesce((SELECT json_agg(released)::text FROM"
        " (SELECT lease_id, count(*) AS jobs FROM held GROUP BY lease_id ORDER BY lease_id)"
        " AS released), '[]'), true)"
    )
    return named(f"{', '.join(parts)} {released}")


def _own_tasks(version: int, ends: bool, assigned: Columns) -> Iterator[str]:
    """Find the tasks of ended jobs: rows of NULL for those that differ. Then end or change them."""
    yield (
        f"own_tasks AS MATERIALIZED (SELECT wanted.own, was.* FROM ROWS FROM ({ROWS})"
        " AS wanted (id, own) LEFT JOIN LATERAL ("
        "SELECT * FROM active_tasks WHERE active_tasks.id = wanted.id"
        f" AND active_tasks.version = {version} AND NOT EXISTS (SELECT FROM dependencies"
        " WHERE dependencies.depends_on = active_tasks.id) OFFSET 0) AS was ON true)"
    )
    found = "active_tasks.id = ANY (ARRAY(SELECT id FROM own_tasks))"
    if ends:
        yield f"gone_tasks AS (DELETE FROM active_tasks WHERE {found})"
        insert = _insert_ended(TASKS, assigned)
        yield f"ended_with AS ({insert} FROM mark CROSS JOIN own_tasks AS was)"
    else:
        changes = ", ".join(f"{name} = {expression}" for name, expression in assigned)
        yield f"changed_tasks AS (UPDATE active_tasks SET {changes} FROM mark WHERE {found})"


def _insert_ended(table: Table, assigned: Columns) -> str:
    expressions = dict(assigned)
    selected = ", ".join(expressions.get(name, f"was.{name}") for name in table.columns)
    return f"INSERT INTO {table.ended} ({', '.join(table.columns)}) SELECT {selected}"


@lru_cache
def _update_text(of_jobs: bool, assigned: Columns, before: int, suffix: str) -> Query:
    table, row = (JOBS, ClaimedRow) if of_jobs else (TASKS, StartedRow)
    ids = "current_setting('detent.chosen')::text[]"
    if not of_jobs:
        ids = f"ARRAY(SELECT left(id, -{len(suffix)}) FROM unnest({ids}) AS chosen (id))"
    changes = ", ".join(f"{name} = {expression}" for name, expression in assigned)
    return named(
        f"UPDATE {table.active} SET {changes} WHERE id = ANY ({ids}) AND version = {before}"
        f" RETURNING {', '.join(row._fields)}"
    )
