"""The changes of an event beyond its own entity: the parts of a job or task that change with it."""

from collections.abc import Callable, Mapping
from typing import Any

from detent.kernel import events as e
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Checkpoint, Comment, Run, Signal, Step, Wait
from detent.kernel.entity_store import (
    CHECKPOINTS,
    COMMENTS,
    RUNS,
    SIGNALS,
    STEPS,
    WAITS,
    EntityStore,
)
from detent.kernel.plan import validate
from detent.kernel.wait_kinds import PERMISSION, POLLS

#: States of a step that waits and continues in place afterwards.
CONTINUES_IN_PLACE = frozenset({"needs_user", "running"})

Projection = Callable[[EntityStore, e.Record, Any], None]


def woken(step: Step) -> bool:
    """Whether its own wait has ended and it has had no run since."""
    return step.state in CONTINUES_IN_PLACE and step.not_before > step.state_at


# ---- runs and steps --------------------------------------------------------------------------


def _run_queued(world: EntityStore, record: e.Record, event: e.RunQueued) -> None:
    """Record the run on its step, which now holds the resource."""
    if event.step is None:
        return
    job = world.job(record.stream)
    world.jobs[job.id] = job._replace(runs=job.runs + 1)
    step: Step = world.part(STEPS, job.id, event.step)
    held = step._replace(run_id=record.subject, resource=event.resource, held_until=None)
    world.put_step(job.id, event.step, held._replace(not_before=0) if woken(step) else held)


def _run_succeeded(world: EntityStore, record: e.Record, event: e.RunSucceeded) -> None:
    """A suspended step has no live run; its resource is freed unless it is held for a time."""
    _withdraw_permissions(world, record)
    if event.outcome == "suspended":
        _free_step(world, record, event.held_until)


def _run_cancelled(world: EntityStore, record: e.Record, event: e.RunCancelled) -> None:
    """The run no longer holds the resource of its step."""
    _withdraw_permissions(world, record)
    _free_step(world, record, None)


def _run_failed(world: EntityStore, record: e.Record, event: e.Event) -> None:
    _withdraw_permissions(world, record)


def _withdraw_permissions(world: EntityStore, record: e.Record) -> None:
    """Remove the requests for permission of an ended run: no process waits for the answer."""
    if not world.job(record.stream).waited:
        return
    for name, wait in world.parts_of(WAITS, record.stream).items():
        if wait.kind == PERMISSION and wait.detail.get("run") == record.subject:
            world.put_part(WAITS, record.stream, name, None)


def _free_step(world: EntityStore, record: e.Record, held_until: int | None) -> None:
    run: Run = world.part(RUNS, record.stream, record.subject or "")
    if run.step is None:
        return
    step: Step = world.part(STEPS, record.stream, run.step)
    kept = step.resource if held_until else None
    aside = step._replace(run_id=None, resource=kept, held_until=held_until)
    world.put_step(record.stream, run.step, aside)


def _plan_generated(world: EntityStore, record: e.Record, event: e.PlanGenerated) -> None:
    """Replace the steps by those of the new plan version; carried results are kept."""
    world.plans[record.stream] = validate(event.plan)
    for name in world.parts_of(STEPS, record.stream):
        world.put_step(record.stream, name, None)
    for name, result in event.carried.items():
        kept = Step(record.stream, event.plan_version, name, "succeeded", record.at, result=result)
        world.put_step(record.stream, name, kept)


# ---- waits and signals -----------------------------------------------------------------------


def _mark_waited(world: EntityStore, job_id: str) -> None:
    job = world.job(job_id)
    if not job.waited:
        world.jobs[job_id] = job._replace(waited=True)


def _wait_begun(world: EntityStore, record: e.Record, event: e.WaitBegun) -> None:
    """Begin a wait; signals that were received before are counted."""
    assert record.subject is not None
    _mark_waited(world, record.stream)
    signals = world.parts_of(SIGNALS, record.stream)
    wait = Wait(
        record.stream,
        record.subject,
        event.kind,
        record.at,
        step=event.step,
        needs=tuple(event.needs),
        missing=sum(1 for name in event.needs if name not in signals),
        due_at=event.due_at,
        detail=event.detail,
    )
    world.put_part(WAITS, record.stream, record.subject, wait)


