"""Manual work: an operator begins and ends runs and sets the states of tasks.

A manual run is a claim like any other, under a worker name that begins with `hand:`. A run that a
worker holds is refused: only that worker may report on it.
"""

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from detent import views
from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.kernel.acceptance import is_acceptance
from detent.kernel.checks import CHECKS
from detent.kernel.entities import Job, Task
from detent.kernel.retry import FailureClass
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.task_lifecycle import Phase, TaskLifecycle, TaskState, Trigger
from detent.operations import schemas
from detent.operations.context import Core, check_choice
from detent.operations.registry import Caller, Scope, operation
from detent.operations.runs import run_from
from detent.operations.task_states import state_of
from detent.store.port import WriteTransaction

MANUAL_PREFIX = "hand:"
S_US = 1_000_000
DEFAULT_HOLD_S = 86_400
MAX_HOLD_S = 7 * 86_400
ENDS = ("succeeded", "failed", "timeout", "cancelled")
CLASSES = tuple(each.value for each in FailureClass)


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/runs", status=201)
def begin_run(
    core: Core, caller: Caller, *, job_id: str, hold_s: int = DEFAULT_HOLD_S
) -> schemas.BegunRun:
    """Begin a manual run of a queued job. The caller holds it for `hold_s` or until it is ended."""
    if not 1 <= hold_s <= MAX_HOLD_S:
        raise Invalid(
            f"hold_s must be from 1 to {MAX_HOLD_S}, not {hold_s}.", field="hold_s", given=hold_s
        )
    job, _ = core.job(caller, job_id)
    _not_a_workers(job)
    if job.plan_version or job.options.get("planner"):
        raise Refused(
            f"Job {job_id} has a plan, and only workers run the steps of a plan.",
            code="not_claimable",
        )
    if is_acceptance(job) or CHECKS in job.options:
        raise Refused(
            f"Job {job_id} merges, pushes or checks the work of a task, and only workers run such "
            "jobs.",
            code="not_claimable",
        )
    worker = MANUAL_PREFIX + caller.name
    claim = c.ClaimJob(job_id, worker, secrets.token_hex(8))
    grant: c.Grant | None = core.engine.do(claim, caller.actor)
    if grant is None:
        raise Refused(
            f"Job {job_id} cannot start: the budget of its task, or of a task above it, is spent "
            "or reserved for other runs. The job waits for money now.",
            code="budget_spent",
        )
    held = (job_id, grant.fence)

    def prolong(tx: WriteTransaction) -> int:
        until = tx.now() + hold_s * S_US
        tx.renew(worker, [held], until)
        return until

    until = core.engine.transaction(prolong)
    job, _ = core.job(caller, job_id)
    return {
        "id": str(job.run_id),
        "job_id": job_id,
        "task_id": job.task_id,
        "held_until": views.utc(until),
    }


@operation(Scope.OPERATE, "POST", "/api/runs/{run_id}/end")
def end_run(
    core: Core,
    caller: Caller,
    *,
    run_id: str,
    exit_code: int | None = None,
    error: str | None = None,
    outcome: str | None = None,
    error_class: str = "error",
    result: Any = None,
) -> schemas.Run:
    """End a manual run. The exit code gives the outcome unless `outcome` is given."""
    run = core.run(caller, run_id)
    job, _ = core.job(caller, run["job_id"])
    how = _outcome(exit_code, error, outcome)
    check_choice(error_class, CLASSES, "error_class")
    grant = _grant(job, run_id)
    if how == "cancelled":
        _cancel(core, caller, job)
    core.engine.do(_end(grant, run_id, how, exit_code, error, error_class, result), caller.actor)
    return run_from(core.run(caller, run_id))


