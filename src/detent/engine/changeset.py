"""The change set of a batch: its events so far, and the rows to write for them."""

from typing import Any

from detent.engine.types import CommandRequest
from detent.kernel import events as e
from detent.kernel.commands import Actor
from detent.kernel.draft import Draft
from detent.kernel.entities import Health, Job
from detent.kernel.lane import lane_of
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.world import CHECKPOINTS, RUNS, SIGNALS, STEPS, WAITS, World
from detent.store.types import (
    Changes,
    IdempotencyKey,
    LeaseRow,
    NewEvent,
    NewJob,
    NewTask,
    QueueRow,
)


class ChangeSet:
    """Collects the drafts of a batch; `rows` returns what the store writes for all of them."""

    def __init__(self, world: World, lease_us: int, now: int) -> None:
        self.world = world
        self.now = now
        self.lease_until = now + lease_us
        self.entries: list[NewEvent] = []
        self.keys: list[IdempotencyKey] = []
        #: Ids in the order of their first change.
        self.tasks: dict[str, None] = {}
        self.jobs: dict[str, None] = {}
        #: Jobs of which more than the version of the stream has changed.
        self.evolved: set[str] = set()
        self.parts: dict[tuple[str, str], dict[str, None]] = {}
        self.created: dict[str, e.TaskCreated | e.JobCreated] = {}
        self.new_runs: set[str] = set()
        self.plans: dict[str, tuple[int, Any]] = {}
        self.edits: dict[str, dict[str, Any]] = {}
        self.claimed: set[str] = set()
        self.limits: dict[str, None] = {}
        #: The changed health of providers, by name. The log does not have it.
        self.health: dict[str, Health] = {}
        self.lifecycles: dict[str, None] = {}
        self.deleted: dict[str, str] = {}

    def add(self, draft: Draft) -> None:
        """Add the events of a command that was not refused."""
        world = self.world
        world.merge(draft, ())
        if draft.jobs:
            self.evolved.update(draft.jobs)
        for record in draft.records:
            stream = record.stream
            version = world.versions[stream] = world.versions.get(stream, 0) + 1
            owner = world.jobs.get(stream)
            if owner is not None:
                # Also if only a part of the job changed: its row has the version of the stream.
                self.jobs[stream] = None
            project = self._project(record) if owner is None else owner.project
            self.entries.append(NewEvent(stream, version, project, record))
            handler = HANDLERS.get(type(record.event))
            if handler is not None:
                handler(self, record)
        if draft.tasks:
            self.tasks.update(dict.fromkeys(draft.tasks))
        if draft.health:
            self.health.update(draft.health)
        if draft.limits:
            self.limits.update(dict.fromkeys(draft.limits))
        if draft.installed:
            self.lifecycles.update(dict.fromkeys(draft.installed))
        for key, names in draft.parts.items():
            self.parts.setdefault(key, {}).update(dict.fromkeys(names))

    def _project(self, record: e.Record) -> str:
        """The project of a task's event, or of a limit on a project; of others there is none."""
        if record.stream == e.LIFECYCLES:
            return ""
        if record.stream != e.SYSTEM:
            return self.world.tasks[record.stream].project
        kind, _, name = (record.subject or "").partition(":")
        return name if kind == "project" else ""

    def replay(self, record: e.Record) -> None:
        """Add an event of the log, without its couplings: their events are in the log too."""
        draft = Draft(self.world, {}, record.at, Actor(record.actor))
        draft.apply(record)
        draft.records.append(record)
        self.add(draft)

    def add_key(self, request: CommandRequest, value: Any, lifetime_us: int) -> None:
        if request.key is not None:
            project, key, digest = request.key
            self.keys.append(IdempotencyKey(project, key, digest, value, self.now + lifetime_us))

    # -- rows ------------------------------------------------------------------------------

    def rows(self) -> Changes:
        world, created, deleted = self.world, self.created, self.deleted
        tasks = [world.tasks[task_id] for task_id in self.tasks]
        jobs = [world.jobs[job_id] for job_id in self.jobs]
        queue, leases, unqueued = self._queue()
        return Changes(
            entries=self.entries,
            versions=world.versions,
            new_tasks=[
                NewTask(task, made.title, made.payload, made.tags)
                for task in tasks
                if isinstance(made := created.get(task.id), e.TaskCreated)
            ],
            tasks=[task for task in tasks if task.id not in created and task.id not in deleted],
            edits=self.edits,
            new_jobs=[
                NewJob(job, made.payload)
                for job in jobs
                if isinstance(made := created.get(job.id), e.JobCreated)
            ],
            jobs=[job for job in jobs if job.id not in created and job.id not in deleted],
            unchanged=self.jobs.keys() - self.evolved,
            queue=queue,
            leases=leases,
            unqueued=unqueued,
            deadlines=[(job.id, _deadline(job)) for job in jobs if _has_time_limit(job)],
            unwaited=[job.id for job in jobs if job.waited and job.state in ENDED_JOB],
            ended={job.id for job in jobs if job.state in ENDED_JOB}
            | {task.id for task in tasks if task.state in world.lifecycle(task).terminal},
            keys=self.keys,
            limits={name: world.limits[name] for name in self.limits},
            lifecycles={name: world.installed[name] for name in self.lifecycles},
            plans=self.plans,
            deleted_tasks=[each for each, kind in deleted.items() if kind == "task"],
            deleted_jobs=[each for each, kind in deleted.items() if kind == "job"],
            **self._parts(),
        )

    def _parts(self) -> dict[str, Any]:
        """Return the changed rows of runs, steps, waits, signals, checkpoints and evidence."""
        found: dict[str, list[Any]] = {RUNS: [], STEPS: [], WAITS: [], SIGNALS: [], CHECKPOINTS: []}
        ended_waits = []
        for (kind, job_id), names in self.parts.items():
            if kind not in found:
                continue  # comments have no rows
            now = self.world.parts.get((kind, job_id), {})
            for name in names:
                if now.get(name) is not None:
                    found[kind].append(now[name])
                elif kind == WAITS:
                    ended_waits.append((job_id, name))
        return {
            "new_runs": [run for run in found[RUNS] if run.id in self.new_runs],
            "runs": [run for run in found[RUNS] if run.id not in self.new_runs],
            "steps": found[STEPS],
            "waits": found[WAITS],
            "ended_waits": ended_waits,
            "signals": found[SIGNALS],
            "checkpoints": found[CHECKPOINTS],
            "evidence": [
                each for each in self.entries if isinstance(each.record.event, e.EvidenceAdded)
            ],
        }

    def _queue(self) -> tuple[list[QueueRow], list[LeaseRow], list[str]]:
        """Return the rows of claimable jobs, the new leases, and the jobs that left the queue."""
        changed = dict(self.jobs)
        changed.update(
            dict.fromkeys(filter(None, (self.world.tasks[t].job_id for t in self.tasks)))
        )
        queue, leases, unqueued = [], [], []
        for job_id in changed:
            job = self.world.jobs[job_id]
            if job.state in ("queued", "retrying") and not self._waits_for_dependencies(job):
                queue.append(queue_row(self.world, job))
            elif job.state == "running":
                if job_id in self.claimed:
                    leases.append(LeaseRow(job_id, job.worker or "", job.fence, self.lease_until))
            elif job_id in self.jobs and job_id not in self.created:
                unqueued.append(job_id)
        return queue, leases, unqueued

    def _waits_for_dependencies(self, job: Job) -> bool:
        task = None if job.task_id is None else self.world.tasks[job.task_id]
        return task is not None and task.open_dependencies > 0


