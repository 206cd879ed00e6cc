"""Visits every state of a task in the real kernel, and projects it to the TLA+ model.

Breadth first over `decide`: in every state every command is tried. Two states are one if no
decision could tell them apart. Workers report with the grant of the latest claim; that a stale one
is refused is checked by `verification.model_search`.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel.acceptance import CONFLICTS, is_acceptance
from detent.kernel.decide import decide
from detent.kernel.entities import Job, Task
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.world import WAITS, World
from detent.lifecycle_tla import Bounds
from detent.lifecycle_tla.bounds import constants
from verification.lifecycle_model.projection import (
    ABSENT,
    ModelState,
    Variables,
    model_state,
    project,
)
from verification.lifecycle_model.state_graph import Graph

PERSON, WORKER, KEEPER = c.Actor("person"), c.Actor("worker:w"), c.Actor("keeper")
LATER_US = 400 * 86_400_000_000
Action = tuple[c.Command, c.Actor, int]


def kernel_graph(lifecycle: TaskLifecycle, bounds: Bounds) -> Graph:
    """Return the states and transitions of the kernel, in the variables of the model."""
    names = _names(bounds)
    first = _beginning(lifecycle, bounds)
    options = _options(lifecycle, bounds)
    known = {_key(first, names)}
    states, transitions = {_projected(first, names)}, set()
    rest = deque([first])
    while rest:
        world = rest.popleft()
        before = _projected(world, names)
        for action in _actions(world, names, options):
            after = _after(world, action)
            if after is None:
                continue
            reached = _projected(after, names)
            states.add(reached)
            if reached != before:
                transitions.add((before, reached))
            key = _key(after, names)
            if key not in known:
                known.add(key)
                rest.append(after)
    return Graph(frozenset(states), frozenset(transitions))


def _names(bounds: Bounds) -> tuple[str, ...]:
    others = (("subtask", bounds.subtask), ("dependency", bounds.dependency))
    return ("task", *(name for name, wanted in others if wanted))


# ---- the beginning ---------------------------------------------------------------------------


def _options(lifecycle: TaskLifecycle, bounds: Bounds) -> Mapping[str, Any]:
    """The options of a task that give it the bounds of the model."""
    values = constants(lifecycle, bounds)
    classes = {
        "timeout": {"retries": values["TimeoutRetries"]},
        "lost": {"retries": values["LostRetries"]},
    }
    retry = {"retries": values["ErrorRetries"], "classes": classes}
    action = {"on_accept": "merge"} if "task_accepting" in lifecycle.targets else {}
    return {"retry": retry, "max_rounds": values["RoundLimit"], **action}


def _submit(name: str, lifecycle: str, options: Mapping[str, Any], **more: Any) -> c.SubmitTask:
    return c.SubmitTask(name, "model", lifecycle, "build", "cli", options=options, **more)


def _beginning(lifecycle: TaskLifecycle, bounds: Bounds) -> World:
    world = World(lifecycles={lifecycle.id: lifecycle})
    options = _options(lifecycle, bounds)
    others = ("dependency",) if bounds.dependency else ()
    for command in (
        *(_submit(name, lifecycle.id, options) for name in others),
        _submit("task", lifecycle.id, options, depends_on=others),
    ):
        draft = decide(world, command, 0, PERSON)
        world.merge(draft, draft.records)
    return world


# ---- everything that can be tried --------------------------------------------------------------


def _actions(world: World, names: tuple[str, ...], options: Mapping[str, Any]) -> Iterator[Action]:
    for name in names:
        task = world.find_task(name)
        if task is None:
            subtask = _submit(name, world.tasks["task"].lifecycle, options, parent_id="task")
            yield subtask, PERSON, 0
            continue
        yield from ((command, PERSON, 0) for command in _by_people(world, task))
        for timer in world.lifecycle(task).timers:
            yield c.FireTimer(name, task.state), KEEPER, task.state_at + timer.after_us
        yield c.CheckTask(name), KEEPER, LATER_US
        if task.job_id is not None:
            yield from _on_job(world, world.jobs[task.job_id])


def _by_people(world: World, task: Task) -> Iterator[c.Command]:
    yield from (
        *(c.QueueTask(task.id), c.RetryTask(task.id), c.ResumeTask(task.id)),
        *(c.UnblockTask(task.id), c.AcceptTask(task.id), c.RejectTask(task.id)),
        c.AcceptTask(task.id, without_action=True),
        *(c.AnswerTask(task.id, "yes"), c.CancelTask(task.id, "unwanted")),
        c.DismissSubtask(task.id),
    )
    for event in world.lifecycle(task).events:
        yield c.SendEvent(task.id, event)


def _on_job(world: World, job: Job) -> Iterator[Action]:
    yield c.ClaimJob(job.id, "w", "nonce"), WORKER, 0
    yield c.ClaimJob(job.id, "w", "nonce"), WORKER, LATER_US
    yield c.ReclaimJob(job.id, job.fence), KEEPER, 0
    yield c.RequeueJob(job.id), KEEPER, LATER_US
    for wait in world.parts_of(WAITS, job.id):
        yield c.WakeJob(job.id, wait), KEEPER, LATER_US
    if job.state == "running":
        yield from ((command, WORKER, 0) for command in _reports(job))


def _reports(job: Job) -> Iterator[c.Command]:
    grant, run = c.Grant(job.id, job.fence, job.nonce or ""), job.run_id or ""
    yield c.RecordCheckpoint(grant, f"checkpoint {run}")
    yield c.CompleteRun(grant, run, True)
    yield c.CompleteRun(grant, run, {CONFLICTS: ["file"]} if is_acceptance(job) else False)
    for kind in ("error", "budget", "rate_limit"):
        yield c.FailRun(grant, run, kind, "planted")
    yield c.TimeOutRun(grant, run)
    yield c.SuspendRun(grant, run, f"wait {run}", "question")
    yield c.SuspendRun(grant, run, f"wait {run}", "budget")
    yield c.SuspendRun(grant, run, f"wait {run}", "timer", due_at=1)
    yield c.HandBack(grant)
    yield c.ConfirmCancel(grant)


def _after(world: World, action: Action) -> World | None:
    """The world after a command; None if it was refused or changed nothing."""
    command, actor, now = action
    try:
        draft = decide(world, command, now, actor)
    except DetentError:
        return None
    if not draft.records:
        return None
    after = World(lifecycles=world.lifecycles)
    for name, value in vars(world).items():
        setattr(after, name, dict(value) if isinstance(value, dict) else value)
    after.merge(draft, draft.records)
    return after


# ---- when two states are one -------------------------------------------------------------------


def _key(world: World, names: tuple[str, ...]) -> tuple[Any, ...]:
    """What tells a state from every other one: the projection, and what else decisions read."""
    return (_projected(world, names), *(_unprojected(world, name) for name in names))


def _unprojected(world: World, name: str) -> tuple[Any, ...]:
    task = world.find_task(name)
    if task is None:
        return ()
    job = None if task.job_id is None else world.jobs[task.job_id]
    counts = (task.open_dependencies, task.open_subtasks, task.subtasks, task.blocked_by)
    if job is None or job.state in ("completed", "failed", "cancelled"):
        return counts
    waits = tuple(sorted(wait.kind for wait in world.parts_of(WAITS, job.id).values()))
    return (*counts, job.cancel_reason is None, job.resuming, waits)


def _projected(world: World, names: tuple[str, ...]) -> ModelState:
    return model_state({name: _variables(world, name) for name in names})


def _variables(world: World, name: str) -> Variables:
    task = world.find_task(name)
    if task is None:
        return ABSENT
    job = None if task.job_id is None else world.jobs[task.job_id]
    settled = name == "subtask" and name in world.tasks["task"].settled
    return project(world.lifecycle(task), task, job, settled)