@operation(Scope.OPERATE, "POST", "/api/tasks/{task_id}/state")
def set_task_state(
    core: Core, caller: Caller, *, task_id: str, state: str, reason: str = "set manually"
) -> schemas.Moved:
    """Set the state of a task by legal transitions; refused while a worker holds it."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        setters = state_setters(view.lifecycles()[task.lifecycle])
    move = setters[check_choice(state, setters, "state", "unknown_state")]
    if task.job_id is not None:
        _not_a_workers(core.job(caller, task.job_id)[0])
    move(core, caller, task, reason)
    task, version = core.task(caller, task_id)
    return {"id": task_id, "state": task.state, "version": version, "outcome": None}


# ---- runs ------------------------------------------------------------------------------------


def _not_a_workers(job: Job) -> None:
    if job.state == "running" and not str(job.worker).startswith(MANUAL_PREFIX):
        raise Refused(
            f"Worker {job.worker} holds job {job.id}.",
            code="held_by_worker",
            details={"worker": job.worker},
        )


def _grant(job: Job, run_id: str) -> c.Grant:
    """The grant of a manual run, which every caller with the scope may use."""
    _not_a_workers(job)
    if job.state != "running" or job.run_id != run_id:
        raise Refused(f"Run {run_id} has already ended.", code="stale_fence")
    return c.Grant(job.id, job.fence, str(job.nonce))


def _outcome(exit_code: int | None, error: str | None, outcome: str | None) -> str:
    """The outcome of the run; exit code, error and outcome must agree."""
    if outcome is None:
        if exit_code is None:
            raise Invalid(
                f"Give an exit_code, or an outcome: {', '.join(ENDS)}.",
                field="exit_code",
                allowed=ENDS,
            )
        return "succeeded" if exit_code == 0 and error is None else "failed"
    if outcome == "succeeded" and (exit_code or error is not None):
        raise Invalid(
            "outcome succeeded needs exit code 0 and no error.", field="outcome", given=outcome
        )
    return check_choice(outcome, ENDS, "outcome")


def _end(
    grant: c.Grant,
    run_id: str,
    how: str,
    exit_code: int | None,
    error: str | None,
    error_class: str,
    result: Any,
) -> c.Report:
    if how == "succeeded":
        return c.CompleteRun(grant, run_id, result, 0 if exit_code is None else exit_code)
    if how == "failed":
        message = error or f"exit code {exit_code}"
        return c.FailRun(grant, run_id, error_class, message, exit_code)
    if how == "timeout":
        return c.TimeOutRun(grant, run_id, error=error or "ended manually as timed out")
    return c.ConfirmCancel(grant)


def _cancel(core: Core, caller: Caller, job: Job) -> None:
    reason = "cancelled manually"
    command: c.Command = (
        c.CancelJob(job.id, reason) if job.task_id is None else c.CancelTask(job.task_id, reason)
    )
    core.engine.do(command, caller.actor)


# ---- tasks -----------------------------------------------------------------------------------

StateSetter = Callable[[Core, Caller, Task, str], None]


def _queue(core: Core, caller: Caller, task: Task, reason: str) -> None:
    """Queue the task. A task that was blocked manually is answered; other questions are refused."""
    command: c.TaskCommand = c.QueueTask(task.id)
    if str(task.blocked_detail.get("wait", "")).startswith(MANUAL_PREFIX):
        command = c.AnswerTask(task.id, reason)
    elif _state(core, task).phase is Phase.BLOCKED:
        command = c.UnblockTask(task.id)
    core.engine.do(command, caller.actor)


def _begin(core: Core, caller: Caller, task: Task, reason: str) -> str:
    """The id of the manual run of the task: the current one, or a new one."""
    if _is_new(_state(core, task)):
        _queue(core, caller, task, reason)
        task, _ = core.task(caller, task.id)
    if task.job_id is None:
        raise Refused(f"Task {task.id} is {task.state} and has no job to run.", legal=("run",))
    job, _ = core.job(caller, task.job_id)
    if job.state == "running":
        return str(job.run_id)
    return begin_run(core, caller, job_id=job.id)["id"]


def _start(core: Core, caller: Caller, task: Task, reason: str) -> None:
    _begin(core, caller, task, reason)


def _ended(outcome: str) -> StateSetter:
    def move(core: Core, caller: Caller, task: Task, reason: str) -> None:
        run_id = _begin(core, caller, task, reason)
        error = None if outcome == "succeeded" else reason
        end_run(core, caller, run_id=run_id, outcome=outcome, error=error)

    return move


def _block(core: Core, caller: Caller, task: Task, reason: str) -> None:
    """Ask a question with the reason as its text. An answer, or the state queued, continues it."""
    run_id = _begin(core, caller, task, reason)
    run = core.run(caller, run_id)
    grant = _grant(core.job(caller, run["job_id"])[0], run_id)
    detail = {"text": reason}
    wait = MANUAL_PREFIX + run_id
    core.engine.do(c.SuspendRun(grant, run_id, wait, "question", detail=detail), caller.actor)


def _stop(core: Core, caller: Caller, task: Task, reason: str) -> None:
    job = None if task.job_id is None else core.job(caller, task.job_id)[0]
    core.engine.do(c.CancelTask(task.id, reason), caller.actor)
    if job is not None and job.state == "running":
        core.engine.do(c.ConfirmCancel(_grant(job, str(job.run_id))), caller.actor)


#: By event, the function that brings a task into the state that the event leads to.
BY_EVENT: Mapping[str, StateSetter] = {
    "task_queued": _queue,
    "task_started": _start,
    "task_blocked": _block,
    "task_ready": _ended("succeeded"),
    "task_completed": _ended("succeeded"),
    "task_failed": _ended("failed"),
    "task_timed_out": _ended("timeout"),
    "task_cancelled": _stop,
}
#: By what happens to the job, the function that makes it happen.
BY_TRIGGER: Mapping[Trigger, StateSetter] = {
    Trigger.JOB_COMPLETED: _ended("succeeded"),
    Trigger.JOB_FAILED: _ended("failed"),
}
#: Events that need the scope `review`.
REVIEWED = frozenset({"task_accepted", "task_rejected"})


def state_setters(lifecycle: TaskLifecycle) -> dict[str, StateSetter]:
    """By state, the function that brings a task of the lifecycle into it.

    Left out are states that a reviewer decides, and states that only declared events lead to.
    """
    own = {
        event: BY_TRIGGER[rule.when]
        for rule in lifecycle.rules
        for event in rule.then
        if rule.when in BY_TRIGGER and event not in TASK_EVENTS
    }
    setters = {**own, **BY_EVENT}
    reviewed = {row.target for row in lifecycle.rows if row.event in REVIEWED}
    return {
        row.target: setters[row.event]
        for row in lifecycle.rows
        if row.event in setters and row.target not in reviewed
    }


def _state(core: Core, task: Task) -> TaskState:
    with core.store.read() as view:
        return state_of(view, task)


def _is_new(state: TaskState) -> bool:
    """Whether the task was never queued, or waits to be queued again."""
    return state.phase is Phase.IDLE and state.ending is None and not state.under_review
