"""How events change a job."""

from collections.abc import Mapping
from typing import Any

from detent.errors import Broken
from detent.kernel import events as e
from detent.kernel.entities import NOT_BEFORE, Job
from detent.kernel.evolve.table import CHANGES, JOB, next_state, on
from detent.kernel.priority import rank


def evolve_job(job: Job | None, record: e.Record) -> Job:
    if job is None:
        return job_created(record)
    event = record.event
    state = next_state(JOB, job.state, event)
    changed: Job = CHANGES[type(event)](job, event, record.at, state)
    return changed


def job_created(record: e.Record) -> Job:
    event = record.event
    if not isinstance(event, e.JobCreated):
        raise Broken(
            f"the stream of job {record.stream} begins with {event.name}, not with job_created"
        )
    options = event.options
    not_before = options.get(NOT_BEFORE, 0) if options else 0
    start = max(record.at, not_before)
    return Job(
        id=record.stream,
        project=event.project,
        state="queued",
        state_at=record.at,
        intent=event.intent,
        priority=event.priority,
        rank=rank(event.priority, start),
        root_id=event.root_id,
        task_id=event.task_id,
        parent_job_id=event.parent_job_id,
        queued_at=record.at,
        not_before=not_before,
        concurrency_key=event.concurrency_key,
        queue_deadline=_deadline(options, "queue_timeout_ms", start),
        job_deadline=_deadline(options, "job_timeout_ms", start),
        options=options,
        created_at=record.at,
    )


def _deadline(options: Mapping[str, Any], name: str, at: int) -> int | None:
    limit_ms = options.get(name) if options else None
    return None if limit_ms is None else at + limit_ms * 1000


@on(e.JobRunning)
def _job_running(job: Job, event: e.JobRunning, at: int, state: str) -> Job:
    return job._replace(
        state=state,
        state_at=at,
        worker=event.worker,
        nonce=event.nonce,
        fence=event.fence,
        attempt=event.attempt,
        resuming=False,
        runs=job.runs + 1 if event.run_id else job.runs,
        run_id=event.run_id,
        queue_deadline=None,
    )


@on(e.JobRequeued)
def _job_requeued(job: Job, event: e.JobRequeued, at: int, state: str) -> Job:
    queued = job._replace(
        state=state, state_at=at, queued_at=at, not_before=0, worker=None, nonce=None
    )
    if event.reason == "lost":
        return queued._replace(lost=job.lost + 1)
    if event.reason == "retried":
        return _reset(queued, at)
    if event.reason == "handed_back":
        return queued._replace(resuming=True)
    if event.reason in ("due", "released"):
        return queued
    return queued._replace(failures=_counted(job.failures, event.reason))


def _reset(job: Job, at: int) -> Job:
    """Reset the counts and time limits after a retry by a person."""
    return job._replace(
        attempt=0,
        failures={},
        lost=0,
        replans=0,
        resuming=False,
        cancel_reason=None,
        queue_deadline=_deadline(job.options, "queue_timeout_ms", at),
        job_deadline=_deadline(job.options, "job_timeout_ms", at),
        error=None,
        error_class=None,
        ended_at=None,
    )


def _counted(failures: Mapping[str, int], error_class: str) -> Mapping[str, int]:
    return {**failures, error_class: failures.get(error_class, 0) + 1}


@on(e.JobWaiting)
@on(e.JobParked)
def _job_waiting(job: Job, event: e.JobWaiting, at: int, state: str) -> Job:
    return job._replace(state=state, state_at=at, worker=None, nonce=None)


@on(e.WaitCompleted)
def _wait_completed(job: Job, event: e.WaitCompleted, at: int, state: str) -> Job:
    return job._replace(state=state, state_at=at, queued_at=at, resuming=True, lost=0)


@on(e.JobRetrying)
def _job_retrying(job: Job, event: e.JobRetrying, at: int, state: str) -> Job:
    retrying = job._replace(
        state=state, state_at=at, not_before=event.not_before, worker=None, nonce=None
    )
    if not event.counted:
        return retrying._replace(resuming=True)
    return retrying._replace(failures=_counted(job.failures, event.error_class))


@on(e.JobCompleted)
def _job_completed(job: Job, event: e.JobCompleted, at: int, state: str) -> Job:
    return job._replace(
        state=state, state_at=at, worker=None, nonce=None, result=event.result, ended_at=at
    )


@on(e.JobFailed)
def _job_failed(job: Job, event: e.JobFailed, at: int, state: str) -> Job:
    return job._replace(
        state=state,
        state_at=at,
        worker=None,
        nonce=None,
        failures=_counted(job.failures, event.error_class),
        error_class=event.error_class,
        error=event.error,
        ended_at=at,
    )


@on(e.JobCancelled)
def _job_cancelled(job: Job, event: e.JobCancelled, at: int, state: str) -> Job:
    return job._replace(
        state=state, state_at=at, worker=None, nonce=None, cancel_reason=event.reason, ended_at=at
    )


@on(e.JobCancelRequested)
def _job_cancel_requested(job: Job, event: e.JobCancelRequested, at: int, state: str) -> Job:
    return job._replace(cancel_reason=event.reason)


@on(e.JobReprioritised)
def _job_reprioritised(job: Job, event: e.JobReprioritised, at: int, state: str) -> Job:
    start = max(job.created_at, event.not_before)
    return job._replace(priority=event.priority, rank=rank(event.priority, start))


@on(e.PlanGenerated)
def _plan_generated(job: Job, event: e.PlanGenerated, at: int, state: str) -> Job:
    return job._replace(plan_version=event.plan_version, plan_wanted=False)


@on(e.ReplanRequested)
def _replan_requested(job: Job, event: e.ReplanRequested, at: int, state: str) -> Job:
    return job._replace(replans=job.replans + 1, plan_wanted=True)


@on(e.JobForked)
def _job_forked(job: Job, event: e.JobForked, at: int, state: str) -> Job:
    """Count one run, so that the first run of a fork reads the recorded checkpoints."""
    return job._replace(runs=max(job.runs, 1))


@on(e.JobDeleted)
def _job_noted(job: Job, event: e.Event, at: int, state: str) -> Job:
    return job


@on(e.JobQueued)
@on(e.JobLeased)
def _job_moved(job: Job, event: e.Event, at: int, state: str) -> Job:
    return job._replace(state=state, state_at=at)
