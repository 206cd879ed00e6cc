"""What an event does beside moving its own entity: parts of a job that change along with it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from detent.kernel import events as e
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Checkpoint, Run, Signal, Step, Wait
from detent.kernel.plan import validate
from detent.kernel.wait_kinds import POLLS

if TYPE_CHECKING:
    from detent.kernel.world import World

#: The parts of a job, by the level of the events that move them.
RUNS, STEPS, WAITS, SIGNALS, CHECKPOINTS = "run", "step", "wait", "signal", "checkpoint"

#: Where a step is that waits for something of its own, and goes on in place afterwards.
ASLEEP = frozenset({"needs_user", "running"})

Projection = Callable[["World", e.Record, Any], None]


def woken(step: Step) -> bool:
    """Whether it goes on after a wait of its own, and has had no run since."""
    return step.state in ASLEEP and step.not_before > step.state_at


# ---- runs and steps --------------------------------------------------------------------------


def _run_queued(world: "World", record: e.Record, event: e.RunQueued) -> None:
    """A step's run: the step now has it and holds the resource."""
    if event.step is None:
        return
    job = world.job(record.stream)
    world.jobs[job.id] = job._replace(runs=job.runs + 1)
    step: Step = world.part(STEPS, job.id, event.step)
    held = step._replace(run_id=record.subject, resource=event.resource, held_until=None)
    world.put_step(job.id, event.step, held._replace(not_before=0) if woken(step) else held)


def _run_succeeded(world: "World", record: e.Record, event: e.RunSucceeded) -> None:
    """A suspended step has no live run; its resource goes unless it is held for a while."""
    if event.outcome == "suspended":
        _lay_aside(world, record, event.held_until)


def _run_cancelled(world: "World", record: e.Record, event: e.RunCancelled) -> None:
    """Whatever becomes of the step, this run does not hold its resource any more."""
    _lay_aside(world, record, None)


def _lay_aside(world: "World", record: e.Record, held_until: int | None) -> None:
    run: Run = world.part(RUNS, record.stream, record.subject or "")
    if run.step is None:
        return
    step: Step = world.part(STEPS, record.stream, run.step)
    kept = step.resource if held_until else None
    aside = step._replace(run_id=None, resource=kept, held_until=held_until)
    world.put_step(record.stream, run.step, aside)


def _plan_generated(world: "World", record: e.Record, event: e.PlanGenerated) -> None:
    """A new plan version: the former steps are history, but for the results that are kept."""
    world.plans[record.stream] = validate(event.plan)
    for name in world.parts_of(STEPS, record.stream):
        world.put_step(record.stream, name, None)
    for name, result in event.carried.items():
        kept = Step(record.stream, event.plan_version, name, "succeeded", record.at, result=result)
        world.put_step(record.stream, name, kept)


# ---- waits and signals -----------------------------------------------------------------------


def _note_wait(world: "World", job_id: str) -> None:
    job = world.job(job_id)
    if not job.waited:
        world.jobs[job_id] = job._replace(waited=True)


def _wait_begun(world: "World", record: e.Record, event: e.WaitBegun) -> None:
    """Signals that came early count at once."""
    assert record.subject is not None
    _note_wait(world, record.stream)
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


def _signal_received(world: "World", record: e.Record, event: e.SignalReceived) -> None:
    assert record.subject is not None
    _note_wait(world, record.stream)
    signal = Signal(record.stream, record.subject, record.at, event.value)
    world.put_part(SIGNALS, record.stream, record.subject, signal)
    for name, wait in world.parts_of(WAITS, record.stream).items():
        if record.subject in wait.needs:
            world.put_part(WAITS, record.stream, name, wait._replace(missing=wait.missing - 1))


def _wait_completed(world: "World", record: e.Record, event: e.WaitCompleted) -> None:
    """A job that wakes looks at everything again, whatever woke it."""
    _end_wait(world, record.stream, event.wait, event.outcome, event.value)
    _wake_step(world, record, event.step)
    for name, wait in world.parts_of(WAITS, record.stream).items():
        if wait.kind in POLLS:
            world.put_part(WAITS, record.stream, name, None)


