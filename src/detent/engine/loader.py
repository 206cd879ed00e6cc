"""Loads what a batch may read or change: the tasks and jobs it names, and their relatives."""

from collections.abc import Iterable, Sequence

from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.commands.lifecycle_commands import LifecycleCommand
from detent.kernel.commands.limit_commands import LimitCommand
from detent.kernel.commands.review_commands import (
    AddComments,
    CommentCommand,
    ReopenComment,
    RequestChanges,
    ResolveComment,
)
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Checkpoint, Task, Wait
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.projections import COMMENT_PROJECTIONS
from detent.kernel.retention import Ending
from detent.kernel.task_lifecycle import Trigger, state_names
from detent.kernel.variants import VARIANTS
from detent.kernel.world import CHECKPOINTS, RUNS, SIGNALS, STEPS, WAITS, World
from detent.store.codec import read_record
from detent.store.log_walk import events_of
from detent.store.port import ReadTransaction, WriteTransaction
from detent.store.types import Query
from detent.task_lifecycles import SHIPPED

#: Commands that change nothing but their own job and task.
NARROW = frozenset(
    {
        *(c.ClaimJob, c.RecordCheckpoint, c.BeginEffect, c.ReportProgress),
        *(c.AddEvidence, c.OpenSession, c.AttachEvidence, c.ReserveFunds),
        *(AddComments, ResolveComment, ReopenComment),
    }
)
#: Commands that concern a job and its checkpoints only.
CHECKPOINTING = frozenset({c.RecordCheckpoint, c.BeginEffect})
#: Commands after which a run may spend money: the budgets above it are loaded too.
STARTS_RUNS = frozenset({c.ClaimJob, c.WakeJob, c.StartStep, c.RestPlan, c.ReserveFunds})
#: Commands that may change everything below their task or job.
DEEP = (
    *(c.CancelTask, c.CancelJob, c.DeleteTask, c.DeleteJob, c.RaiseBudget, c.ExpireJob),
    *(c.DismissSubtask, c.ChooseVariant, c.FireTimer),
)
#: The maximum number of running jobs of a tree that are loaded for their reservations.
MAX_RUNNING = 10_000
#: The maximum number of ended waits that are loaded to find an earlier answer.
MAX_ENDED_WAITS = 10_000


