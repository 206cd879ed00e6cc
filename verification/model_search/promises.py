"""What must hold on every step of a search: the promises, compared with the records of an observer.

None of them asks a guard of the kernel, so that a broken guard cannot hide itself. `broken` names
the first promise that an accepted step breaks; `wrongly_refused` finds what should have been
possible. Pure.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.entities import Job, Task
from detent.kernel.world import RUNS, WAITS, World
from detent.task_lifecycles import all_lifecycles
from verification import settlement
from verification.model_search.observer import Witness, class_of

LIFECYCLES = all_lifecycles()


class Step(NamedTuple):
    """One accepted command: what was, what was asked, what happened, and what is now."""

    before: World
    witnesses: Mapping[str, Witness]
    command: c.Command
    actor: c.Actor
    records: list[e.Record]
    answer: Any
    after: World
    witnesses_after: Mapping[str, Witness]
    #: By job: how often each class of failure may be retried.
    allowed: Callable[[str], Mapping[str, int]]


class Broken(NamedTuple):
    promise: str
    what: str


Check = Callable[[Step], Iterator[Broken]]

LIVE_RUN = ("queued", "running")
FINAL_TASK = frozenset({"done", "completed", "cancelled", "budget_exceeded"})
#: Where a task may stand while its latest job is in a state.
LEVELS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "board": {
        "queued": frozenset({"todo", "doing", "blocked"}),
        "running": frozenset({"doing"}),
        "waiting": frozenset({"doing", "blocked"}),
        "parked": frozenset({"doing", "blocked"}),
        "retrying": frozenset({"blocked"}),
        "completed": frozenset({"done", "blocked", "cancelled"}),
        "failed": frozenset({"blocked", "cancelled"}),
        "cancelled": frozenset({"cancelled", "blocked"}),
    },
    "review": {
        "queued": frozenset({"queued", "running"}),
        "running": frozenset({"running"}),
        "waiting": frozenset({"running", "blocked"}),
        "parked": frozenset({"running", "blocked"}),
        "retrying": frozenset({"blocked"}),
        "completed": frozenset({"ready", "completed", "blocked", "pending", "cancelled"}),
        "failed": frozenset({"failed", "timed_out", "budget_exceeded"}),
        "cancelled": frozenset({"cancelled", "failed"}),
    },
}
#: Where else it may stand if the job has a plan: a claim starts no run yet, and one step may go on
#: while another waits for a person.
LEVELS_PLANNED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "board": {
        "running": frozenset({"todo", "blocked"}),
        "waiting": frozenset({"todo"}),
        "parked": frozenset({"todo"}),
        "retrying": frozenset({"todo"}),
    },
    "review": {
        "queued": frozenset({"blocked"}),
        "running": frozenset({"queued", "blocked"}),
        "waiting": frozenset({"queued"}),
        "parked": frozenset({"queued"}),
        "retrying": frozenset({"queued"}),
    },
}
#: What the holder may be refused: it used a name twice, nothing awaits what it confirms, or what a
#: plan can do has changed since it looked.
FAIRLY_REFUSED = frozenset(
    {
        *("name_used_twice", "not_cancelling", "no_resource", "step_not_startable"),
        *("step_can_start", "still_running", "plan_not_wanted", "budget_spent"),
    }
)
#: Reports that are answered with something else than the state of the job.
REPORTED_OTHERWISE = (c.StartStep, c.ChargeRun, c.ReserveFunds)
#: From where a cancel is never refused.
CANCELLABLE = {
    "board": frozenset({"inbox", "todo", "doing", "blocked"}),
    "review": frozenset({"pending", "queued", "running", "blocked", "ready"}),
}


# ---- what may be refused ---------------------------------------------------------------------


def wrongly_refused(
    world: World,
    witnesses: Mapping[str, Witness],
    command: c.Command,
    due: bool,
    error: DetentError,
) -> Broken | None:
    """Whether something was refused that must always be possible: a hang breaks a promise too."""
    if isinstance(command, c.Report):
        heard = witnesses[command.grant.job_id].holder == command.grant
        wrong = heard and error.code not in FAIRLY_REFUSED
        return Broken("P5", f"the holder was not heard: {error}") if wrong else None
    if isinstance(command, c.CancelJob | c.CancelTask):
        live = _cancellable(world, witnesses, command)
        return Broken("P11", f"a cancel was refused: {error}") if live else None
    if isinstance(command, c.DismissSubtask):
        task = world.tasks[command.task_id]
        stuck = task.parent_id is not None and settlement.failed(task) and error.code != "own_work"
        return Broken("settled", f"{task.id} cannot be dismissed: {error}") if stuck else None
    if isinstance(command, c.JobCommand) and _must_go(world, witnesses, command, due):
        return Broken("P3", f"{type(command).__name__} of {command.job_id} was refused: {error}")
    return None


def _cancellable(
    world: World, witnesses: Mapping[str, Witness], command: c.CancelJob | c.CancelTask
) -> bool:
    if isinstance(command, c.CancelJob):
        return witnesses[command.job_id].ended is None
    task = world.tasks[command.task_id]
    return task.state in CANCELLABLE[task.lifecycle]


def _must_go(
    world: World, witnesses: Mapping[str, Witness], command: c.JobCommand, due: bool
) -> bool:
    job, witness = world.jobs[command.job_id], witnesses[command.job_id]
    if isinstance(command, c.ReclaimJob):
        return witness.holder is not None and witness.holder.fence == command.fence
    if isinstance(command, c.SendSignal):
        return witness.ended is None
    if isinstance(command, c.RequeueJob):
        return due and job.state == "retrying"
    if isinstance(command, c.WakeJob):
        wait = world.part(WAITS, job.id, command.wait)
        return due and wait is not None and wait.due_at is not None
    if isinstance(command, c.ClaimJob):
        task = None if job.task_id is None else world.tasks[job.task_id]
        free = task is None or task.open_dependencies == 0
        return free and (job.state == "queued" or (due and job.state == "retrying"))
    return False


# ---- the promises ----------------------------------------------------------------------------


def broken(step: Step) -> Broken | None:
    """The first promise that the step breaks; the worlds of the step must be whole."""
    for check in (*CHECKS, subtasks_are_settled):
        for found in check(step):
            return found
    return None


def touched(step: Step) -> list[Job]:
    """The jobs that the step's events are about."""
    streams = dict.fromkeys(record.stream for record in step.records)
    return [step.after.jobs[stream] for stream in streams if stream in step.after.jobs]


