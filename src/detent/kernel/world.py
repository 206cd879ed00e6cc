"""What a decision may look at and what it changes: entities by id, and how one event projects onto them.

A world lies over a base or over nothing. A draft is a world over what was loaded: it takes a command's changes and is
dropped if the command is refused. The same `apply` folds the log when rows are rebuilt.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from detent.errors import NotFound
from detent.kernel import events as e
from detent.kernel.evolve import evolve_job, evolve_run, evolve_step, evolve_task
from detent.kernel.plan import Plan, validate
from detent.kernel.state import Checkpoint, Job, Resource, Signal, Step, Task, Wait

#: The parts of a job, by the level of the events that move them.
RUNS, STEPS, WAITS, SIGNALS, CHECKPOINTS = "run", "step", "wait", "signal", "checkpoint"

NONE: Mapping[str, Any] = {}


class World:
    """Entities by id. Parts of a job (runs, steps, waits, signals, checkpoints) are found by kind, job and name."""

    def __init__(self, base: "World | None" = None) -> None:
        self.base = base
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        #: (kind, job id) to name to entity; None is a part that was dropped.
        self.parts: dict[tuple[str, str], dict[str, Any]] = {}
        #: The current plan of a job.
        self.plans: dict[str, Plan] = {}
        #: How many steps hold each resource; over a base, how many more.
        self.usage: dict[str, int] = {}
        if base is None:
            #: How many events each stream has.
            self.versions: dict[str, int] = {}
            #: Tasks that wait for a task; subtasks of a task.
            self.dependents: dict[str, tuple[str, ...]] = {}
            self.children: dict[str, tuple[str, ...]] = {}
            self.resources: dict[str, Resource] = {}
        else:
            self.versions = base.versions
            self.dependents = base.dependents
            self.children = base.children
            self.resources = base.resources

    # -- looking -------------------------------------------------------------------------------

    def find_task(self, task_id: str) -> Task | None:
        task = self.tasks.get(task_id)
        if task is None and self.base is not None:
            return self.base.tasks.get(task_id)
        return task

    def find_job(self, job_id: str) -> Job | None:
        job = self.jobs.get(job_id)
        if job is None and self.base is not None:
            return self.base.jobs.get(job_id)
        return job

    def task(self, task_id: str) -> Task:
        task = self.find_task(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id}", code="unknown_task")
        return task

    def job(self, job_id: str) -> Job:
        job = self.find_job(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id}", code="unknown_job")
        return job

    def part(self, kind: str, job_id: str, name: str) -> Any:
        key = (kind, job_id)
        own = self.parts.get(key)
        if own is not None and name in own:
            return own[name]
        return None if self.base is None else self.base.parts.get(key, NONE).get(name)

    def parts_of(self, kind: str, job_id: str) -> dict[str, Any]:
        key = (kind, job_id)
        below = NONE if self.base is None else self.base.parts.get(key, NONE)
        merged = {**below, **self.parts.get(key, NONE)}
        return {name: entity for name, entity in merged.items() if entity is not None}

    def plan(self, job_id: str) -> Plan:
        own = self.plans.get(job_id)
        return (
            self.base.plans[job_id] if own is None and self.base is not None else self.plans[job_id]
        )

    def in_use(self, resource: str) -> int:
        below = 0 if self.base is None else self.base.usage.get(resource, 0)
        return below + self.usage.get(resource, 0)

    # -- changing ------------------------------------------------------------------------------

    def put_part(self, kind: str, job_id: str, name: str, entity: Any) -> None:
        key = (kind, job_id)
        own = self.parts.get(key)
        if own is None:
            self.parts[key] = {name: entity}
        else:
            own[name] = entity

    def put_step(self, job_id: str, name: str, step: Step | None) -> None:
        """A step takes or frees its resource by changing."""
        before: Step | None = self.part(STEPS, job_id, name)
        for each, change in ((before, -1), (step, 1)):
            if each is not None and each.resource is not None:
                self.usage[each.resource] = self.usage.get(each.resource, 0) + change
        self.put_part(STEPS, job_id, name, step)

    def apply(self, record: e.Record) -> None:
        """Project one event onto the entity of its level and onto what hangs together with it."""
        event = record.event
        level = event.level
        stream, subject = record.stream, record.subject
        if level == "job":
            self.jobs[stream] = evolve_job(self.find_job(stream), record)
        elif level == "task":
            self.tasks[stream] = evolve_task(self.find_task(stream), record)
        elif level == RUNS and subject is not None:
            self.put_part(
                RUNS, stream, subject, evolve_run(self.part(RUNS, stream, subject), record)
            )
        elif level == STEPS and subject is not None:
            self.put_step(stream, subject, evolve_step(self.part(STEPS, stream, subject), record))
        also = ALSO.get(type(event))
        if also is not None:
            also(self, record, event)

    def merge(self, draft: "World", records: Iterable[e.Record]) -> None:
        """Take over what a draft has decided; the commands after it see its changes."""
        self.tasks.update(draft.tasks)
        self.jobs.update(draft.jobs)
        self.plans.update(draft.plans)
        for key, changes in draft.parts.items():
            merged = {**self.parts.get(key, NONE), **changes}
            self.parts[key] = {name: part for name, part in merged.items() if part is not None}
        for resource, change in draft.usage.items():
            self.usage[resource] = self.usage.get(resource, 0) + change
        for record in records:
            self.versions[record.stream] = self.versions.get(record.stream, 0) + 1
            self.relate(record)

    def relate(self, record: e.Record) -> None:
        """Note who waits for whom and who belongs to whom, once a new task is certain."""
        event = record.event
        if not isinstance(event, e.TaskCreated):
            return
        for dependency in event.depends_on:
            self.dependents[dependency] = (*self.dependents.get(dependency, ()), record.stream)
        if event.parent_id:
            self.children[event.parent_id] = (
                *self.children.get(event.parent_id, ()),
                record.stream,
            )


# ---- what an event does beside moving its own entity -----------------------------------------

Projection = Callable[[World, e.Record, Any], None]


def _run_queued(world: World, record: e.Record, event: e.RunQueued) -> None:
    """A step's run: the step now has it and holds the resource."""
    if event.step is None:
        return
    job = world.job(record.stream)
    world.jobs[job.id] = job._replace(runs=job.runs + 1)
    step: Step = world.part(STEPS, job.id, event.step)
    held = step._replace(run_id=record.subject, resource=event.resource, held_until=None)
    world.put_step(job.id, event.step, held)


