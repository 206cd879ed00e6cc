"""Loading what a batch may look at: the jobs and tasks it names, and their neighbours."""

from collections.abc import Iterable, Sequence

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Checkpoint, Task, Wait
from detent.kernel.limit_commands import LimitCommand
from detent.kernel.predicates import DONE_TASK, ENDED_JOB
from detent.kernel.world import CHECKPOINTS, RUNS, SIGNALS, STEPS, WAITS, World
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query

#: Commands that move nothing but their own job and task.
NARROW = frozenset(
    {
        *(c.ClaimJob, c.RecordCheckpoint, c.BeginEffect, c.ReportProgress),
        *(c.AddEvidence, c.OpenSession, c.AttachEvidence, c.ReserveFunds),
    }
)
#: Commands after which somebody may spend: whose money it is, and who holds some of it, matters.
SPENDING = frozenset({c.ClaimJob, c.WakeJob, c.StartStep, c.RestPlan, c.ReserveFunds})
#: Commands that reach down a tree.
DEEP = (
    *(c.CancelTask, c.CancelJob, c.DeleteTask, c.DeleteJob, c.RaiseBudget, c.ExpireJob),
    c.DismissSubtask,
)
#: So many runs of one tree are looked at, to see who holds money.
MAX_AT_WORK = 10_000
#: So many ended waits are looked at, to see whether an answer was given before.
MAX_ENDED = 10_000


class Wanted:
    """The ids that a batch names, by how far around them it may look."""

    def __init__(self, commands: Sequence[c.Command], fresh: frozenset[str] = frozenset()) -> None:
        kinds = {type(command) for command in commands}
        self.tasks: set[str] = set()
        self.jobs: set[str] = set()
        #: Tasks and jobs whose parents and dependents may be moved too, and whose children may.
        self.wide = not kinds <= NARROW
        self.deep_tasks: set[str] = set()
        self.deep_jobs: set[str] = set()
        self.checkpoints: set[tuple[str, str]] = set()
        #: Runs that may have ended.
        self.runs: set[str] = set()
        self.money = not kinds.isdisjoint(SPENDING)
        #: Tasks that are to go on, which depends on what they wait for; answers, by their wait.
        self.behind: set[str] = set()
        self.answers: dict[str, str] = {}
        #: Jobs that are answered without saying what: any earlier answer may be repeated.
        self.answered_jobs: set[str] = set()
        #: Whether pauses or limits may change.
        self.limits = any(issubclass(kind, LimitCommand) for kind in kinds)
        for command in commands:
            self._want(command)
        self.tasks -= fresh
        self.jobs -= fresh

    def _want(self, command: c.Command) -> None:
        if isinstance(command, c.Report):
            self.jobs.add(command.grant.job_id)
            self._want_names(command)
        elif isinstance(command, c.JobCommand):
            self.jobs.add(command.job_id)
        elif isinstance(command, c.TaskCommand):
            self.tasks.add(command.task_id)
        if isinstance(command, c.SubmitTask):
            self.tasks.update(command.depends_on)
            self.tasks.update(filter(None, (command.parent_id,)))
        elif isinstance(command, c.ForkJob):
            self.jobs.add(command.source)
        elif isinstance(command, c.SubmitJob):
            self.jobs.update(filter(None, (command.parent_job_id,)))
        elif isinstance(command, DEEP) or _raises(command):
            self._want_below(command)
        elif isinstance(command, c.QueueTask | c.RetryTask | c.ResumeTask | c.UnblockTask):
            self.behind.add(command.task_id)
        elif isinstance(command, c.AnswerTask) and command.wait is not None:
            self.answers[command.task_id] = command.wait
        elif isinstance(command, c.AnswerJob) and command.wait is not None:
            self.checkpoints.add((command.job_id, command.wait))
        elif isinstance(command, c.AnswerJob):
            self.answered_jobs.add(command.job_id)
        elif isinstance(command, c.AttachEvidence):
            self.runs.add(command.run_id)

    def _want_names(self, command: c.Report) -> None:
        if isinstance(command, c.RecordCheckpoint | c.BeginEffect):
            self.checkpoints.add((command.grant.job_id, command.name))
        elif isinstance(command, c.SuspendRun):
            self.checkpoints.add((command.grant.job_id, command.wait))
            self._want_children(command.needs)

    def _want_children(self, needs: Iterable[str]) -> None:
        """Whose ends a run waits for: they may have come already."""
        for kind, _, child_id in (each.partition(":") for each in needs):
            if kind == "job":
                self.jobs.add(child_id)
            elif kind == "task":
                self.tasks.add(child_id)

    def _want_below(self, command: c.Command) -> None:
        if isinstance(command, c.TaskCommand):
            self.deep_tasks.add(command.task_id)
        elif isinstance(command, c.JobCommand):
            self.deep_jobs.add(command.job_id)