def one_grant(step: Step) -> Iterator[Broken]:
    """P4: a claim finds no holder of the job, and its fence is higher than all before."""
    for record in step.records:
        if isinstance(record.event, e.JobRunning):
            witness = step.witnesses.get(record.stream, Witness())
            if witness.holder is not None:
                yield Broken("P4", f"{record.stream} was claimed while {witness.holder} holds it")
            if record.event.fence <= witness.fence:
                yield Broken("P4", f"the fence of {record.stream} did not rise")
    for job in touched(step):
        yield from _held_as_booked(step.after, job, step.witnesses_after[job.id])


def _held_as_booked(world: World, job: Job, witness: Witness) -> Iterator[Broken]:
    held = None if job.nonce is None else c.Grant(job.id, job.fence, job.nonce)
    if held != witness.holder or (job.state == "running") != (held is not None):
        yield Broken("P4", f"{job.id} is {job.state}, held by {held}; booked: {witness.holder}")
    live = [run for run in world.parts_of(RUNS, job.id).values() if run.state in LIVE_RUN]
    runs = len(live) if witness.planned or job.run_id is None else 1
    if [run.fence for run in live] != ([] if held is None else [held.fence] * runs):
        yield Broken("P4", f"{job.id} is {job.state} and has the live runs {live}")


def no_stale_write(step: Step) -> Iterator[Broken]:
    """P5: what a worker reports is taken only from the one who holds the job."""
    if isinstance(step.command, c.Report):
        grant = step.command.grant
        if step.witnesses[grant.job_id].holder != grant:
            yield Broken("P5", f"a stale report was taken: {step.command}")


