"""What a batch has decided so far, and the rows that follow from it."""

from typing import Any

from detent.engine.types import Ask
from detent.kernel import events as e
from detent.kernel.commands import Actor
from detent.kernel.draft import Draft
from detent.kernel.entities import Job
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


class Ledger:
    """Takes drafts one after the other; `changes` is what the store must write for all of them."""

    def __init__(self, world: World, lease_us: int, now: int) -> None:
        self.world = world
        self.now = now
        self.lease_until = now + lease_us
        self.entries: list[NewEvent] = []
        self.keys: list[IdempotencyKey] = []
        #: Ids in the order in which they were first touched.
        self.tasks: dict[str, None] = {}
        self.jobs: dict[str, None] = {}
        self.parts: dict[tuple[str, str], dict[str, None]] = {}
        self.created: dict[str, e.TaskCreated | e.JobCreated] = {}
        self.new_runs: set[str] = set()
        self.plans: dict[str, tuple[int, Any]] = {}
        self.edits: dict[str, dict[str, Any]] = {}
        self.claimed: set[str] = set()
        self.limits: dict[str, None] = {}
        self.deleted: dict[str, str] = {}

    def take(self, draft: Draft) -> None:
        """A command that was not refused: its events are certain now."""
        world = self.world
        world.merge(draft, ())
        for record in draft.records:
            stream = record.stream
            version = world.versions[stream] = world.versions.get(stream, 0) + 1
            owner = world.jobs.get(stream)
            if owner is not None:
                # Also when only a part of the job moved: its row keeps the stream's version.
                self.jobs[stream] = None
            project = self._project(record) if owner is None else owner.project
            self.entries.append(NewEvent(stream, version, project, record))
            note = NOTES.get(type(record.event))
            if note is not None:
                note(self, record)
        self.tasks.update(dict.fromkeys(draft.tasks))
        self.limits.update(dict.fromkeys(draft.limits))
        for key, names in draft.parts.items():
            self.parts.setdefault(key, {}).update(dict.fromkeys(names))

    def _project(self, record: e.Record) -> str:
        """The project of a task's event, or of a limit on a project; of others there is none."""
        if record.stream != e.SYSTEM:
            return self.world.tasks[record.stream].project
        kind, _, name = (record.subject or "").partition(":")
        return name if kind == "project" else ""

    def replay(self, record: e.Record) -> None:
        """An event that has happened, without what it pulled along: that stands in the log too."""
        draft = Draft(self.world, {}, record.at, Actor(record.actor))
        draft.apply(record)
        draft.records.append(record)
        self.take(draft)

    def remember(self, ask: Ask, value: Any, lifetime_us: int) -> None:
        if ask.key is not None:
            project, key, digest = ask.key
            self.keys.append(IdempotencyKey(project, key, digest, value, self.now + lifetime_us))

    # -- rows ------------------------------------------------------------------------------

    def changes(self) -> Changes:
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
            queue=queue,
            leases=leases,
            unqueued=unqueued,
            deadlines=[(job.id, _deadline(job)) for job in jobs if _limited(job)],
            ended_jobs=[job.id for job in jobs if job.waited and job.state in ENDED_JOB],
            keys=self.keys,
            limits={name: world.limits[name] for name in self.limits},
            plans=self.plans,
            deleted_tasks=[each for each, kind in deleted.items() if kind == "task"],
            deleted_jobs=[each for each, kind in deleted.items() if kind == "job"],
            **self._parts(),
        )

    def _parts(self) -> dict[str, Any]:
        """Rows of the parts of jobs that changed."""
        found: dict[str, list[Any]] = {RUNS: [], STEPS: [], WAITS: [], SIGNALS: [], CHECKPOINTS: []}
        ended_waits = []
        for (kind, job_id), names in self.parts.items():
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
        """Who may be claimed, who is held, and who has left the queue, by each job's state."""
        touched = dict(self.jobs)
        touched.update(
            dict.fromkeys(filter(None, (self.world.tasks[t].job_id for t in self.tasks)))
        )
        queue, leases, unqueued = [], [], []
        for job_id in touched:
            job = self.world.jobs[job_id]
            if job.state in ("queued", "retrying") and not self._held_back(job):
                queue.append(queue_row(self.world, job))
            elif job.state == "running":
                if job_id in self.claimed:
                    leases.append(LeaseRow(job_id, job.worker or "", job.fence, self.lease_until))
            elif job_id in self.jobs and job_id not in self.created:
                unqueued.append(job_id)
        return queue, leases, unqueued

    def _held_back(self, job: Job) -> bool:
        task = None if job.task_id is None else self.world.tasks[job.task_id]
        return task is not None and task.open_dependencies > 0


def _limited(job: Job) -> bool:
    return "queue_timeout_ms" in job.options or "job_timeout_ms" in job.options


def _deadline(job: Job) -> int | None:
    """The next limit on its time, None once it has ended or was asked to stop."""
    if job.state in ENDED_JOB or job.cancel_reason is not None:
        return None
    return min(filter(None, (job.queue_deadline, job.job_deadline)), default=None)


def queue_row(world: World, job: Job) -> QueueRow:
    """The row under which a job can be claimed."""
    where = (job.id, job.root_id, job.project, job.intent)
    return QueueRow(*where, job.rank, job.not_before, job.concurrency_key, lane_of(world, job))


# ---- what single events leave in the ledger --------------------------------------------------


def _created(ledger: Ledger, record: e.Record) -> None:
    ledger.created[record.stream] = record.event  # type: ignore[assignment]
    ledger.world.relate(record)


def _run_queued(ledger: Ledger, record: e.Record) -> None:
    ledger.new_runs.add(record.subject or "")


def _planned(ledger: Ledger, record: e.Record) -> None:
    event: Any = record.event
    ledger.plans[record.stream] = (event.plan_version, event.plan)


def _edited(ledger: Ledger, record: e.Record) -> None:
    event: Any = record.event
    ledger.edits.setdefault(record.stream, {}).update(event.changes)


def _claimed(ledger: Ledger, record: e.Record) -> None:
    ledger.claimed.add(record.stream)


def _deleted(ledger: Ledger, record: e.Record) -> None:
    ledger.deleted[record.stream] = record.event.level


NOTES = {
    e.TaskCreated: _created,
    e.JobCreated: _created,
    e.RunQueued: _run_queued,
    e.PlanGenerated: _planned,
    e.TaskEdited: _edited,
    e.JobRunning: _claimed,
    e.TaskDeleted: _deleted,
    e.JobDeleted: _deleted,
}