def _wait_ended(world: "World", record: e.Record, event: e.WaitEnded) -> None:
    assert record.subject is not None
    _end_wait(world, record.stream, record.subject, event.outcome, event.value)
    _wake_step(world, record, event.step)


def _wake_step(world: "World", record: e.Record, name: str | None) -> None:
    """Since when the step that waited wants its resource again."""
    step: Step | None = world.part(STEPS, record.stream, name) if name else None
    if step is not None and step.state in ASLEEP:
        world.put_step(record.stream, step.name, step._replace(not_before=record.at))


def _end_wait(world: "World", job_id: str, name: str, outcome: str, value: Any) -> None:
    """The outcome is kept like a checkpoint, so that the code finds it when it goes on."""
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
    said = {"outcome": outcome, "value": value}
    done = Checkpoint(job_id, name, "wait", True, said, wait.step)
    world.put_part(CHECKPOINTS, job_id, name, done)


def _wait_postponed(world: "World", record: e.Record, event: e.WaitPostponed) -> None:
    assert record.subject is not None
    wait: Wait = world.part(WAITS, record.stream, record.subject)
    world.put_part(WAITS, record.stream, record.subject, wait._replace(due_at=event.due_at))


# ---- checkpoints and progress ----------------------------------------------------------------


def _checkpoint_recorded(world: "World", record: e.Record, event: e.CheckpointRecorded) -> None:
    assert record.subject is not None
    done = Checkpoint(record.stream, record.subject, event.kind, True, event.value, event.step)
    world.put_part(CHECKPOINTS, record.stream, record.subject, done)
    _progress(world, record, event)


def _effect_begun(world: "World", record: e.Record, event: e.EffectBegun) -> None:
    assert record.subject is not None
    said = {"policy": event.policy}
    begun = Checkpoint(record.stream, record.subject, "effect", False, said, event.step)
    world.put_part(CHECKPOINTS, record.stream, record.subject, begun)


def _progress(world: "World", record: e.Record, event: e.Event) -> None:
    """Progress between two losses shows that the job does not kill its workers."""
    job = world.job(record.stream)
    if job.lost:
        world.jobs[job.id] = job._replace(lost=0)


# ---- beginnings and ends ---------------------------------------------------------------------


def _job_running(world: "World", record: e.Record, event: e.JobRunning) -> None:
    """Reasons to look again are over: the worker that claimed the job looks at everything."""
    if world.job(record.stream).waited:
        for name, wait in world.parts_of(WAITS, record.stream).items():
            if wait.kind in POLLS:
                world.put_part(WAITS, record.stream, name, None)


def _job_requeued(world: "World", record: e.Record, event: e.JobRequeued) -> None:
    """Somebody ended the delay: it is over for the steps that it was for."""
    if event.reason != "released":
        return
    for name, step in world.parts_of(STEPS, record.stream).items():
        if step.state == "retrying":
            world.put_step(record.stream, name, step._replace(not_before=0))


def _ended(world: "World", record: e.Record, event: e.Event) -> None:
    """An ended job waits for nothing and holds nothing."""
    job = world.job(record.stream)
    for kind in (WAITS, SIGNALS) if job.waited else ():
        for name in world.parts_of(kind, job.id):
            world.put_part(kind, job.id, name, None)
    for name, step in world.parts_of(STEPS, job.id).items() if job.plan_version else ():
        if step.resource is not None:
            world.put_step(job.id, name, step._replace(resource=None, held_until=None))


def _task_deleted(world: "World", record: e.Record, event: e.TaskDeleted) -> None:
    """Its jobs go with it."""
    jobs = world.tasks[record.stream].jobs
    world.gone[record.stream] = None
    world.gone.update(dict.fromkeys(jobs_of_task(record.stream, jobs)))


def _job_deleted(world: "World", record: e.Record, event: e.JobDeleted) -> None:
    world.gone[record.stream] = None


ALSO: Mapping[type[e.Event], Projection] = {
    e.RunQueued: _run_queued,
    e.RunSucceeded: _run_succeeded,
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