def _raises(command: c.Command) -> bool:
    return isinstance(command, c.EditTask) and command.budget is not None


def take_limits(tx: WriteTransaction, world: World) -> None:
    """All pauses and limits; nobody else changes them until the end of the transaction."""
    world.limits.update(tx.rows_for_update("limits"))
    world.versions[e.SYSTEM] = tx.version_of(e.SYSTEM)


def load(tx: ReadTransaction, wanted: Wanted, world: World | None = None) -> World:
    """The world around the named jobs and tasks, added to one that was begun."""
    world = World() if world is None else world
    _take_jobs(tx, world, wanted.jobs)
    if wanted.wide:
        _take_jobs(
            tx, world, {each.parent_job_id for each in world.jobs.values() if each.parent_job_id}
        )
    _take_tasks(
        tx, world, wanted.tasks | {job.task_id for job in world.jobs.values() if job.task_id}
    )
    _take_tasks(tx, world, _dependencies(world, wanted))
    wanted.checkpoints.update(_answered(world, wanted))
    if wanted.deep_tasks or wanted.deep_jobs:
        _take_below(tx, world, wanted)
    if wanted.wide and world.tasks:
        _take_around(tx, world)
    if wanted.money:
        take_spenders(tx, world)
    _take_jobs(tx, world, {task.job_id for task in world.tasks.values() if task.job_id})
    _take_parts(tx, world, wanted)
    _take_handled(tx, world)
    return world


def _dependencies(world: World, wanted: Wanted) -> set[str]:
    """What the tasks that are to go on still wait for."""
    waiting = [task for task in _named(world, wanted.behind) if task.open_dependencies]
    return {each for task in waiting for each in task.depends_on}


def _answered(world: World, wanted: Wanted) -> set[tuple[str, str]]:
    """Where the first answer to a question would stand."""
    tasks = _named(world, wanted.answers)
    return {(task.job_id, wanted.answers[task.id]) for task in tasks if task.job_id}


def _named(world: World, ids: Iterable[str]) -> list[Task]:
    return [world.tasks[each] for each in ids if each in world.tasks]


def _take_jobs(tx: ReadTransaction, world: World, ids: Iterable[str]) -> None:
    missing = [job_id for job_id in ids if job_id not in world.jobs]
    for job, version in tx.jobs(missing) if missing else ():
        world.jobs[job.id] = job
        world.versions[job.id] = version


def _take_tasks(tx: ReadTransaction, world: World, ids: Iterable[str]) -> None:
    missing = [task_id for task_id in ids if task_id not in world.tasks]
    for task, version in tx.tasks(missing) if missing else ():
        world.tasks[task.id] = task
        world.versions[task.id] = version


def _take_below(tx: ReadTransaction, world: World, wanted: Wanted) -> None:
    """Everything below what is to be cancelled or deleted."""
    tops = wanted.deep_tasks | {
        job.task_id for job in world.jobs.values() if job.task_id and job.id in wanted.deep_jobs
    }
    tasks = list(tx.children(tops)) if tops else []
    jobs = list(tx.child_jobs(wanted.deep_jobs)) if wanted.deep_jobs else []
    for parent, child in (*tasks, *jobs):
        world.children[parent] = (*world.children.get(parent, ()), child)
    _take_tasks(tx, world, [child for _, child in tasks])
    _take_jobs(tx, world, [child for _, child in jobs])


def _take_around(tx: ReadTransaction, world: World) -> None:
    """Ancestors of every task, and whoever waits for one of all these, until nobody new turns up.

    An end can go far: the last subtask ends its parent, whose dependents are released; a failure
    fails what waits for it, and what waits for that.
    """
    seen: set[str] = set()
    while new := [task for task in world.tasks.values() if task.id not in seen]:
        seen.update(task.id for task in new)
        near = {each for task in new for each in (task.parent_id, task.root_id) if each}
        for task_id, dependent in tx.dependents([task.id for task in new]):
            world.dependents[task_id] = (*world.dependents.get(task_id, ()), dependent)
            near.add(dependent)
        _take_tasks(tx, world, near)


