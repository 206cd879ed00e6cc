"""Time travel: a task at an earlier position of the log, and a job forked from one of its steps.

Both fold the log, which is append-only, so concurrent writes cannot change the result.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from detent import views
from detent.errors import Invalid, NotFound, Refused
from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Checkpoint, Job, Task
from detent.kernel.plan import SUCCEEDED, Plan
from detent.kernel.plan_progress import document_of
from detent.kernel.plan_steps import steps_of
from detent.kernel.world import CHECKPOINTS, World
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.store.codec import read_record
from detent.store.log_walk import events_of
from detent.store.port import ReadTransaction
from detent.store.types import LoggedEvent
from detent.submission.request import checked_id

#: The fields of a task that the kernel does not read.
DESCRIPTION = ("title", "payload", "tags")


def stream_events(view: ReadTransaction, stream: str) -> Iterator[tuple[LoggedEvent, e.Record]]:
    """The events of a stream in order, decoded for the kernel."""
    for logged in events_of(view, stream):
        if not logged.data:
            raise Refused(
                f"The history of {stream} was deleted by retention.", code="history_removed"
            )
        yield logged, read_record(logged)


# ---- as of -----------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/at")
def task_at(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    position: int | None = None,
    time: str | None = None,
) -> schemas.TaskThen:
    """Show a task and its jobs as they were after a position of the log or at a time."""
    if position is not None and time is not None:
        raise Invalid("Give position or time, not both.", field="position", given=position)
    until_us = None if time is None else moment_from(time)
    task, _ = core.task(caller, task_id)
    streams = [task_id, *jobs_of_task(task_id, task.jobs)]
    with core.store.read() as view:
        found = sorted(
            pair for name in streams for pair in events_before(view, name, position, until_us)
        )
        known = dict(view.lifecycles())
    if not found:
        raise NotFound(
            f"Task {task_id} did not exist at that time.",
            code="unknown_task",
            hint="Give a later position or time: the history of the task has them.",
        )
    world, described = World(lifecycles=known), dict.fromkeys(DESCRIPTION)
    for _, record in found:
        world.apply(record)
        described.update(_description(record.event))
    last = found[-1][0]
    return {
        "position": last.position,
        "at": views.utc(last.at),
        "task": {**_to_schema(world.tasks[task_id]), **described},
        "jobs": [_to_schema(job) for job in world.jobs.values()],
    }


def _to_schema(entity: Task | Job) -> dict[str, Any]:
    shown = views.shown(entity._asdict())
    return {name: list(each) if isinstance(each, tuple) else each for name, each in shown.items()}


def events_before(
    view: ReadTransaction, stream: str, position: int | None, until_us: int | None
) -> Iterator[tuple[LoggedEvent, e.Record]]:
    """The events of a stream up to a position or a time."""
    for logged, record in stream_events(view, stream):
        if position is not None and logged.position > position:
            return
        if until_us is not None and logged.at > until_us:
            return
        yield logged, record


def _description(event: e.Event) -> Mapping[str, Any]:
    if isinstance(event, e.TaskCreated):
        return {"title": event.title, "payload": event.payload, "tags": list(event.tags)}
    if isinstance(event, e.TaskEdited):
        return {name: event.changes[name] for name in DESCRIPTION if name in event.changes}
    return {}


def moment_from(given: str) -> int:
    """The time that a caller gave, in microseconds."""
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        moment = datetime.min
    if moment.tzinfo is None:
        form = "a time with a time zone, for example 2030-01-01T12:00:00Z"
        raise Invalid(
            f"time must be {form}, not {given!r}.", field="time", given=given, allowed=(form,)
        )
    at_us = round(moment.timestamp() * 1_000_000)
    # Times are shown in milliseconds: a whole millisecond includes everything that happened in it.
    return at_us + 999 if at_us % 1_000 == 0 else at_us


# ---- forking ---------------------------------------------------------------------------------


class Past(NamedTuple):
    """The recorded work of a job: its results in recorded order, and its plan."""

    results: Sequence[Checkpoint]
    plan: Plan | None
    #: The results of the plan's steps that have succeeded.
    done: Mapping[str, Any]


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/fork", status=201)
def fork_job(
    core: Core, caller: Caller, *, job_id: str, step: str, id: str | None = None
) -> schemas.Forked:
    """Fork a job: queue a new job that keeps the results from before a step and continues there."""
    core.job(caller, job_id)
    with core.store.read() as view:
        past = _past(view, job_id)
        payload = view.payloads([job_id]).get(job_id)
    new = new_id() if id is None else checked_id(id, "id")
    if past.plan is None:
        kept = _kept(past, step)
        command = c.ForkJob(new, job_id, step, payload, kept)
        names = [each.name for each in kept]
    else:
        carried = _carried(past.plan, past.done, step)
        plan = document_of(past.plan)
        command = c.ForkJob(new, job_id, step, payload, plan=plan, carried=carried)
        names = list(carried)
    core.engine.do(command, caller.actor)
    return {"id": new, "source": job_id, "until": step, "kept": names}


def _past(view: ReadTransaction, job_id: str) -> Past:
    world = World()
    order: dict[str, None] = {}
    for _, record in stream_events(view, job_id):
        world.apply(record)
        event = record.event
        name = event.wait if isinstance(event, e.WaitCompleted) else record.subject
        recorded = isinstance(event, e.CheckpointRecorded | e.WaitCompleted | e.WaitEnded)
        if recorded and name is not None:
            order.setdefault(name)
    results = world.parts_of(CHECKPOINTS, job_id)
    steps = steps_of(world, job_id)
    return Past(
        [results[name] for name in order if name in results and results[name].done],
        world.plans.get(job_id),
        {name: step.result for name, step in steps.items() if step.state == SUCCEEDED},
    )


def _kept(past: Past, until: str) -> tuple[c.KeptResult, ...]:
    """The results that were recorded before the step with that name."""
    names = [each.name for each in past.results]
    if until not in names:
        raise _unknown(until, names)
    before = past.results[: names.index(until)]
    return tuple(c.KeptResult(each.name, each.kind, each.value, each.step) for each in before)


def _carried(plan: Plan, done: Mapping[str, Any], until: str) -> dict[str, Any]:
    """The finished steps, without the step of that name and the steps that depend on it."""
    names = [step.name for step in plan.steps]
    if until not in names:
        raise _unknown(until, names)
    after = {until}
    while more := {
        step.name for step in plan.steps if step.name not in after and after & set(step.needs)
    }:
        after |= more
    return {name: result for name, result in done.items() if name not in after}


def _unknown(until: str, names: Sequence[str]) -> NotFound:
    listed = ", ".join(names) or "none"
    return NotFound(f"The job has no step {until!r}. Its steps are: {listed}.", known=names)