def ends_are_final(step: Step) -> Iterator[Broken]:
    """P9: one verdict a job, one a task; only a person reopens a failed job."""
    for record in step.records:
        stream, name = record.stream, record.event.name
        if record.event.level == "job" and name in LIFECYCLES["job"].targets:
            ended = step.witnesses[stream].ended if stream in step.witnesses else None
            if ended is not None and not _a_persons_retry(step, ended, record):
                yield Broken("P9", f"{name} in {stream}, which was {ended}")
        task = step.before.tasks.get(stream)
        if task is not None and task.state in FINAL_TASK and _moves(task, name):
            yield Broken("P9", f"{name} in {stream}, which was {task.state}")


def _moves(task: Task, name: str) -> bool:
    return name in LIFECYCLES[task.lifecycle].targets


def _a_persons_retry(step: Step, ended: str, record: e.Record) -> bool:
    asked = isinstance(record.event, e.JobRequeued) and record.event.reason == "retried"
    job = step.before.jobs[record.stream]
    return ended == "failed" and asked and step.actor.root_id != job.root_id


def rest_is_left_alone(step: Step) -> Iterator[Broken]:
    """P10: a resting job is neither claimed nor reclaimed: its wait ends, or it is cancelled."""
    for record in step.records:
        rested = step.witnesses[record.stream].resting if record.stream in step.witnesses else None
        name = record.event.name
        if rested is not None and name in LIFECYCLES["job"].targets:
            if name in ("wait_completed", "job_cancelled"):
                break
            if (rested, name) != ("waiting", "job_parked"):
                yield Broken("P10", f"{name} in {record.stream}, which was {rested}")
    if isinstance(step.command, c.ReclaimJob):
        witness = step.witnesses[step.command.job_id]
        if witness.holder is None or witness.holder.fence != step.command.fence:
            yield Broken("P10", f"reclaimed what no worker held: {step.command}")


def cancel_is_reported(step: Step) -> Iterator[Broken]:
    """P11: a cancel happens whole or is booked whole, says which, and is kept by what follows."""
    if isinstance(step.command, c.CancelJob | c.CancelTask):
        yield from _reported(step, step.command)
    otherwise = isinstance(step.command, REPORTED_OTHERWISE)
    if isinstance(step.command, c.Report) and isinstance(step.answer, str) and not otherwise:
        state = step.after.jobs[step.command.grant.job_id].state
        if step.answer != state:
            yield Broken("P11", f"the worker got {step.answer}, the job is {state}")
    for record in step.records:
        name = record.event.name
        witness = step.witnesses.get(record.stream)
        if witness is None or not witness.asked or name not in LIFECYCLES["job"].targets:
            continue
        success = name == "job_completed" and isinstance(step.command, c.CompleteRun)
        if witness.ended is None and name != "job_cancelled" and not success:
            yield Broken("P11", f"{name} in {record.stream}, which was asked to stop")
    for task in step.after.tasks.values():
        job_id = task.job_id if task.state == "cancelled" else None
        if job_id is not None and step.witnesses_after[job_id].ended is None:
            yield Broken("P11", f"{task.id} is cancelled and its job {job_id} lives")


def _reported(step: Step, command: c.CancelJob | c.CancelTask) -> Iterator[Broken]:
    task = step.after.tasks[command.task_id] if isinstance(command, c.CancelTask) else None
    job_id = command.job_id if isinstance(command, c.CancelJob) else task and task.job_id
    held = job_id is not None and step.witnesses[job_id].holder is not None
    if step.answer != ("requested" if held else "cancelled"):
        yield Broken("P11", f"a cancel of work that is {held=} returned {step.answer}")
    if held:
        if (
            step.witnesses_after[str(job_id)].holder is None
            or not step.after.jobs[str(job_id)].cancel_reason
        ):
            yield Broken("P11", f"a cancel of the running {job_id} was not booked")
    elif task is not None and task.state != "cancelled":
        yield Broken("P11", f"{task.id} was cancelled and is {task.state}")
    elif job_id is not None and step.witnesses_after[job_id].ended is None:
        yield Broken("P11", f"{job_id} was cancelled and lives")


