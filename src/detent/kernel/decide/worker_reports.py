"""Decides commands of workers: the claim, and the reports about runs under its grant."""

from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel import plan_steps
from detent.kernel.budget import Exhausted, Reserved, is_warned
from detent.kernel.budget_reservation import allowance, over_budget, used_up
from detent.kernel.decide.guards import held, held_run
from detent.kernel.decide.submit import submit_task
from detent.kernel.decide.variant_choice import end_choice
from detent.kernel.derived_ids import run_of_job
from detent.kernel.draft import Draft
from detent.kernel.entities import Checkpoint, Job, Run, Task, Wait
from detent.kernel.plan import is_whole_job
from detent.kernel.retry import failure_class_from
from detent.kernel.transitions.claim_end import give_up, settle
from detent.kernel.transitions.idle_plan import lacks_funds
from detent.kernel.transitions.waits import deliver_past_ends, end_satisfied_wait, end_wait
from detent.kernel.wait_kinds import ASKED, PERMISSION, satisfied
from detent.kernel.world import CHECKPOINTS, WAITS

# ---- claiming --------------------------------------------------------------------------------


def claim_job(draft: Draft, command: c.ClaimJob) -> c.Grant | None:
    """Claim a queued job, or one whose retry is due; the new fence invalidates earlier claims.

    Returns None if the budget is exhausted: the job waits for money and is not claimed.
    """
    job = draft.job(command.job_id)
    if job.state == "retrying" and job.not_before <= draft.now:
        draft.emit(job.id, e.JobRequeued("due"))
        job = draft.job(job.id)
    if job.state != "queued" or job.not_before > draft.now or _waits_for_dependencies(draft, job):
        raise Refused(
            f"Job {job.id} is {job.state} and cannot be claimed now.", code="not_claimable"
        )
    fence = job.fence + 1
    attempt = job.attempt if job.resuming else job.attempt + 1
    planless = job.plan_version == 0 and not job.options.get("planner")
    run_id = run_of_job(job.id, job.runs + 1) if planless else None
    draft.emit(job.id, e.JobRunning(command.worker, command.nonce, fence, attempt, run_id))
    if run_id is not None:
        draft.emit(job.id, e.RunQueued(command.worker, fence, attempt), run_id)
        draft.emit(job.id, e.RunStarted(), run_id)
    if lacks_funds(draft, job, fence, run_id):
        return None
    return c.Grant(job.id, fence, command.nonce)


def _waits_for_dependencies(draft: Draft, job: Job) -> bool:
    task = draft.task_of(job)
    return task is not None and task.open_dependencies > 0


# ---- during a run ----------------------------------------------------------------------------


def record_checkpoint(draft: Draft, command: c.RecordCheckpoint) -> None:
    job = held(draft, command.grant)
    known: Checkpoint | None = draft.part(CHECKPOINTS, job.id, command.name)
    if known is not None and (known.done or known.kind != "effect"):
        raise _used_twice(command.name)
    kind = "step" if known is None else known.kind
    draft.emit(job.id, e.CheckpointRecorded(kind, command.value, command.step), command.name)


def begin_effect(draft: Draft, command: c.BeginEffect) -> None:
    job = held(draft, command.grant)
    if draft.part(CHECKPOINTS, job.id, command.name) is not None:
        raise _used_twice(command.name)
    draft.emit(job.id, e.EffectBegun(command.policy, command.step), command.name)


def _used_twice(name: str) -> Refused:
    return Refused(
        f"The name {name!r} was used before in this job.",
        code="name_used_twice",
        hint="Give every durable step, effect and wait its own name; in a loop, add the index.",
    )


def report_progress(draft: Draft, command: c.ReportProgress) -> None:
    job, run = held_run(draft, command.grant, command.run_id)
    draft.emit(job.id, e.RunProgressed(command.progress, command.note), run.id)


def request_permission(draft: Draft, command: c.RequestPermission) -> None:
    """Begin a wait for a person; the run, its job and its task keep their states."""
    job, run = held_run(draft, command.grant, command.run_id)
    _unused(draft, job, command.wait)
    detail = {**command.detail, "run": run.id}
    draft.emit(job.id, e.WaitBegun(PERMISSION, due_at=command.due_at, detail=detail), command.wait)


def add_evidence(draft: Draft, command: c.AddEvidence) -> None:
    job, run = held_run(draft, command.grant, command.run_id)
    added = e.EvidenceAdded(
        command.file, command.kind, command.sha256, command.size, command.media_type
    )
    draft.emit(job.id, added, run.id)


def open_session(draft: Draft, command: c.OpenSession) -> None:
    job = held(draft, command.grant)
    run = None if command.run_id is None else held_run(draft, command.grant, command.run_id)[1]
    of_step = run is not None and run.step is not None and not is_whole_job(job)
    task = None if of_step else draft.task_of(job)
    if task is not None and task.session_id != command.session_id:
        draft.emit(task.id, e.SessionOpened(command.session_id))
    if run is not None and run.session_id != command.session_id:
        draft.emit(job.id, e.RunJoined(command.session_id), run.id)


def reserve_funds(draft: Draft, command: c.ReserveFunds) -> int | None:
    """Reserve what the run may spend from now on, in micro-dollars; None if unlimited."""
    job, run = held_run(draft, command.grant, command.run_id)
    task = draft.task_of(job)
    found = Reserved(None) if task is None else allowance(draft, task)
    amount = 0 if isinstance(found, Exhausted) else found.amount
    if amount is not None:
        draft.emit(job.id, e.RunReserved(run.cost + amount), run.id)
    return amount