def _run_succeeded(world: World, record: e.Record, event: e.RunSucceeded) -> None:
    """A suspended step has no live run; its resource goes unless it is held for a while."""
    if event.outcome != "suspended" or record.subject is None:
        return
    run = world.part(RUNS, record.stream, record.subject)
    if run.step is None:
        return
    step: Step = world.part(STEPS, record.stream, run.step)
    kept = step.resource if event.held_until else None
    asleep = step._replace(run_id=None, resource=kept, held_until=event.held_until)
    world.put_step(record.stream, run.step, asleep)


def _plan_generated(world: World, record: e.Record, event: e.PlanGenerated) -> None:
    """A new plan version: the former one's steps are history, but for the results that are kept."""
    world.plans[record.stream] = validate(event.plan)
    for name in world.parts_of(STEPS, record.stream):
        world.put_step(record.stream, name, None)
    for name, result in event.carried.items():
        kept = Step(record.stream, event.plan_version, name, "succeeded", record.at, result=result)
        world.put_step(record.stream, name, kept)


def _wait_begun(world: World, record: e.Record, event: e.WaitBegun) -> None:
    """Signals that came early count at once."""
    assert record.subject is not None
    signals = world.parts_of(SIGNALS, record.stream)
    missing = sum(1 for name in event.needs if name not in signals)
    wait = Wait(
        record.stream,
        record.subject,
        event.kind,
        record.at,
        step=event.step,
        needs=tuple(event.needs),
        missing=missing,
        due_at=event.due_at,
        detail=event.detail,
    )
    world.put_part(WAITS, record.stream, record.subject, wait)


def _signal_received(world: World, record: e.Record, event: e.SignalReceived) -> None:
    assert record.subject is not None
    world.put_part(
        SIGNALS,
        record.stream,
        record.subject,
        Signal(record.stream, record.subject, record.at, event.value),
    )
    for name, wait in world.parts_of(WAITS, record.stream).items():
        if record.subject in wait.needs:
            world.put_part(WAITS, record.stream, name, wait._replace(missing=wait.missing - 1))


def _wait_completed(world: World, record: e.Record, event: e.WaitCompleted) -> None:
    """The wait is over: its outcome is remembered like a checkpoint, so that the code finds it when it goes on."""
    wait: Wait | None = world.part(WAITS, record.stream, event.wait)
    if wait is None:
        return
    for name in wait.needs:
        signal = world.part(SIGNALS, record.stream, name)
        if signal is not None:
            world.put_part(SIGNALS, record.stream, name, signal._replace(taken=True))
    world.put_part(WAITS, record.stream, event.wait, None)
    value = {"outcome": event.outcome, "value": event.value}
    done = Checkpoint(record.stream, event.wait, "wait", True, value, wait.step)
    world.put_part(CHECKPOINTS, record.stream, event.wait, done)


def _checkpoint_recorded(world: World, record: e.Record, event: e.CheckpointRecorded) -> None:
    assert record.subject is not None
    done = Checkpoint(record.stream, record.subject, event.kind, True, event.value, event.step)
    world.put_part(CHECKPOINTS, record.stream, record.subject, done)
    _progress(world, record, event)


def _effect_begun(world: World, record: e.Record, event: e.EffectBegun) -> None:
    assert record.subject is not None
    begun = Checkpoint(
        record.stream, record.subject, "effect", False, {"policy": event.policy}, event.step
    )
    world.put_part(CHECKPOINTS, record.stream, record.subject, begun)


def _progress(world: World, record: e.Record, event: e.Event) -> None:
    """Progress between two losses shows that the job does not kill its workers."""
    job = world.job(record.stream)
    if job.lost:
        world.jobs[job.id] = job._replace(lost=0)


def _ended(world: World, record: e.Record, event: e.Event) -> None:
    """An ended job waits for nothing."""
    for kind in (WAITS, SIGNALS):
        for name in world.parts_of(kind, record.stream):
            world.put_part(kind, record.stream, name, None)


ALSO: Mapping[type[e.Event], Projection] = {
    e.RunQueued: _run_queued,
    e.RunSucceeded: _run_succeeded,
    e.PlanGenerated: _plan_generated,
    e.WaitBegun: _wait_begun,
    e.SignalReceived: _signal_received,
    e.WaitCompleted: _wait_completed,
    e.CheckpointRecorded: _checkpoint_recorded,
    e.EffectBegun: _effect_begun,
    e.StepSucceeded: _progress,
    e.JobCompleted: _ended,
    e.JobFailed: _ended,
    e.JobCancelled: _ended,
}