def _signal_received(world: EntityStore, record: e.Record, event: e.SignalReceived) -> None:
    assert record.subject is not None
    _mark_waited(world, record.stream)
    signal = Signal(record.stream, record.subject, record.at, event.value)
    world.put_part(SIGNALS, record.stream, record.subject, signal)
    for name, wait in world.parts_of(WAITS, record.stream).items():
        if record.subject in wait.needs:
            world.put_part(WAITS, record.stream, name, wait._replace(missing=wait.missing - 1))


def _wait_completed(world: EntityStore, record: e.Record, event: e.WaitCompleted) -> None:
    """End the wait, and all polls: the job checks everything again."""
    _end_wait(world, record.stream, event.wait, event.outcome, event.value)
    _wake_step(world, record, event.step)
    for name, wait in world.parts_of(WAITS, record.stream).items():
        if wait.kind in POLLS:
            world.put_part(WAITS, record.stream, name, None)


def _wait_ended(world: EntityStore, record: e.Record, event: e.WaitEnded) -> None:
    assert record.subject is not None
    _end_wait(world, record.stream, record.subject, event.outcome, event.value)
    _wake_step(world, record, event.step)


def _wake_step(world: EntityStore, record: e.Record, name: str | None) -> None:
    """Record since when the step that waited needs its resource again."""
    step: Step | None = world.part(STEPS, record.stream, name) if name else None
    if step is not None and step.state in CONTINUES_IN_PLACE:
        world.put_step(record.stream, step.name, step._replace(not_before=record.at))


def _end_wait(world: EntityStore, job_id: str, name: str, outcome: str, value: Any) -> None:
    """Remove the wait and keep its outcome as a checkpoint, which the handler reads."""
    wait: Wait | None = world.part(WAITS, job_id, name)
    if wait is None:
        return
    world.put_part(WAITS, job_id, name, None)
    if wait.kind in POLLS:
        return
    for need in wait.needs:
        signal = world.part(SIGNALS, job_id, need)
        if signal is not None:
            world.put_part(SIGNALS, job_id, need, signal._replace(taken=True))
    outcome_of_wait = {"outcome": outcome, "value": value}
    done = Checkpoint(job_id, name, "wait", True, outcome_of_wait, wait.step)
    world.put_part(CHECKPOINTS, job_id, name, done)


def _wait_postponed(world: EntityStore, record: e.Record, event: e.WaitPostponed) -> None:
    assert record.subject is not None
    wait: Wait = world.part(WAITS, record.stream, record.subject)
    world.put_part(WAITS, record.stream, record.subject, wait._replace(due_at=event.due_at))


# ---- checkpoints and progress ----------------------------------------------------------------


def _checkpoint_recorded(world: EntityStore, record: e.Record, event: e.CheckpointRecorded) -> None:
    assert record.subject is not None
    done = Checkpoint(record.stream, record.subject, event.kind, True, event.value, event.step)
    world.put_part(CHECKPOINTS, record.stream, record.subject, done)
    _progress(world, record, event)


def _effect_begun(world: EntityStore, record: e.Record, event: e.EffectBegun) -> None:
    assert record.subject is not None
    policy = {"policy": event.policy}
    begun = Checkpoint(record.stream, record.subject, "effect", False, policy, event.step)
    world.put_part(CHECKPOINTS, record.stream, record.subject, begun)


def _progress(world: EntityStore, record: e.Record, event: e.Event) -> None:
    """Reset the count of lost workers: the job has made progress since the last loss."""
    job = world.job(record.stream)
    if job.lost:
        world.jobs[job.id] = job._replace(lost=0)


# ---- comments --------------------------------------------------------------------------------


def _comment_added(world: EntityStore, record: e.Record, event: e.CommentAdded) -> None:
    comment = Comment(event.comment_id, event.by or record.actor)
    world.put_part(COMMENTS, record.stream, comment.id, comment)