def charge_run(draft: Draft, command: c.ChargeRun) -> str:
    """Charge the cost of the run so far; return `exceeded` if a budget above it is exceeded."""
    job, run = held_run(draft, command.grant, command.run_id)
    added = max(0, command.cost - run.cost)
    charged = e.RunCharged(
        run.cost + added,
        max(command.tokens_in, run.tokens_in),
        max(command.tokens_out, run.tokens_out),
        command.model,
    )
    draft.emit(job.id, charged, run.id)
    task = draft.task_of(job)
    if task is None:
        return "ok"
    for payer in (task, *draft.ancestors(task)) if added else ():
        _charge(draft, payer, added, run)
    return "exceeded" if over_budget(draft, draft.task(task.id)) else "ok"


def _charge(draft: Draft, task: Task, amount: int, run: Run) -> None:
    draft.emit(task.id, e.TaskCharged(amount, run.id))
    spent = task.spent + amount
    if (
        task.budget is not None
        and not is_warned(task.budget, task.spent)
        and is_warned(task.budget, spent)
    ):
        draft.emit(task.id, e.BudgetWarned(spent, task.budget))


# ---- the end of a run ------------------------------------------------------------------------


def complete_run(draft: Draft, command: c.CompleteRun) -> str:
    """End a run successfully, even if a cancel was requested meanwhile."""
    job, run = held_run(draft, command.grant, command.run_id)
    if command.check is not None:
        submit_task(draft, command.check)
    draft.emit(job.id, e.RunSucceeded(exit_code=command.exit_code), run.id)
    if run.step is None:
        draft.emit(job.id, e.JobCompleted(command.result))
    else:
        plan_steps.apply_decision(draft, job, run, command.decision, None, command.result)
    return settle(draft, job.id)


def fail_run(draft: Draft, command: c.FailRun) -> str:
    job, run = held_run(draft, command.grant, command.run_id)
    kind = failure_class_from(command.error_class).value
    failed = e.RunFailed(kind, command.error, command.exit_code, command.reset_at)
    return _end_failed(draft, job, run, failed, failed, command.decision)


def time_out_run(draft: Draft, command: c.TimeOutRun) -> str:
    job, run = held_run(draft, command.grant, command.run_id)
    failure = e.RunFailed("timeout", command.error)
    timed_out = e.RunTimedOut(command.limit, command.error)
    return _end_failed(draft, job, run, timed_out, failure, command.decision)


def _end_failed(
    draft: Draft, job: Job, run: Run, event: e.Event, failure: e.RunFailed, decision: str | None
) -> str:
    draft.emit(job.id, event, run.id)
    if run.step is not None:
        plan_steps.apply_decision(draft, job, run, decision, failure, None)
    return settle(draft, job.id)


def suspend_run(draft: Draft, command: c.SuspendRun) -> str:
    """Suspend a run until its wait ends; signals received before may end it immediately."""
    job, run = held_run(draft, command.grant, command.run_id)
    if command.kind not in ASKED:
        raise Invalid(
            f"A run cannot wait for {command.kind}.",
            field="kind",
            given=command.kind,
            allowed=ASKED,
        )
    _unused(draft, job, command.wait)
    deliver_past_ends(draft, job, command.needs)
    begun = e.WaitBegun(command.kind, run.step, command.needs, command.due_at, command.detail)
    draft.emit(job.id, begun, command.wait)
    held_until = draft.now + command.hold_resource_us if command.hold_resource_us else None
    ended = e.RunSucceeded("suspended", None, command.wait, held_until, command.kind)
    draft.emit(job.id, ended, run.id)
    wait: Wait | None = draft.part(WAITS, job.id, command.wait)
    if wait is not None and run.step is not None and satisfied(wait):
        end_satisfied_wait(draft, wait)
    settle(draft, job.id)
    _end_wait_for_raised_budget(draft, job.id, command)
    _end_question_after_choice(draft, job.id)
    return draft.job(job.id).state


def _unused(draft: Draft, job: Job, wait: str) -> None:
    if draft.part(CHECKPOINTS, job.id, wait) or draft.part(WAITS, job.id, wait):
        raise _used_twice(wait)


def _end_wait_for_raised_budget(draft: Draft, job_id: str, command: c.SuspendRun) -> None:
    """End the wait if the budget was raised after the run was stopped for exceeding it.

    A run that stopped by itself keeps waiting: it would stop again immediately.
    """
    wait: Wait | None = draft.part(WAITS, job_id, command.wait)
    task = draft.task_of(draft.job(job_id))
    stopped = command.kind == "budget" and command.detail.get("exceeded") is True
    if stopped and wait is not None and task is not None and not used_up(draft, task):
        end_wait(draft, wait, "raised")


def _end_question_after_choice(draft: Draft, job_id: str) -> None:
    """End the question which variant to choose, if one was chosen before it was asked."""
    task = draft.task_of(draft.job(job_id))
    if task is not None:
        end_choice(draft, task.id)


def confirm_cancel(draft: Draft, command: c.ConfirmCancel) -> str:
    job = held(draft, command.grant)
    if job.cancel_reason is None:
        raise Refused(f"No cancel of job {job.id} was requested.", code="not_cancelling")
    for run in draft.live_runs(job.id):
        draft.emit(job.id, e.RunCancelled(job.cancel_reason), run.id)
    return settle(draft, job.id)


def hand_back(draft: Draft, command: c.HandBack) -> str:
    return give_up(draft, held(draft, command.grant), "handed_back")