class LoadRequest:
    """The ids that a batch names, and which of their relatives must be loaded."""

    def __init__(self, commands: Sequence[c.Command]) -> None:
        kinds = {type(command) for command in commands}
        self.tasks: set[str] = set()
        self.jobs: set[str] = set()
        #: Whether live runs are read: a checkpoint does not concern them.
        self.live_runs = not kinds <= CHECKPOINTING
        #: Whether parents and dependents may change too; tasks and jobs whose trees may change.
        self.related = not kinds <= NARROW
        self.deep_tasks: set[str] = set()
        self.deep_jobs: set[str] = set()
        self.checkpoints: set[tuple[str, str]] = set()
        #: Runs that are named, live or ended.
        self.runs: set[str] = set()
        self.budgets = not kinds.isdisjoint(STARTS_RUNS)
        #: Tasks (or their jobs) to queue again, whose dependencies matter; answered tasks, by the
        #: name of the wait.
        self.queued_again: set[str] = set()
        self.answered_tasks: dict[str, str] = {}
        #: Tasks and jobs whose question is answered: it may be which of their variants to choose.
        self.answered: set[str] = set()
        #: Jobs that are answered without the name of a wait: any earlier answer may be repeated.
        self.answered_jobs: set[str] = set()
        #: Tasks whose comments are read.
        self.commented: set[str] = set()
        #: Whether tasks are deleted, of which the runs of all jobs are counted.
        self.deletes = c.DeleteTask in kinds
        #: Whether pauses or limits may change.
        self.limits = any(issubclass(kind, LimitCommand) for kind in kinds)
        #: Whether runs are charged, which is counted for their projects.
        self.charges = c.ChargeRun in kinds
        #: Whether lifecycles are installed or removed.
        self.lifecycles = any(issubclass(kind, LifecycleCommand) for kind in kinds)
        #: Whether tasks of an installed lifecycle are submitted: it must not be removed meanwhile.
        self.uses_installed = False
        for command in commands:
            self._add(command)

    def leave_out(self, fresh: frozenset[str]) -> None:
        """Load nothing under ids that were just generated."""
        self.tasks -= fresh
        self.jobs -= fresh

    def _add(self, command: c.Command) -> None:
        if isinstance(command, c.RecordCheckpoint | c.BeginEffect):
            self.jobs.add(command.grant.job_id)
            self.checkpoints.add((command.grant.job_id, command.name))
            return
        if isinstance(command, c.Report):
            self.jobs.add(command.grant.job_id)
            self._add_named_parts(command)
        elif isinstance(command, c.JobCommand):
            self.jobs.add(command.job_id)
        elif isinstance(command, c.TaskCommand):
            self.tasks.add(command.task_id)
        if isinstance(command, CommentCommand):
            self.commented.add(command.task_id)
        if isinstance(command, AddComments) and command.check_id is not None:
            self.jobs.add(command.check_id)
        if isinstance(command, DEEP) or _changes_budget(command) or _sends_cancel(command):
            self._add_tree(command)
        if isinstance(command, c.SubmitTask):
            self.tasks.update(command.depends_on)
            self.tasks.update(filter(None, (command.parent_id,)))
            self.uses_installed |= command.lifecycle not in SHIPPED
        elif isinstance(command, c.ForkJob):
            self.jobs.add(command.source)
        elif isinstance(command, c.SubmitJob):
            self.jobs.update(filter(None, (command.parent_job_id,)))
        elif isinstance(command, c.QueueTask | c.RetryTask | c.ResumeTask | c.UnblockTask):
            self.queued_again.add(command.task_id)
        elif isinstance(command, c.AnswerTask | c.AnswerJob):
            self._add_answer(command)
        elif isinstance(command, c.SendEvent | RequestChanges | c.FireTimer):
            self.queued_again.add(command.task_id)
        elif isinstance(command, c.RetryJob):
            self.queued_again.add(command.job_id)
        elif isinstance(command, c.AttachEvidence):
            self.runs.add(command.run_id)

    def _add_answer(self, command: c.AnswerTask | c.AnswerJob) -> None:
        if isinstance(command, c.AnswerJob):
            self.answered.add(command.job_id)
            if command.wait is None:
                self.answered_jobs.add(command.job_id)
            else:
                self.checkpoints.add((command.job_id, command.wait))
        else:
            self.answered.add(command.task_id)
            if command.wait is not None:
                self.answered_tasks[command.task_id] = command.wait

    def _add_named_parts(self, command: c.Report) -> None:
        if isinstance(command, c.SuspendRun):
            self.checkpoints.add((command.grant.job_id, command.wait))
            self._add_children(command.needs)
        elif isinstance(command, c.RequestPermission):
            self.checkpoints.add((command.grant.job_id, command.wait))

    def _add_children(self, needs: Iterable[str]) -> None:
        """Add the children whose ends a run waits for: they may have ended before."""
        for kind, _, child_id in (each.partition(":") for each in needs):
            if kind == "job":
                self.jobs.add(child_id)
            elif kind == "task":
                self.tasks.add(child_id)

    def _add_tree(self, command: c.Command) -> None:
        if isinstance(command, c.TaskCommand):
            self.deep_tasks.add(command.task_id)
        elif isinstance(command, c.JobCommand):
            self.deep_jobs.add(command.job_id)


def _changes_budget(command: c.Command) -> bool:
    return isinstance(command, c.EditTask | c.RetryTask) and command.budget is not None


def _sends_cancel(command: c.Command) -> bool:
    return isinstance(command, c.SendEvent) and command.event == e.TaskCancelled.name


def load_limits(tx: WriteTransaction, world: World) -> None:
    """Load all pauses and limits; no other transaction changes them until this one has ended."""
    world.limits.update(tx.rows_for_update("limits"))
    world.versions[e.SYSTEM] = tx.version_of(e.SYSTEM)


def load_lifecycles(tx: WriteTransaction, world: World) -> None:
    """Load all lifecycles, and how many tasks have each.

    No other transaction changes lifecycles or submits tasks of them until this one has ended.
    """
    world.installed.update(tx.rows_for_update("lifecycles"))
    world.lifecycles = dict(tx.lifecycles())
    world.versions[e.LIFECYCLES] = tx.version_of(e.LIFECYCLES)
    mine = {"lifecycle": list(world.installed)}
    world.tasks_of_lifecycles = tx.count_by(Query("tasks", mine), "lifecycle")


def hold_lifecycles(tx: WriteTransaction, world: World) -> None:
    """Load all lifecycles; a transaction that removes one waits until this one has ended."""
    tx.rows_held("lifecycles")
    world.lifecycles = dict(tx.lifecycles())