def attempts_are_counted(step: Step) -> Iterator[Broken]:
    """P13: at the claim, going on is the same attempt, and who kills its workers is quarantined."""
    for job in touched(step):
        witness = step.witnesses_after[job.id]
        if witness.ended is None:
            counted = (job.attempt, job.lost, tuple(sorted(job.failures.items())))
            if counted != (witness.attempt, witness.losses, witness.failures):
                yield Broken("P13", f"{job.id} counts {counted}, booked: {witness}")
    if isinstance(step.command, c.ReclaimJob | c.FailRun | c.TimeOutRun):
        yield from _judged(step, step.command)


def _judged(step: Step, command: c.ReclaimJob | c.FailRun | c.TimeOutRun) -> Iterator[Broken]:
    lost = isinstance(command, c.ReclaimJob)
    job_id = command.job_id if isinstance(command, c.ReclaimJob) else command.grant.job_id
    error_class = "lost" if lost else class_of(command)
    witness = step.witnesses[job_id]
    if witness.planned and not lost:
        return  # the step counts it
    used = witness.losses if lost else witness.failed(error_class)
    again = error_class == "rate_limit" or used < step.allowed(job_id).get(error_class, 0)
    end = next((r.event for r in step.records if isinstance(r.event, e.JobFailed)), None)
    if witness.asked:
        return
    if again != (end is None):
        yield Broken("P13", f"{job_id}: {used} × {error_class} before this, and then {end}")
    if end is not None and end.quarantined != lost:
        yield Broken("P13", f"{job_id}: {error_class} and quarantined={end.quarantined}")


def no_self_approval(step: Step) -> Iterator[Broken]:
    """P12: no agent judges, answers or restarts work of its own tree."""
    judged = c.AcceptTask | c.RejectTask | c.AnswerTask | c.RetryTask | c.DismissSubtask
    if isinstance(step.command, judged) and step.records:
        task = step.before.tasks[step.command.task_id]
        if step.actor.root_id == task.root_id:
            yield Broken("P12", f"{step.actor.name} works on {task.id} and did {step.command}")


def levels_agree(step: Step) -> Iterator[Broken]:
    """Each task is in the state that follows from its latest job."""
    for task in step.after.tasks.values():
        if task.job_id is not None:
            job = step.after.jobs[task.job_id]
            allowed = LEVELS[task.lifecycle][job.state]
            if job.plan_version or job.run_id is None:
                allowed |= LEVELS_PLANNED[task.lifecycle].get(job.state, frozenset())
            if task.state not in allowed:
                yield Broken("levels", f"{task.id} is {task.state}, its job is {job.state}")


def rows_are_folds(step: Step) -> Iterator[Broken]:
    """P8: every state is the fold of the names of its events."""
    for job in touched(step):
        names = [
            r.event.name for r in step.records if r.stream == job.id and r.event.level == "job"
        ]
        before = step.before.jobs.get(job.id)
        start = [] if before is None else [WAY_INTO[before.state]]
        if LIFECYCLES["job"].derive([*start, *names]) != job.state:
            yield Broken("P8", f"{job.id} is {job.state} after {names}")


def subtasks_are_settled(step: Step) -> Iterator[Broken]:
    """A parent waits for each subtask until it is settled, and no longer."""
    for what in settlement.flaws(step.before, step.after, step.command, step.records):
        yield Broken("settled", what)
    for what in settlement.forgotten(step.before, step.after, step.records):
        yield Broken("settled", what)


WAY_INTO = {row.target: row.event for row in LIFECYCLES["job"].rows}

CHECKS: tuple[Check, ...] = (
    no_stale_write,
    ends_are_final,
    rest_is_left_alone,
    one_grant,
    cancel_is_reported,
    attempts_are_counted,
    no_self_approval,
    rows_are_folds,
    levels_agree,
)
