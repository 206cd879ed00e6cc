"""The read transaction of the memory store: every query reads all rows."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from detent.kernel.entities import Checkpoint, Job, Resource, Run, Signal, Step, Task, Wait
from detent.kernel.plan import Plan, validate
from detent.kernel.task_lifecycle import TaskLifecycles
from detent.store.clock import Moment
from detent.store.codec import encode
from detent.store.installed_lifecycles import LifecycleCache
from detent.store.logged_commit import LoggedCommit
from detent.store.memory.lists import matching, page
from detent.store.memory.tables import Tables
from detent.store.rows import resource_from
from detent.store.types import (
    ChainBlock,
    Delivery,
    IdempotencyKey,
    Intake,
    LoggedEvent,
    Query,
    RefusedIntake,
)

Part = TypeVar("Part", Run, Wait, Signal, Checkpoint)


class MemoryReader:
    """A view of published tables, which do not change."""

    def __init__(self, tables: Tables, moment: Moment, lifecycles: LifecycleCache) -> None:
        self._tables = tables
        self._lifecycles = lifecycles
        self._now, self._ahead, _ = moment

    def lifecycles(self) -> TaskLifecycles:
        return self._lifecycles.seen_by(self)

    def now(self) -> int:
        return self._now

    def ahead(self) -> int:
        return self._ahead

    def head(self) -> int:
        return self._tables.head

    def unsequenced(self) -> Sequence[LoggedEvent]:
        return ()

    def commit_boundary(self, upto: int) -> int:
        return upto  # the log is a list of events

    def version_of(self, stream: str) -> int:
        return self._tables.versions.get(stream, 0)

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> Sequence[LoggedEvent]:
        log = self._tables.log
        end = len(log) if upto is None else bisect_right(log, upto, key=_position)
        shown = log[bisect_right(log, after, key=_position) : end]
        return [each for each in shown if stream is None or each.stream == stream][:limit]

    def commits(
        self,
        after: int,
        limit: int,
        upto: int | None = None,
        max_bytes: int | None = None,  # noqa: ARG002
    ) -> Sequence[LoggedCommit]:
        """The events are in memory, so that more bytes cost nothing."""
        return [LoggedCommit.of([event]) for event in self.events(after, limit, upto=upto)]

    def chain_blocks(self, after: int, limit: int) -> Sequence[ChainBlock]:
        return [block for block in self._tables.chain_blocks if block.to_position > after][:limit]

    def intake(self, limit: int) -> Sequence[Intake]:
        rows = self._tables.intake.values()
        return [row for row, refusal in rows if refusal is None][:limit]

    def refused_intake(self, limit: int) -> Sequence[RefusedIntake]:
        rows = self._tables.intake.values()
        return [RefusedIntake(*row, *refusal) for row, refusal in rows if refusal][:limit]

    def runs(self, ids: Collection[str]) -> Iterable[Run]:
        return [self._tables.runs[each] for each in ids if each in self._tables.runs]

    def used_blobs(self, digests: Collection[str]) -> set[str]:
        return {row.sha256 for row in self._tables.evidence.values()} & set(digests)

    def stored_bytes(self, project: str) -> int:
        tasks = [row for row in self._tables.tasks.values() if row.task.project == project]
        jobs = [row for row in self._tables.jobs.values() if row.job.project == project]
        own = [row.payload for row in tasks]
        own += [row.payload for row in jobs if row.job.task_id is None]
        ids = {row.job.id for row in jobs}
        runs = {run.id for run in self._tables.runs.values() if run.job_id in ids}
        evidence = [row.size for row in self._tables.evidence.values() if row.run_id in runs]
        return sum(len(encode(payload)) for payload in own) + sum(evidence)

    def outbox(self, target: str, limit: int) -> Sequence[Delivery]:
        rows = self._tables.outbox.values()
        return [row for row in rows if row.target == target][:limit]

    def last_chain_block(self) -> ChainBlock | None:
        return self._tables.chain_blocks[-1] if self._tables.chain_blocks else None

    def tasks(self, ids: Collection[str]) -> Iterable[tuple[Task, int]]:
        rows = (self._tables.tasks[each] for each in ids if each in self._tables.tasks)
        return [(row.task, row.version) for row in rows]

    def jobs(self, ids: Collection[str]) -> Iterable[tuple[Job, int]]:
        rows = (self._tables.jobs[each] for each in ids if each in self._tables.jobs)
        return [(row.job, row.version) for row in rows]

    def payloads(self, job_ids: Collection[str]) -> Mapping[str, Any]:
        found = {}
        for job, _ in self.jobs(job_ids):
            task = self._tables.tasks.get(job.task_id or "")
            found[job.id] = (task or self._tables.jobs[job.id]).payload
        return found

    def dependents(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        tasks, asked = (row.task for row in self._tables.tasks.values()), set(task_ids)
        return [(each, task.id) for task in tasks for each in task.depends_on if each in asked]

    def children(self, task_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        tasks = (row.task for row in self._tables.tasks.values())
        return _below(task_ids, [(task.parent_id, task.id) for task in tasks if task.parent_id])

    def child_jobs(self, job_ids: Collection[str]) -> Iterable[tuple[str, str]]:
        jobs = (row.job for row in self._tables.jobs.values())
        return _below(job_ids, [(job.parent_job_id, job.id) for job in jobs if job.parent_job_id])

    def live_runs(self, job_ids: Collection[str]) -> Iterable[Run]:
        runs = _of(job_ids, self._tables.runs.values())
        return [run for run in runs if run.state in ("queued", "running")]

    def steps(self, job_ids: Collection[str]) -> Iterable[Step]:
        plans = {(job.id, job.plan_version) for job, _ in self.jobs(job_ids)}
        return [step for step in self._tables.steps.values() if step[:2] in plans]

    def plans(self, job_ids: Collection[str]) -> Mapping[str, Plan]:
        versions = {job.id: job.plan_version for job, _ in self.jobs(job_ids) if job.plan_version}
        return {
            job: validate(self._tables.plans[job, version]) for job, version in versions.items()
        }

    def waits(self, job_ids: Collection[str]) -> Iterable[Wait]:
        return _of(job_ids, self._tables.waits.values())

    def signals(self, job_ids: Collection[str]) -> Iterable[Signal]:
        return _of(job_ids, self._tables.signals.values())

    def checkpoints(self, keys: Collection[tuple[str, str]]) -> Iterable[Checkpoint]:
        found = self._tables.checkpoints
        return [found[key] for key in keys if key in found]

    def job_checkpoints(self, job_id: str) -> Iterable[Checkpoint]:
        return _of([job_id], self._tables.checkpoints.values())

    def resources(self) -> Iterable[Resource]:
        steps = self.steps(self._tables.jobs)
        held = Counter(step.resource for step in steps)
        named = self._tables.named["resources"].items()
        return [resource_from(name, row, held[name]) for name, row in named]

    def keys(self, keys: Collection[tuple[str, str]], now: int) -> Iterable[IdempotencyKey]:
        found = (self._tables.keys[key] for key in keys if key in self._tables.keys)
        return [key for key in found if key.expires_at > now]

    def rows(self, table: str) -> Mapping[str, Any]:
        return self._tables.named[table]

    def row_names(self, table: str) -> list[str]:
        return list(self._tables.named[table])

    def rows_under(self, table: str, prefix: str) -> Mapping[str, Any]:
        rows = self._tables.named[table].items()
        return {name: value for name, value in rows if name.startswith(prefix)}

    def page(self, query: Query) -> Sequence[Mapping[str, Any]]:
        return page(matching(self._tables, query), query)

    def count_by(self, query: Query, column: str) -> Mapping[Any, int]:
        return Counter(row[column] for row in matching(self._tables, query, column))


def _position(event: LoggedEvent) -> int:
    return event.position


def _of(job_ids: Collection[str], rows: Iterable[Part]) -> list[Part]:
    asked = set(job_ids)
    return [row for row in rows if row.job_id in asked]


def _below(tops: Collection[str], pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The (parent, child) pairs below the given tops."""
    found: dict[tuple[str, str], None] = {}
    level = set(tops)
    while level:
        below = [pair for pair in pairs if pair[0] in level and pair not in found]
        found.update(dict.fromkeys(below))
        level = {child for _, child in below}
    return list(found)