def _comment_replied(world: EntityStore, record: e.Record, event: e.CommentReplied) -> None:
    comment: Comment = world.part(COMMENTS, record.stream, event.comment_id)
    replied = comment._replace(replies={**comment.replies, event.reply_id: record.actor})
    world.put_part(COMMENTS, record.stream, comment.id, replied)


def _comment_resolved(world: EntityStore, record: e.Record, event: e.CommentResolved) -> None:
    comment: Comment = world.part(COMMENTS, record.stream, event.comment_id)
    world.put_part(COMMENTS, record.stream, comment.id, comment._replace(open=False))


def _comment_reopened(world: EntityStore, record: e.Record, event: e.CommentReopened) -> None:
    comment: Comment = world.part(COMMENTS, record.stream, event.comment_id)
    world.put_part(COMMENTS, record.stream, comment.id, comment._replace(open=True))


#: By event, what it changes in the comments of its task.
COMMENT_PROJECTIONS: Mapping[type[e.Event], Projection] = {
    e.CommentAdded: _comment_added,
    e.CommentReplied: _comment_replied,
    e.CommentResolved: _comment_resolved,
    e.CommentReopened: _comment_reopened,
}


# ---- beginnings and ends ---------------------------------------------------------------------


def _job_running(world: EntityStore, record: e.Record, event: e.JobRunning) -> None:
    """End all polls: the worker that claimed the job checks everything."""
    if world.job(record.stream).waited:
        for name, wait in world.parts_of(WAITS, record.stream).items():
            if wait.kind in POLLS:
                world.put_part(WAITS, record.stream, name, None)


def _job_requeued(world: EntityStore, record: e.Record, event: e.JobRequeued) -> None:
    """End the delay of retrying steps if a person has ended it."""
    if event.reason != "released":
        return
    for name, step in world.parts_of(STEPS, record.stream).items():
        if step.state == "retrying":
            world.put_step(record.stream, name, step._replace(not_before=0))


def _ended(world: EntityStore, record: e.Record, event: e.Event) -> None:
    """Remove the waits, signals and resources of an ended job."""
    job = world.job(record.stream)
    for kind in (WAITS, SIGNALS) if job.waited else ():
        for name in world.parts_of(kind, job.id):
            world.put_part(kind, job.id, name, None)
    for name, step in world.parts_of(STEPS, job.id).items() if job.plan_version else ():
        if step.resource is not None:
            world.put_step(job.id, name, step._replace(resource=None, held_until=None))


def _task_deleted(world: EntityStore, record: e.Record, event: e.TaskDeleted) -> None:
    """Remove the task and its jobs."""
    jobs = world.tasks[record.stream].jobs
    world.gone[record.stream] = None
    world.gone.update(dict.fromkeys(jobs_of_task(record.stream, jobs)))


def _job_deleted(world: EntityStore, record: e.Record, event: e.JobDeleted) -> None:
    world.gone[record.stream] = None


PROJECTIONS: Mapping[type[e.Event], Projection] = {
    **COMMENT_PROJECTIONS,
    e.RunQueued: _run_queued,
    e.RunSucceeded: _run_succeeded,
    e.RunFailed: _run_failed,
    e.RunTimedOut: _run_failed,
    e.RunCancelled: _run_cancelled,
    e.PlanGenerated: _plan_generated,
    e.WaitBegun: _wait_begun,
    e.SignalReceived: _signal_received,
    e.WaitCompleted: _wait_completed,
    e.WaitEnded: _wait_ended,
    e.WaitPostponed: _wait_postponed,
    e.CheckpointRecorded: _checkpoint_recorded,
    e.EffectBegun: _effect_begun,
    e.StepSucceeded: _progress,
    e.JobRunning: _job_running,
    e.JobRequeued: _job_requeued,
    e.JobCompleted: _ended,
    e.JobFailed: _ended,
    e.JobCancelled: _ended,
    e.TaskDeleted: _task_deleted,
    e.JobDeleted: _job_deleted,
}