def load(tx: ReadTransaction, request: LoadRequest, world: World | None = None) -> World:
    """Load the named jobs and tasks with their relatives, into a given world or a new one."""
    world = World(lifecycles=tx.lifecycles()) if world is None else world
    _load_jobs(tx, world, request.jobs)
    if request.related:
        _load_jobs(
            tx, world, {each.parent_job_id for each in world.jobs.values() if each.parent_job_id}
        )
    _load_tasks(
        tx, world, request.tasks | {job.task_id for job in world.jobs.values() if job.task_id}
    )
    _load_tasks(tx, world, _dependencies(world, request))
    request.checkpoints.update(_answered_waits(world, request))
    request.deep_tasks.update(_choices(world, request), _cancelled_by_rules(world))
    if request.deep_tasks or request.deep_jobs:
        _load_trees(tx, world, request)
    if request.related and world.tasks:
        _load_related(tx, world)
    if request.budgets:
        load_spenders(tx, world)
    _load_jobs(tx, world, {task.job_id for task in world.tasks.values() if task.job_id})
    if request.deletes:
        _load_jobs(tx, world, _earlier_jobs(world))
    _load_parts(tx, world, request)
    _load_failed_subtasks(tx, world)
    for task in _known_tasks(world, request.commented):
        _load_comments(tx, world, task)
    return world


def _dependencies(world: World, request: LoadRequest) -> set[str]:
    """Return the open dependencies of the tasks that are queued again."""
    return {
        each
        for task in world.tasks.values()
        if task.open_dependencies and not request.queued_again.isdisjoint({task.id, task.job_id})
        for each in task.depends_on
    }


def _answered_waits(world: World, request: LoadRequest) -> set[tuple[str, str]]:
    """Return the checkpoints that hold an earlier answer to the same question."""
    tasks = _known_tasks(world, request.answered_tasks)
    return {(task.job_id, request.answered_tasks[task.id]) for task in tasks if task.job_id}


def _choices(world: World, request: LoadRequest) -> set[str]:
    """Return the answered tasks with variants: the answer chooses one and cancels the others."""
    if not request.answered:
        return set()
    return {
        task.id
        for task in world.tasks.values()
        if VARIANTS in task.options and not request.answered.isdisjoint({task.id, task.job_id})
    }


def _cancelled_by_rules(world: World) -> set[str]:
    """Return the tasks with subtasks that the end of their job may cancel, by their lifecycle."""
    return {
        task.id
        for task in world.tasks.values()
        if task.open_subtasks > 0
        and any(
            e.TaskCancelled.name in rule.then
            for when in (Trigger.JOB_COMPLETED, Trigger.JOB_FAILED)
            for rule in world.lifecycle(task).by_trigger[when]
        )
    }


def _earlier_jobs(world: World) -> set[str]:
    tasks = [task for task in world.tasks.values() if task.jobs > 1]
    return {each for task in tasks for each in jobs_of_task(task.id, task.jobs - 1)}


def _known_tasks(world: World, ids: Iterable[str]) -> list[Task]:
    return [world.tasks[each] for each in ids if each in world.tasks]


def _load_jobs(tx: ReadTransaction, world: World, ids: Iterable[str]) -> None:
    missing = [job_id for job_id in ids if job_id not in world.jobs]
    for job, version in tx.jobs(missing) if missing else ():
        world.jobs[job.id] = job
        world.versions[job.id] = version


def _load_tasks(tx: ReadTransaction, world: World, ids: Iterable[str]) -> None:
    missing = [task_id for task_id in ids if task_id not in world.tasks]
    for task, version in tx.tasks(missing) if missing else ():
        world.tasks[task.id] = task
        world.versions[task.id] = version


def _load_trees(tx: ReadTransaction, world: World, request: LoadRequest) -> None:
    """Load the trees below tasks and jobs that are cancelled or deleted."""
    tops = request.deep_tasks | {
        job.task_id for job in world.jobs.values() if job.task_id and job.id in request.deep_jobs
    }
    tasks = list(tx.children(tops)) if tops else []
    jobs = list(tx.child_jobs(request.deep_jobs)) if request.deep_jobs else []
    for parent, child in (*tasks, *jobs):
        world.children[parent] = (*world.children.get(parent, ()), child)
    _load_tasks(tx, world, [child for _, child in tasks])
    _load_jobs(tx, world, [child for _, child in jobs])


def _load_related(tx: ReadTransaction, world: World) -> None:
    """Load the ancestors and dependents of every task, and theirs, until there are no more.

    The end of a task can change many: the last subtask finishes its parent, which releases its
    dependents; a failure fails all dependents, and their dependents.
    """
    seen: set[str] = set()
    while new := [task for task in world.tasks.values() if task.id not in seen]:
        seen.update(task.id for task in new)
        related = {each for task in new for each in (task.parent_id, task.root_id) if each}
        for task_id, dependent in tx.dependents([task.id for task in new]):
            world.dependents[task_id] = (*world.dependents.get(task_id, ()), dependent)
            related.add(dependent)
        _load_tasks(tx, world, related)