def _has_time_limit(job: Job) -> bool:
    return "queue_timeout_ms" in job.options or "job_timeout_ms" in job.options


def _deadline(job: Job) -> int | None:
    """Return the next time limit; None after the end of the job or a cancel request."""
    if job.state in ENDED_JOB or job.cancel_reason is not None:
        return None
    return min(filter(None, (job.queue_deadline, job.job_deadline)), default=None)


def queue_row(world: World, job: Job) -> QueueRow:
    """Return the queue row from which workers claim the job."""
    where = (job.id, job.root_id, job.project, job.intent)
    return QueueRow(*where, job.rank, job.not_before, job.concurrency_key, lane_of(world, job))


# ---- what single events add to the change set -------------------------------------------------


def _created(changes: ChangeSet, record: e.Record) -> None:
    changes.created[record.stream] = record.event  # type: ignore[assignment]
    changes.world.relate(record)


def _run_queued(changes: ChangeSet, record: e.Record) -> None:
    changes.new_runs.add(record.subject or "")


def _planned(changes: ChangeSet, record: e.Record) -> None:
    event: Any = record.event
    changes.plans[record.stream] = (event.plan_version, event.plan)


def _edited(changes: ChangeSet, record: e.Record) -> None:
    event: Any = record.event
    changes.edits.setdefault(record.stream, {}).update(event.changes)


def _claimed(changes: ChangeSet, record: e.Record) -> None:
    changes.claimed.add(record.stream)


def _deleted(changes: ChangeSet, record: e.Record) -> None:
    changes.deleted[record.stream] = record.event.level


HANDLERS = {
    e.TaskCreated: _created,
    e.JobCreated: _created,
    e.RunQueued: _run_queued,
    e.PlanGenerated: _planned,
    e.TaskEdited: _edited,
    e.JobRunning: _claimed,
    e.TaskDeleted: _deleted,
    e.JobDeleted: _deleted,
}
