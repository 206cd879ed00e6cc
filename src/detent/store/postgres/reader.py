"""What can be read in a transaction on PostgreSQL. Select by ids is one statement for the whole
set.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan
from detent.store import list_sql
from detent.store.clock import Moment
from detent.store.codec import from_json
from detent.store.postgres.connection import Query, Rows, numbered, ready
from detent.store.postgres.transaction import Transaction
from detent.store.rows import END_OF_LOG, read_plan, reader, resource_from
from detent.store.statements import for_tables, load, statement
from detent.store.table_names import TABLES
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
#: What makes a query of each statement, by its name.
READY = {name: ready(each) for name, each in SQL.items()}
NAMED = {table: ready(each)() for table, each in for_tables(SQL["named_rows"], TABLES).items()}

read_task = reader(Task, SQL["tasks"].columns)
read_job = reader(Job, SQL["jobs"].columns)
read_run = reader(Run, SQL["live_runs"].columns)
read_step = reader(Step, SQL["steps"].columns)
read_wait = reader(Wait, SQL["waits"].columns)
read_signal = reader(Signal, SQL["signals"].columns)
read_checkpoint = reader(Checkpoint, SQL["checkpoints"].columns)

#: How PostgreSQL asks whether a JSON list has a value.
TAG_IN_LIST = (
    "EXISTS (SELECT FROM json_array_elements_text({column}::json) AS tag WHERE tag = :{value})"
)

#: The store's time, from what a transaction read when it began: the server's clock, the row of the
#: store's own, and the last event.
Clock = Callable[[int, str | None, int | None, int | None], Moment]

to_bytes = msgspec.json.Encoder().encode


class PostgresReader:
    """What one transaction sees: of a view its first moment, of a write what its locks hold
    still.
    """

    def __init__(self, transaction: Transaction, clock: Clock) -> None:
        self._transaction = transaction
        self._clock = clock
        self._known: Moment | None = None

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
        return [(read_task(row), row[-1]) for row in self._by_ids("tasks", ids)]

    def jobs(self, ids: Collection[str]) -> list[tuple[Job, int]]:
        return [(read_job(row), row[-1]) for row in self._by_ids("jobs", ids)]

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
        end = END_OF_LOG if upto is None else upto
        if stream is None:
            rows = self._ask(READY["events_after"](after=after, upto=end, limit=limit))
        else:
            query = READY["events_of_stream"](stream=stream, after=after, upto=end, limit=limit)
            rows = self._ask(query)
        return [LoggedEvent._make(row) for row in rows]

    def rows(self, table: str) -> Mapping[str, Any]:
        return {name: from_json(value) for name, value in self._ask(NAMED[table])}

    def head(self) -> int:
        position: int = self._ask(READY["head"]())[0][0]
        return position

    def commit_boundary(self, upto: int) -> int:
        return upto

    def version_of(self, stream: str) -> int:
        version: int = self._ask(READY["version_of"](stream=stream))[0][0]
        return version

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
        """Each text is another: it is not prepared, and planned as the server thinks best."""
        asked = statement("list", text)
        bound = [_bound(values[name]) for name in asked.parameters]
        listed = Query(numbered(asked), bound)
        freely, by_key = READY["plan_freely"](), READY["plan_by_key"]()
        return self._transaction.run([freely, listed, by_key])[1].rows


def _bound(value: Any) -> bytes:
    return str(value).encode()
