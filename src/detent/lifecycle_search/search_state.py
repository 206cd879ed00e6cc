"""A state of the search: the kernel's world, the time, and the rounds that events have counted."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from detent.kernel import events as e
from detent.kernel.acceptance import is_acceptance
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.world import CHECKPOINTS, STEPS, WAITS, World


class SearchState(NamedTuple):
    world: World
    now: int
    #: By task, how many events that count a round it has had. The kernel's own count is not used.
    rounds: Mapping[str, int]


def world_after(world: World, draft: Draft) -> World:
    """Return a copy of the world with the changes of a draft."""
    copy = World(lifecycles=world.lifecycles)
    for name, value in vars(world).items():
        setattr(copy, name, dict(value) if type(value) is dict else value)
    copy.merge(draft, draft.records)
    return copy


def rounds_after(
    lifecycle: TaskLifecycle, rounds: Mapping[str, int], records: Sequence[e.Record]
) -> Mapping[str, int]:
    counted = {*lifecycle.rounds.events, e.TaskRejected.name}
    more = [each.stream for each in records if each.event.name in counted]
    if not more:
        return rounds
    return {
        name: count + more.count(name)
        for name, count in {**dict.fromkeys(more, 0), **rounds}.items()
    }


def job_of(world: World, task: Task) -> Job | None:
    return None if task.job_id is None else world.jobs[task.job_id]


# ---- when two states are one -----------------------------------------------------------------
#
# Dropped is what no decision about a lifecycle reads: times (an action that depends on a time
# happens when it is due), serial numbers of jobs and runs, fences, texts. Of a job that has ended
# only its end is left, and of earlier jobs of a task nothing.


def key(state: SearchState) -> tuple[Any, ...]:
    """What tells a state from every other one that behaves differently."""
    world = state.world
    return tuple(
        _task_key(state, task, state.rounds.get(task.id, 0)) for task in world.tasks.values()
    )


def _task_key(state: SearchState, task: Task, rounds: int) -> tuple[Any, ...]:
    job = job_of(state.world, task)
    return (
        task.state,
        task.open_dependencies,
        task.failed_dependency is None,
        task.open_subtasks,
        task.settled,
        task.blocked_by,
        task.retries_left == 0,
        task.rounds,
        rounds,
        task.cancel_reason is None,
        _job_key(state.world, job),
        () if job is None else _step_keys(state, job),
    )


def _step_keys(state: SearchState, job: Job) -> tuple[Any, ...]:
    """The steps of a plan that a job may still execute."""
    if job.state in ("completed", "cancelled"):
        return ()
    return tuple(
        (
            *(step.name, step.state, step.run_id is None, step.wait is None),
            *(step.retries, step.lost, step.not_before > state.now),
        )
        for step in state.world.parts_of(STEPS, job.id).values()
    )


def _job_key(world: World, job: Job | None) -> tuple[Any, ...]:
    if job is None:
        return ()
    if job.state in ENDED_JOB and job.state != "failed":
        return (job.state,)
    named = (*world.parts_of(WAITS, job.id), *world.parts_of(CHECKPOINTS, job.id))
    if job.state == "failed":
        return (job.state, named)
    counts = tuple(sorted(job.failures.items()))
    asked = job.cancel_reason is None
    return (job.state, named, counts, job.lost, asked, is_acceptance(job))


def label(state: SearchState) -> str:
    """The states of the tasks, as they are shown after a step."""
    tasks = state.world.tasks.values()
    if len(tasks) == 1:
        return next(iter(tasks)).state
    return ", ".join(f"{task.id} {task.state}" for task in tasks)