def load_spenders(tx: ReadTransaction, world: World) -> None:
    """Load the ancestors of the loaded tasks, and the running jobs of their trees with a budget."""
    _load_ancestors(tx, world)
    roots = sorted({task.root_id for task in world.tasks.values() if task.budget is not None})
    if not roots:
        return
    running_jobs = Query("queue", {"root_id": roots, "worker": (">", "")}, limit=MAX_RUNNING)
    _load_jobs(tx, world, [row["job_id"] for row in tx.page(running_jobs)])
    _load_tasks(tx, world, {job.task_id for job in world.jobs.values() if job.task_id})
    _load_ancestors(tx, world)


def _load_ancestors(tx: ReadTransaction, world: World) -> None:
    while above := {
        task.parent_id
        for task in world.tasks.values()
        if task.parent_id is not None and task.parent_id not in world.tasks
    }:
        _load_tasks(tx, world, above)
        if not above & world.tasks.keys():
            return  # the root is missing: reading it raises the error


def _load_parts(tx: ReadTransaction, world: World, request: LoadRequest) -> None:
    """Load the runs, steps, waits, signals and checkpoints of the jobs that have any."""
    jobs = world.jobs.values()
    running = [job.id for job in jobs if job.state == "running" and request.live_runs]
    planned = [job.id for job in jobs if job.plan_version > 0]
    waited = [job.id for job in jobs if job.waited and job.state not in ENDED_JOB]
    for run in tx.live_runs(running) if running else ():
        world.put_part(RUNS, run.job_id, run.id, run)
    for run in tx.runs(request.runs) if request.runs else ():
        world.put_part(RUNS, run.job_id, run.id, run)
    if planned:
        _load_plans(tx, world, planned, request)
    for wait in tx.waits(waited) if waited else ():
        world.put_part(WAITS, wait.job_id, wait.name, wait)
    for signal in tx.signals(waited) if waited else ():
        world.put_part(SIGNALS, signal.job_id, signal.name, signal)
    for checkpoint in tx.checkpoints(request.checkpoints) if request.checkpoints else ():
        world.put_part(CHECKPOINTS, checkpoint.job_id, checkpoint.name, checkpoint)
    if request.answered_jobs:
        _load_ended_waits(tx, world, request.answered_jobs)


def _load_failed_subtasks(tx: ReadTransaction, world: World) -> None:
    """Load failed subtasks whose outcome a handler is about to receive, which settles them."""
    waits = [
        wait
        for (kind, _), parts in world.parts.items()
        if kind == WAITS
        for wait in parts.values()
        if wait.detail.get("outcomes")
    ]
    failed = {name for wait in waits for name in wait.needs if _signals_failure(world, wait, name)}
    if failed:
        _load_tasks(tx, world, [name.partition(":")[2] for name in failed])
        _load_jobs(tx, world, {task.job_id for task in world.tasks.values() if task.job_id})


def _load_comments(tx: ReadTransaction, world: World, task: Task) -> None:
    """Read the comments of a task from its stream: no table has them."""
    wanted = {event.name for event in COMMENT_PROJECTIONS}
    for logged in events_of(tx, task.id):
        if logged.name in wanted:
            record = read_record(logged)
            COMMENT_PROJECTIONS[type(record.event)](world, record, record.event)


def _signals_failure(world: World, wait: Wait, name: str) -> bool:
    """Whether a subtask, which may have any lifecycle, has signalled that it did not end well."""
    signal = world.part(SIGNALS, wait.job_id, name)
    if signal is None or not name.startswith("task:"):
        return False
    done = state_names(world.lifecycles, lambda state: state.ending is Ending.DONE)
    return signal.value["state"] not in done


def _load_ended_waits(tx: ReadTransaction, world: World, job_ids: Iterable[str]) -> None:
    """Load the outcomes of the ended waits of these jobs."""
    ended = {"job_id": sorted(job_ids), "kind": "wait"}
    for row in tx.page(Query("checkpoints", ended, limit=MAX_ENDED_WAITS)):
        world.put_part(CHECKPOINTS, row["job_id"], row["name"], Checkpoint(**row))


def _load_plans(
    tx: ReadTransaction, world: World, planned: list[str], request: LoadRequest
) -> None:
    world.plans.update(tx.plans(planned))
    for step in tx.steps(planned):
        world.put_part(STEPS, step.job_id, step.name, step)
        if step.wait is not None:
            request.checkpoints.add((step.job_id, step.wait))
    for resource in tx.resources():
        world.resources[resource.id] = resource
        world.usage[resource.id] = resource.in_use
