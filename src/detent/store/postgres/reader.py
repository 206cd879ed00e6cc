"""The read transaction on PostgreSQL: each read is one statement for a set of ids."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan
from detent.kernel.task_lifecycle import TaskLifecycles
from detent.store import commit_body, list_sql
from detent.store.clock import Moment
from detent.store.codec import from_json
from detent.store.logged_commit import LoggedCommit
from detent.store.postgres.connection import Query, Rows, numbered, ready
from detent.store.postgres.transaction import Transaction
from detent.store.read_caches import ReadCaches
from detent.store.rows import ANY_SIZE, END_OF_LOG, read_plan, reader, resource_from
from detent.store.statements import for_tables, load, statement
from detent.store.table_names import LAST, TABLES
from detent.store.types import (
    ChainBlock,
    Delivery,
    IdempotencyKey,
    Intake,
    LoggedEvent,
    RefusedIntake,
)
from detent.store.types import Query as ListQuery

SQL = load("detent.store.sql", "detent.store.postgres.sql")
#: By name of a statement: the function that makes a query of it.
READY = {name: ready(each) for name, each in SQL.items()}
NAMED = {table: ready(each)() for table, each in for_tables(SQL["named_rows"], TABLES).items()}
NAMES = {table: ready(each)() for table, each in for_tables(SQL["row_names"], TABLES).items()}
NAMED_UNDER = {
    table: ready(each) for table, each in for_tables(SQL["named_rows_under"], TABLES).items()
}

#: Assigns positions, in a transaction of its own.
SEQUENCE = READY["sequence_commits"]()._replace(alone=True)


def named_rows(table: str, prefix: str = "") -> Query:
    """A query for the rows of a table whose names begin with a prefix; all rows if it is empty."""
    if not prefix:
        return NAMED[table]
    return NAMED_UNDER[table](first=prefix, upto=f"{prefix}{LAST}")


read_task = reader(Task, SQL["tasks"].columns)
read_job = reader(Job, SQL["jobs"].columns)
read_run = reader(Run, SQL["live_runs"].columns)
read_step = reader(Step, SQL["steps"].columns)
read_wait = reader(Wait, SQL["waits"].columns)
read_signal = reader(Signal, SQL["signals"].columns)
read_checkpoint = reader(Checkpoint, SQL["checkpoints"].columns)

#: The condition in PostgreSQL that a JSON list contains a value.
TAG_IN_LIST = (
    "EXISTS (SELECT FROM json_array_elements_text({column}::json) AS tag WHERE tag = :{value})"
)

#: The maximum limit that is sent to the server.
MAX_LIMIT = 1 << 40

#: The store's time, from what a transaction read when it began: the server's clock, the row of the
#: store's own, and the last commit.
Clock = Callable[[int, str | None, int | None, int | None], Moment]

to_bytes = msgspec.json.Encoder().encode


@dataclass(eq=False)
class PostgresReader:
    """Reads in one transaction: a read transaction sees one snapshot, a write transaction sees the
    rows that its locks protect.
    """

    _transaction: Transaction
    _clock: Clock
    _caches: ReadCaches = field(default_factory=ReadCaches)
    #: Whether positions were assigned when the transaction began, or cannot be any more.
    sequenced: bool = False
    _known: Moment | None = field(default=None, init=False)

    def lifecycles(self) -> TaskLifecycles:
        return self._caches.lifecycles.seen_by(self)

    def now(self) -> int:
        return self._moment().now

    def ahead(self) -> int:
        return self._moment().ahead

    def _moment(self) -> Moment:
        if self._known is None:
            if not self._transaction.started:
                self._transaction.run()
            self._known = self._clock(*self._transaction.started[-4:])
        return self._known

    def _ask(self, query: Query) -> Rows:
        return self._transaction.rows(query)

    def _by_ids(self, name: str, ids: Collection[str]) -> Rows:
        return self._ask(READY[name](ids=to_bytes(list(ids))))

    # -- tasks and jobs --------------------------------------------------------------------

    def tasks(self, ids: Collection[str]) -> list[tuple[Task, int]]:
        return [(read_task(row), row[-2]) for row in self._located("tasks", ids)]

    def jobs(self, ids: Collection[str]) -> list[tuple[Job, int]]:
        return [(read_job(row), row[-2]) for row in self._located("jobs", ids)]

    def _located(self, name: str, ids: Collection[str]) -> Rows:
        """Rows of tasks or jobs; the last column says whether they are those of ended work."""
        return self._by_ids(name, ids)

    def payloads(self, job_ids: Collection[str]) -> Mapping[str, Any]:
        rows = self._by_ids("payloads", job_ids)
        return {job_id: None if text == "null" else from_json(text) for job_id, text in rows}

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        rows = self._by_ids("dependents", task_ids)
        return [(task_id, dependent) for task_id, dependent, _ in rows]

    def children(self, task_ids: Collection[str]) -> Iterable[tuple[Any, ...]]:
        return self._by_ids("children", task_ids)

    def child_jobs(self, job_ids: Collection[str]) -> Iterable[tuple[Any, ...]]:
        return self._by_ids("child_jobs", job_ids)

    # -- parts of jobs ---------------------------------------------------------------------

    def live_runs(self, job_ids: Collection[str]) -> list[Run]:
        return [read_run(row) for row in self._by_ids("live_runs", job_ids)]

    def runs(self, ids: Collection[str]) -> list[Run]:
        return [read_run(row) for row in self._by_ids("runs", ids)]

    def used_blobs(self, digests: Collection[str]) -> set[str]:
        return {digest for (digest,) in self._by_ids("used_blobs", digests)}

    def stored_bytes(self, project: str) -> int:
        ((size,),) = self._ask(READY["stored_bytes"](project=project))
        return int(size)

    def steps(self, job_ids: Collection[str]) -> list[Step]:
        return [read_step(row) for row in self._by_ids("steps", job_ids)]

    def plans(self, job_ids: Collection[str]) -> Mapping[str, Plan]:
        rows = self._by_ids("plans", job_ids)
        return {job_id: read_plan(document) for job_id, document in rows}

    def waits(self, job_ids: Collection[str]) -> list[Wait]:
        return [read_wait(row) for row in self._by_ids("waits", job_ids)]

    def signals(self, job_ids: Collection[str]) -> list[Signal]:
        return [read_signal(row) for row in self._by_ids("signals", job_ids)]

    def checkpoints(self, keys: Collection[tuple[str, str]]) -> list[Checkpoint]:
        wanted = [{"job_id": job_id, "name": name} for job_id, name in keys]
        rows = self._ask(READY["checkpoints"](keys=to_bytes(wanted)))
        return [read_checkpoint(row) for row in rows]

    def job_checkpoints(self, job_id: str) -> list[Checkpoint]:
        return [read_checkpoint(row) for row in self._ask(READY["job_checkpoints"](job_id=job_id))]

    def resources(self) -> list[Resource]:
        in_use: dict[Any, Any] = dict(self._ask(READY["resources_in_use"]()))
        named = self._ask(NAMED["resources"])
        return [resource_from(name, from_json(value), in_use.get(name, 0)) for name, value in named]

    # -- the log, and what is kept beside it -----------------------------------------------

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> list[IdempotencyKey]:
        wanted = [{"project": project, "key": key} for project, key in keys]
        rows = self._ask(READY["keys"](rows=to_bytes(wanted), now=now))
        return [
            IdempotencyKey(project, key, digest, from_json(answer), expires_at)
            for project, key, digest, answer, expires_at in rows
        ]

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> list[LoggedEvent]:
        """Events in the order of positions.

        Those of a stream that have no position yet come last, with the position 0; all of them are
        returned if one is.
        """
        self._feed()
        end = END_OF_LOG if upto is None else upto
        if stream is not None:
            return self._stream_events(stream, after, limit, end)
        found: list[LoggedEvent] = []
        for commit in self.commits(after, limit, end):
            found += commit.between(after, end)
        return found[:limit]

    def commits(
        self, after: int, limit: int, upto: int | None = None, max_bytes: int | None = None
    ) -> list[LoggedCommit]:
        self._feed()
        end, size = END_OF_LOG if upto is None else upto, max_bytes or ANY_SIZE
        most = min(limit, MAX_LIMIT)
        query = READY["commits_after"](after=after, upto=end, limit=most, bytes=size)
        found = [self._caches.commits.commit(*row) for row in self._ask(query)]
        return [commit for commit in found if commit.last > after]

    def _stream_events(self, stream: str, after: int, limit: int, end: int) -> list[LoggedEvent]:
        known = {"stream": stream, "after": after, "upto": end, "end_of_log": END_OF_LOG}
        rows = self._ask(READY["commits_of_stream"](**known, limit=min(limit, MAX_LIMIT)))
        if len(rows) == limit and not rows[-1][0]:
            rows = self._ask(READY["commits_of_stream"](**known, limit=MAX_LIMIT))
        found: list[LoggedEvent] = []
        for first, at, body in rows:
            own = commit_body.decode_streams(body, at, first, (stream,))
            if first:
                found += [event for event in own if after < event.position <= end]
                found = found[:limit]
            elif len(found) < limit:
                found += [event._replace(position=0) for event in own]
        return found

    def unsequenced(self) -> list[LoggedEvent]:
        found: list[LoggedEvent] = []
        for last, at, body in self._ask(READY["commits_without_position"]()):
            found += commit_body.decode(body, at, last + len(found) + 1)
        return found

    def _feed(self) -> None:
        """Assign positions to what was committed before this transaction, unless it has begun."""
        if not self.sequenced:
            self.sequenced = True
            self._transaction.precede(SEQUENCE)

    def rows(self, table: str) -> Mapping[str, Any]:
        return {name: from_json(value) for name, value in self._ask(NAMED[table])}

    def row_names(self, table: str) -> list[str]:
        return [name for (name,) in self._ask(NAMES[table])]

    def rows_under(self, table: str, prefix: str) -> Mapping[str, Any]:
        return {name: from_json(value) for name, value in self._ask(named_rows(table, prefix))}

    def head(self) -> int:
        self._feed()
        position: int = self._ask(READY["last_position"]())[0][0]
        return position

    def standby_position(self) -> int | None:
        """The last position on a standby; None if the server is no standby."""
        standby, position = self._ask(READY["standby_position"]())[0]
        return position if standby else None

    def timeline(self) -> str:
        """The timeline of the primary's log, which a promotion changes."""
        name: str = self._ask(READY["log_file"]())[0][0]
        return name[:8]

    def commit_boundary(self, upto: int) -> int:
        for first, end in self._ask(READY["commit_at"](position=upto)):
            return int(first) - 1 if end > upto else upto
        return upto

    def version_of(self, stream: str) -> int:
        for (version,) in self._ask(READY["row_version"](stream=stream)):
            return int(version)
        for (body,) in self._ask(READY["last_commit_of_stream"](stream=stream)):
            return commit_body.decode_streams(body, 0, 0, (stream,))[-1].version
        return 0

    def intake(self, limit: int) -> list[Intake]:
        return [Intake._make(row) for row in self._ask(READY["intake"](limit=limit))]

    def refused_intake(self, limit: int) -> list[RefusedIntake]:
        found = self._ask(READY["refused_intake"](limit=limit))
        return [RefusedIntake._make(row) for row in found]

    def chain_blocks(self, after: int, limit: int) -> list[ChainBlock]:
        return [
            ChainBlock._make(row)
            for row in self._ask(READY["chain_blocks_after"](after=after, limit=limit))
        ]

    def outbox(self, target: str, limit: int) -> list[Delivery]:
        rows = self._ask(READY["outbox"](target=target, limit=limit))
        return [Delivery._make(row) for row in rows]

    def last_chain_block(self) -> ChainBlock | None:
        rows = self._ask(READY["last_chain_block"]())
        return ChainBlock._make(rows[0]) if rows else None

    # -- lists for people ------------------------------------------------------------------

    def page(self, query: ListQuery) -> Sequence[Mapping[str, Any]]:
        return list_sql.page(self._list, query, TAG_IN_LIST)

    def count_by(self, query: ListQuery, column: str) -> Mapping[Any, int]:
        return list_sql.count_by(self._list, query, column, TAG_IN_LIST)

    def _list(self, text: str, values: Mapping[str, Any]) -> Rows:
        """The text differs for each query, so it is not prepared."""
        asked = statement("list", text)
        bound = [_bound(values[name]) for name in asked.parameters]
        listed = Query(numbered(asked), bound)
        freely, by_key = READY["plan_freely"](), READY["plan_by_key"]()
        return self._transaction.run([freely, listed, by_key])[1].rows


def _bound(value: Any) -> bytes:
    return str(value).encode()
