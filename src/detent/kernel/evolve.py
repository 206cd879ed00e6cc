"""How an event changes an entity: `evolve(entity, record) -> entity`, one small function for each event.

The lifecycle's table alone says whether a state event is legal and where it leads; the functions here fill in the rest.
Deciding and rebuilding rows from the log both go through here, so they cannot disagree.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from detent.errors import Broken
from detent.kernel import events as e
from detent.kernel.lifecycle import Lifecycle
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.priority import Priority, rank
from detent.kernel.state import Job, Run, Step, Task

JOB, RUN, STEP = LIFECYCLES["job"], LIFECYCLES["run"], LIFECYCLES["step"]

Change = Callable[[Any, Any, int, str], Any]
C = TypeVar("C", bound=Change)
CHANGES: dict[type[e.Event], Change] = {}


def on(kind: type[e.Event]) -> Callable[[C], C]:
    """Register what an event of this type does to the entity of its level."""

    def register(change: C) -> C:
        CHANGES[kind] = change
        return change

    return register


def evolve_task(task: Task | None, record: e.Record) -> Task:
    event = record.event
    if task is None:
        return task_created(record)
    state = _next(LIFECYCLES[task.lifecycle], task.state, event)
    change = CHANGES.get(type(event))
    if change is None:
        return task._replace(state=state, state_at=record.at)
    changed: Task = change(task, event, record.at, state)
    return changed


def evolve_job(job: Job | None, record: e.Record) -> Job:
    if job is None:
        return job_created(record)
    event = record.event
    state = _next(JOB, job.state, event)
    changed: Job = CHANGES[type(event)](job, event, record.at, state)
    return changed


def evolve_run(run: Run | None, record: e.Record) -> Run:
    if run is None:
        return run_queued(record)
    event = record.event
    state = _next(RUN, run.state, event)
    changed: Run = CHANGES[type(event)](run, event, record.at, state)
    return changed


def evolve_step(step: Step | None, record: e.Record) -> Step:
    event = record.event
    if step is None:
        return step_pending(record)
    state = _next(STEP, step.state, event)
    changed: Step = CHANGES[type(event)](
        step._replace(state=state, state_at=record.at), event, record.at, state
    )
    return changed


def _next(lifecycle: Lifecycle, state: str, event: e.Event) -> str:
    """Where the table leads; an event that the table does not know never moves a state."""
    target = lifecycle.move.get((state, event.name))
    if target is not None:
        return target
    if event.name in lifecycle.events:
        lifecycle.next(state, event.name)  # raises, naming the legal events
    return state


# ---- tasks -----------------------------------------------------------------------------------


def task_created(record: e.Record) -> Task:
    event = record.event
    if not isinstance(event, e.TaskCreated):
        raise Broken(
            f"the stream of task {record.stream} begins with {event.name}, not with task_created"
        )
    return Task(
        id=record.stream,
        project=event.project,
        lifecycle=event.lifecycle,
        state=LIFECYCLES[event.lifecycle].initial,
        state_at=record.at,
        intent=event.intent,
        source=event.source,
        priority=event.priority,
        root_id=event.root_id,
        parent_id=event.parent_id,
        depth=event.depth,
        depends_on=tuple(event.depends_on),
        open_dependencies=event.open_dependencies,
        budget=event.budget,
        options=event.options,
        created_by=record.actor,
        created_at=record.at,
    )


def _with_job(task: Task, job_id: str | None) -> Task:
    """A task that its event gave a new job."""
    return task if job_id is None else task._replace(jobs=task.jobs + 1, job_id=job_id)


def _freed(task: Task, at: int, state: str) -> Task:
    return task._replace(
        state=state, state_at=at, blocked_by=None, blocked_detail={}, retries_left=None
    )


@on(e.TaskQueued)
def _task_queued(task: Task, event: e.TaskQueued, at: int, state: str) -> Task:
    return _with_job(_freed(task, at, state), event.job_id)


@on(e.TaskUnblocked)
def _task_unblocked(task: Task, event: e.TaskUnblocked, at: int, state: str) -> Task:
    freed = _with_job(_freed(task, at, state), event.job_id)
    if event.outcome not in ("answered", "default"):
        return freed
    return freed._replace(answered={"question": event.wait, "answer": event.value})


@on(e.TaskRetried)
@on(e.TaskResumed)
def _task_again(task: Task, event: e.TaskRetried, at: int, state: str) -> Task:
    return _with_job(_freed(task, at, state), event.job_id)._replace(failed_dependency=None)


@on(e.TaskStarted)
@on(e.TaskReady)
@on(e.TaskCompleted)
@on(e.TaskCancelled)
def _task_moved(task: Task, event: e.Event, at: int, state: str) -> Task:
    return _freed(task, at, state)


@on(e.TaskBlocked)
def _task_blocked(task: Task, event: e.TaskBlocked, at: int, state: str) -> Task:
    return task._replace(
        state=state,
        state_at=at,
        blocked_by=event.reason,
        blocked_detail=event.detail,
        retries_left=event.retries_left,
    )


@on(e.TaskAnswered)
def _task_answered(task: Task, event: e.TaskAnswered, at: int, state: str) -> Task:
    answered = {"question": event.question, "answer": event.answer}
    return _freed(task, at, state)._replace(answered=answered)


@on(e.TaskRejected)
def _task_rejected(task: Task, event: e.TaskRejected, at: int, state: str) -> Task:
    return task._replace(state=state, state_at=at, rounds=event.round, comment=event.comment)


@on(e.TaskEdited)
def _task_edited(task: Task, event: e.TaskEdited, at: int, state: str) -> Task:
    known = {
        name: value
        for name, value in event.changes.items()
        if name in ("priority", "budget", "options")
    }
    return task._replace(**known)


@on(e.TaskCancelRequested)
def _task_cancel_requested(task: Task, event: e.TaskCancelRequested, at: int, state: str) -> Task:
    return task._replace(cancel_reason=event.reason)


@on(e.TaskCharged)
def _task_charged(task: Task, event: e.TaskCharged, at: int, state: str) -> Task:
    return task._replace(spent=task.spent + event.amount)


@on(e.BudgetWarned)
def _budget_warned(task: Task, event: e.BudgetWarned, at: int, state: str) -> Task:
    return task


@on(e.BudgetRaised)
def _budget_raised(task: Task, event: e.BudgetRaised, at: int, state: str) -> Task:
    return task._replace(budget=event.budget)


@on(e.SessionOpened)
def _session_opened(task: Task, event: e.SessionOpened, at: int, state: str) -> Task:
    return task._replace(session_id=event.session_id)


@on(e.DependencyDone)
def _dependency_done(task: Task, event: e.DependencyDone, at: int, state: str) -> Task:
    failed = None if task.failed_dependency == event.task_id else task.failed_dependency
    return task._replace(open_dependencies=task.open_dependencies - 1, failed_dependency=failed)


@on(e.DependencyFailed)
def _dependency_failed(task: Task, event: e.DependencyFailed, at: int, state: str) -> Task:
    return task._replace(failed_dependency=event.task_id)


@on(e.SubtaskAdded)
def _subtask_added(task: Task, event: e.SubtaskAdded, at: int, state: str) -> Task:
    return task._replace(subtasks=task.subtasks + 1, open_subtasks=task.open_subtasks + 1)


@on(e.SubtaskDone)
def _subtask_done(task: Task, event: e.SubtaskDone, at: int, state: str) -> Task:
    failed = None if task.failed_subtask == event.task_id else task.failed_subtask
    return task._replace(open_subtasks=task.open_subtasks - 1, failed_subtask=failed)


@on(e.SubtaskFailed)
def _subtask_failed(task: Task, event: e.SubtaskFailed, at: int, state: str) -> Task:
    return task._replace(failed_subtask=event.task_id)


@on(e.TaskDeleted)
def _task_deleted(task: Task, event: e.TaskDeleted, at: int, state: str) -> Task:
    return task


# ---- jobs ------------------------------------------------------------------------------------


def job_created(record: e.Record) -> Job:
    event = record.event
    if not isinstance(event, e.JobCreated):
        raise Broken(
            f"the stream of job {record.stream} begins with {event.name}, not with job_created"
        )
    options = event.options
    return Job(
        id=record.stream,
        project=event.project,
        state="queued",
        state_at=record.at,
        intent=event.intent,
        priority=event.priority,
        rank=rank(Priority(event.priority), record.at),
        root_id=event.root_id,
        task_id=event.task_id,
        parent_job_id=event.parent_job_id,
        queued_at=record.at,
        concurrency_key=event.concurrency_key,
        queue_deadline=_deadline(options, "queue_timeout_ms", record.at),
        job_deadline=_deadline(options, "job_timeout_ms", record.at),
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
        return _counts_anew(queued)
    if event.reason in ("due", "handed_back"):
        return queued._replace(resuming=job.resuming or event.reason == "handed_back")
    return queued._replace(failures=_counted(job.failures, event.reason))


def _counts_anew(job: Job) -> Job:
    return job._replace(
        attempt=0,
        failures={},
        lost=0,
        resuming=False,
        cancel_reason=None,
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
    if event.error_class == "rate_limit":
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


@on(e.PlanGenerated)
def _plan_generated(job: Job, event: e.PlanGenerated, at: int, state: str) -> Job:
    return job._replace(plan_version=event.plan_version, plan_wanted=False)


@on(e.ReplanRequested)
def _replan_requested(job: Job, event: e.ReplanRequested, at: int, state: str) -> Job:
    return job._replace(replans=job.replans + 1, plan_wanted=True)


@on(e.JobForked)
@on(e.JobDeleted)
def _job_noted(job: Job, event: e.Event, at: int, state: str) -> Job:
    return job


# ---- runs ------------------------------------------------------------------------------------


def run_queued(record: e.Record) -> Run:
    event = record.event
    if not isinstance(event, e.RunQueued) or record.subject is None:
        raise Broken(f"the run {record.subject} begins with {event.name}, not with run_queued")
    return Run(
        id=record.subject,
        job_id=record.stream,
        state="queued",
        attempt=event.attempt,
        fence=event.fence,
        worker=event.worker,
        queued_at=record.at,
        step=event.step,
    )


@on(e.RunStarted)
def _run_started(run: Run, event: e.RunStarted, at: int, state: str) -> Run:
    return run._replace(state=state, started_at=at)


@on(e.RunSucceeded)
def _run_succeeded(run: Run, event: e.RunSucceeded, at: int, state: str) -> Run:
    return run._replace(state=state, ended_at=at, outcome=event.outcome, exit_code=event.exit_code)


@on(e.RunFailed)
def _run_failed(run: Run, event: e.RunFailed, at: int, state: str) -> Run:
    return run._replace(
        state=state,
        ended_at=at,
        exit_code=event.exit_code,
        error_class=event.error_class,
        error=event.error,
    )


@on(e.RunTimedOut)
def _run_timed_out(run: Run, event: e.RunTimedOut, at: int, state: str) -> Run:
    return run._replace(
        state=state, ended_at=at, outcome=event.limit, error_class="timeout", error=event.error
    )


@on(e.RunCancelled)
def _run_cancelled(run: Run, event: e.RunCancelled, at: int, state: str) -> Run:
    return run._replace(state=state, ended_at=at, outcome=event.reason)


@on(e.RunCharged)
def _run_charged(run: Run, event: e.RunCharged, at: int, state: str) -> Run:
    return run._replace(cost=event.cost, tokens_in=event.tokens_in, tokens_out=event.tokens_out)


@on(e.RunProgressed)
def _run_progressed(run: Run, event: e.RunProgressed, at: int, state: str) -> Run:
    return run._replace(progress=event.progress, note=event.note)


@on(e.EvidenceAdded)
def _evidence_added(run: Run, event: e.EvidenceAdded, at: int, state: str) -> Run:
    return run


# ---- steps -----------------------------------------------------------------------------------


def step_pending(record: e.Record) -> Step:
    event = record.event
    if not isinstance(event, e.StepPending) or record.subject is None:
        raise Broken(f"the step {record.subject} begins with {event.name}, not with step_pending")
    return Step(record.stream, event.plan_version, record.subject, "pending", record.at)


def _let_go(step: Step) -> Step:
    """A step whose run has ended holds neither run nor resource."""
    return step._replace(run_id=None, resource=None)


@on(e.StepPending)
def _step_pending(step: Step, event: e.StepPending, at: int, state: str) -> Step:
    return step._replace(resource=None, run_id=None, reason=event.reason)


@on(e.StepWaitingDeps)
def _step_waiting(step: Step, event: e.StepWaitingDeps, at: int, state: str) -> Step:
    return step


@on(e.StepLeased)
def _step_leased(step: Step, event: e.StepLeased, at: int, state: str) -> Step:
    return step._replace(
        resource=event.resource, last_resource=event.resource, held_until=None, reason=None
    )


@on(e.StepRunning)
def _step_running(step: Step, event: e.StepRunning, at: int, state: str) -> Step:
    return step._replace(
        resource=event.resource,
        last_resource=event.resource,
        held_until=None,
        reason=None,
        not_before=0,
    )


@on(e.StepSucceeded)
def _step_succeeded(step: Step, event: e.StepSucceeded, at: int, state: str) -> Step:
    return _let_go(step)._replace(result=event.result, error=None, error_class=None)


@on(e.StepFailedRetryable)
def _step_failed_retryable(step: Step, event: e.StepFailedRetryable, at: int, state: str) -> Step:
    lost = event.error_class == "lost"
    return _let_go(step)._replace(
        retries=step.retries + (not lost),
        lost=step.lost + lost,
        error_class=event.error_class,
        error=event.error,
    )


@on(e.StepRetrying)
def _step_retrying(step: Step, event: e.StepRetrying, at: int, state: str) -> Step:
    return step._replace(not_before=event.not_before)


@on(e.StepFailedResource)
def _step_failed_resource(step: Step, event: e.StepFailedResource, at: int, state: str) -> Step:
    return _let_go(step)._replace(error_class="resource", error=event.error)


@on(e.StepSwitchingResource)
def _step_switching(step: Step, event: e.StepSwitchingResource, at: int, state: str) -> Step:
    return step._replace(avoid=tuple(event.avoid))


@on(e.StepFailedFatal)
def _step_failed_fatal(step: Step, event: e.StepFailedFatal, at: int, state: str) -> Step:
    return _let_go(step)._replace(error_class=event.error_class, error=event.error)


@on(e.StepFailed)
def _step_failed(step: Step, event: e.StepFailed, at: int, state: str) -> Step:
    return step._replace(reason=event.reason)


@on(e.StepNeedsUser)
def _step_needs_user(step: Step, event: e.StepNeedsUser, at: int, state: str) -> Step:
    return _let_go(step)._replace(wait=event.wait)


@on(e.StepLeaseTimeout)
def _step_lease_timeout(step: Step, event: e.StepLeaseTimeout, at: int, state: str) -> Step:
    return _let_go(step)._replace(reason=event.reason)