def take_spenders(tx: ReadTransaction, world: World) -> None:
    """The tasks above those that are known, and who else of a tree with a budget is at work."""
    _take_lines(tx, world)
    roots = sorted({task.root_id for task in world.tasks.values() if task.budget is not None})
    if not roots:
        return
    at_work = Query("queue", {"root_id": roots, "worker": (">", "")}, limit=MAX_AT_WORK)
    _take_jobs(tx, world, [row["job_id"] for row in tx.page(at_work)])
    _take_tasks(tx, world, {job.task_id for job in world.jobs.values() if job.task_id})
    _take_lines(tx, world)


def _take_lines(tx: ReadTransaction, world: World) -> None:
    while above := {
        task.parent_id
        for task in world.tasks.values()
        if task.parent_id is not None and task.parent_id not in world.tasks
    }:
        _take_tasks(tx, world, above)
        if not above & world.tasks.keys():
            return  # a tree without its top: whoever needs it says so


def _take_parts(tx: ReadTransaction, world: World, wanted: Wanted) -> None:
    """Runs, steps, waits, signals and checkpoints, of the jobs that have any."""
    jobs = world.jobs.values()
    running = [job.id for job in jobs if job.state == "running"]
    planned = [job.id for job in jobs if job.plan_version > 0]
    waited = [job.id for job in jobs if job.waited and job.state not in ENDED_JOB]
    for run in tx.live_runs(running) if running else ():
        world.put_part(RUNS, run.job_id, run.id, run)
    for run in tx.runs(wanted.runs) if wanted.runs else ():
        world.put_part(RUNS, run.job_id, run.id, run)
    if planned:
        _take_plans(tx, world, planned, wanted)
    for wait in tx.waits(waited) if waited else ():
        world.put_part(WAITS, wait.job_id, wait.name, wait)
    for signal in tx.signals(waited) if waited else ():
        world.put_part(SIGNALS, signal.job_id, signal.name, signal)
    for checkpoint in tx.checkpoints(wanted.checkpoints) if wanted.checkpoints else ():
        world.put_part(CHECKPOINTS, checkpoint.job_id, checkpoint.name, checkpoint)
    if wanted.answered_jobs:
        _take_answers(tx, world, wanted.answered_jobs)


def _take_handled(tx: ReadTransaction, world: World) -> None:
    """Subtasks whose failure a handler is about to receive: they are settled when it does."""
    waits = [
        wait
        for (kind, _), parts in world.parts.items()
        if kind == WAITS
        for wait in parts.values()
        if wait.detail.get("outcomes")
    ]
    failed = {name for wait in waits for name in wait.needs if _tells_of_failure(world, wait, name)}
    if failed:
        _take_tasks(tx, world, [name.partition(":")[2] for name in failed])
        _take_jobs(tx, world, {task.job_id for task in world.tasks.values() if task.job_id})


def _tells_of_failure(world: World, wait: Wait, name: str) -> bool:
    signal = world.part(SIGNALS, wait.job_id, name)
    return (
        signal is not None and name.startswith("task:") and signal.value["state"] not in DONE_TASK
    )


def _take_answers(tx: ReadTransaction, world: World, job_ids: Iterable[str]) -> None:
    """How the waits of these jobs have ended."""
    ended = {"job_id": sorted(job_ids), "kind": "wait"}
    for row in tx.page(Query("checkpoints", ended, limit=MAX_ENDED)):
        world.put_part(CHECKPOINTS, row["job_id"], row["name"], Checkpoint(**row))


def _take_plans(tx: ReadTransaction, world: World, planned: list[str], wanted: Wanted) -> None:
    world.plans.update(tx.plans(planned))
    for step in tx.steps(planned):
        world.put_part(STEPS, step.job_id, step.name, step)
        if step.wait is not None:
            wanted.checkpoints.add((step.job_id, step.wait))
    for resource in tx.resources():
        world.resources[resource.id] = resource
        world.usage[resource.id] = resource.in_use
