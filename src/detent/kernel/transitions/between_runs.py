"""A job between runs: cancelled as asked, given up, at rest, or woken because a time has come."""

from collections.abc import Iterable

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.budget import Short
from detent.kernel.budget_reservation import allowance
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Step, Wait
from detent.kernel.plan_steps import (
    available,
    can_ever_fit,
    fail,
    planner_is_due,
    retries_left,
    startable,
    steps_of,
    unlease,
)
from detent.kernel.predicates import judge_attempt
from detent.kernel.resource_wait import first_deadline, overdue
from detent.kernel.retry import FailureClass
from detent.kernel.transitions.actions import (
    complete_wait,
    end_attempt,
    fail_job,
    hand_back,
    show_retry,
)
from detent.kernel.transitions.coupled import rest
from detent.kernel.wait_kinds import LONG_US
from detent.kernel.world import WAITS

#: A job that lacks a resource looks again after as long as it has waited already, at least this.
RESOURCE_POLL_US = 5_000_000


def settle(draft: Draft, job_id: str) -> str:
    """After a run's end: a job that was asked to stop does, a plan that can do nothing rests."""
    job = draft.job(job_id)
    if job.state == "running" and not draft.live_runs(job_id):
        if job.cancel_reason is not None:
            draft.emit(job_id, e.JobCancelled(job.cancel_reason))
        elif job.plan_version > 0 and not _can_go_on(draft, job):
            rest_plan(draft, job)
    return draft.job(job_id).state


def _can_go_on(draft: Draft, job: Job) -> bool:
    return bool(startable(draft, job, draft.now)) or planner_is_due(draft, job)


# ---- giving a claim up -----------------------------------------------------------------------


def give_up(draft: Draft, job: Job, reason: str) -> str:
    """A claim is over without an end of the work: `worker_lost` or `handed_back`."""
    at_work = [step for step in steps_of(draft, job.id).values() if step.run_id is not None]
    for run in draft.live_runs(job.id):
        draft.emit(job.id, e.RunCancelled(reason), run.id)
    if job.cancel_reason is None:
        _unwind(draft, job, at_work, reason)
    return settle(draft, job.id)


def _unwind(draft: Draft, job: Job, at_work: list[Step], reason: str) -> None:
    """What the claim leaves behind. Work that was handed back stays as it is, for the next one."""
    lost = reason == "worker_lost"
    last = lost and judge_attempt(draft, job, FailureClass.LOST) is None
    for step in at_work if lost else ():
        if last:
            fail(draft, step, FailureClass.LOST.value, "its worker was lost too often", reason)
        else:
            _lose(draft, step)
    for step in steps_of(draft, job.id).values():
        if step.state == "leased":
            unlease(draft, step, reason)
    job = draft.job(job.id)
    if job.state != "running":
        return
    if lost:
        error = f"{job.lost + 1} workers were lost without progress"
        end_attempt(draft, job, FailureClass.LOST, error)
    else:
        if job.plan_version > 0:
            _put_off(draft, job)
        hand_back(draft, job)


def _put_off(draft: Draft, job: Job) -> None:
    """Steps that no worker could start now are left out of what the queue says is needed.

    Otherwise a worker for them would claim the job again and again. A wait for each reason puts
    them back when the resource is free or the delay is over.
    """
    startable_now = startable(draft, job, draft.now)
    lacking = [name for name in startable_now if not _is_available(draft, job, name)]
    delayed = _delayed(draft, job)
    if len(lacking) == len(startable_now) or not (lacking or delayed):
        return
    if lacking:
        due_at = _look_again_at(draft, job, lacking, RESOURCE_POLL_US)
        begun = e.WaitBegun("resource", due_at=due_at, detail={"steps": lacking})
        draft.emit(job.id, begun, f"resource:{job.fence}")
    if delayed:
        names = [step.name for step in delayed]
        due_at = min(step.not_before for step in delayed)
        begun = e.WaitBegun("retry", due_at=due_at, detail={"steps": names})
        draft.emit(job.id, begun, f"retry:{job.fence}")


def _is_available(draft: Draft, job: Job, name: str) -> bool:
    step = steps_of(draft, job.id)[name]
    return available(draft, draft.plan(job.id).step(name), step) is not None


def _delayed(draft: Draft, job: Job) -> list[Step]:
    steps = steps_of(draft, job.id).values()
    return [step for step in steps if step.state == "retrying" and step.not_before > draft.now]


def _lose(draft: Draft, step: Step) -> None:
    lost = e.StepFailedRetryable(FailureClass.LOST.value, "its worker was lost")
    draft.emit(step.job_id, lost, step.name)
    draft.emit(step.job_id, e.StepRetrying(draft.now), step.name)


# ---- resting a plan --------------------------------------------------------------------------


def rest_plan(draft: Draft, job: Job) -> str:
    """No step is live: wait for a time, a signal, a person or a resource; fail if none can come."""
    lacking = startable(draft, job, draft.now)
    lack = short_of(draft, job) if lacking else None
    hopeless = next((name for name in lacking if not _may_fit(draft, job, name)), None)
    if job.cancel_reason is not None:
        draft.emit(job.id, e.JobCancelled(job.cancel_reason))
    elif lack is not None and (stopped := _stopped(draft, job)) is not None:
        error = f"step {stopped.name} failed: {stopped.error}"
        fail_job(draft, job, FailureClass.BUDGET, error)
    elif hopeless is not None:
        error = f"no resource can ever fit step {hopeless}"
        fail_job(draft, job, FailureClass.RESOURCE, error)
    elif lack is None and (late := _late(draft, job, lacking)) is not None:
        error = f"step {late} waited longer for a resource than its limit allows"
        fail_job(draft, job, FailureClass.RESOURCE, error)
    else:
        _rest(draft, job, lacking, lack)
    return draft.job(job.id).state


def _stopped(draft: Draft, job: Job) -> Step | None:
    """A step that the spent budget has ended: then nothing that needs money follows it."""
    steps = steps_of(draft, job.id).values()
    spent = [step for step in steps if (step.state, step.error_class) == ("failed", "budget")]
    return max(spent, key=lambda step: step.state_at, default=None)


def _late(draft: Draft, job: Job, lacking: tuple[str, ...]) -> str | None:
    """A step whose wait for a resource is over. One that never rested was kept by something else:
    by a lost worker, say. It rests first."""
    return overdue(draft, job, lacking, draft.now) if job.waited else None


def _may_fit(draft: Draft, job: Job, name: str) -> bool:
    return can_ever_fit(draft, draft.plan(job.id).step(name), steps_of(draft, job.id)[name])


def _rest(draft: Draft, job: Job, lacking: tuple[str, ...], lack: Short | None) -> None:
    delayed = _delayed(draft, job)
    if not lacking and not draft.parts_of(WAITS, job.id):
        _retry_later(draft, job, delayed)
        return
    if lack is not None:
        _await_funds(draft, job, job.fence, lack)
    elif lacking:
        detail = {"steps": list(lacking)}
        due_at = _look_again_at(draft, job, lacking, RESOURCE_POLL_US)
        begun = e.WaitBegun("resource", due_at=due_at, detail=detail)
        draft.emit(job.id, begun, f"resource:{job.fence}")
    if delayed:
        begun = e.WaitBegun("retry", due_at=min(step.not_before for step in delayed))
        draft.emit(job.id, begun, f"retry:{job.fence}")
    rest(draft, job.id)


def _retry_later(draft: Draft, job: Job, delayed: list[Step]) -> None:
    """Only the step counts the failure: the job goes on with the same attempt."""
    if not delayed:
        raise Refused(f"job {job.id} has nothing to rest for", code="nothing_to_wait_for")
    first = min(delayed, key=lambda step: step.not_before)
    kind = FailureClass(first.error_class or FailureClass.ERROR)
    draft.emit(job.id, e.JobRetrying(kind.value, first.not_before, counted=False))
    pending = 1 + retries_left(draft.plan(job.id).step(first.name), first, kind)
    left = None if kind is FailureClass.RATE_LIMIT else pending
    show_retry(draft, job, kind, first.error or "", first.not_before, left)


# ---- money -----------------------------------------------------------------------------------


def lacks_funds(draft: Draft, job: Job, fence: int, run_id: str | None) -> bool:
    """Whether a claim finds no money to spend: its run ends before it has begun, and waits for it.

    What others only hold may come back, so that it looks again; what is spent must be raised.
    """
    lack = short_of(draft, job)
    if lack is None:
        return False
    name = _await_funds(draft, job, fence, lack)
    if run_id is None:
        rest(draft, job.id)
    else:
        ended = e.RunSucceeded("suspended", None, name, reason="funds")
        draft.emit(job.id, ended, run_id)
    return True


def short_of(draft: Draft, job: Job) -> Short | None:
    """Whose money is gone, so that no run of the job may start now."""
    task = draft.task_of(job)
    found = None if task is None else allowance(draft, task)
    return found if isinstance(found, Short) else None


def _await_funds(draft: Draft, job: Job, fence: int, lack: Short) -> str:
    """Begin to wait for money; the answer is the wait's name."""
    purse = draft.task(lack.purse)
    detail = {"task": purse.id, "budget": purse.budget, "spent": purse.spent}
    due_at = None if lack.spent else draft.now + RESOURCE_POLL_US
    name = f"funds:{fence}"
    draft.emit(job.id, e.WaitBegun("funds", due_at=due_at, detail=detail), name)
    return name


# ---- waking ----------------------------------------------------------------------------------


def wake(draft: Draft, job: Job, wait: Wait) -> None:
    """A wait's time has come: a timer is due, a question takes its default, others expire."""
    if _still_lacks(draft, job, wait):
        if overdue(draft, job, wait.detail.get("steps", ()), draft.now) is None:
            _postpone(draft, job, wait)
        else:
            complete_wait(draft, wait, "expired")
    elif wait.kind in ("resource", "funds"):
        complete_wait(draft, wait, "available")
    elif wait.kind in ("timer", "retry"):
        complete_wait(draft, wait, "due")
    elif "default" in wait.detail:
        complete_wait(draft, wait, "default", wait.detail["default"])
    else:
        complete_wait(draft, wait, "expired")


def _still_lacks(draft: Draft, job: Job, wait: Wait) -> bool:
    """It waits for a resource or for money, and there is still none."""
    if wait.kind == "resource":
        return not _could_start(draft, job, wait)
    task = draft.task_of(job) if wait.kind == "funds" else None
    return task is not None and isinstance(allowance(draft, task), Short)


def _could_start(draft: Draft, job: Job, wait: Wait) -> bool:
    """One of the steps that wait for a resource would get one now."""
    return any(_is_available(draft, job, name) for name in wait.detail["steps"])


def _look_again_at(draft: Draft, job: Job, names: Iterable[str], pause_us: int) -> int:
    """After a pause, or when a step has waited long enough, whichever comes first."""
    until = first_deadline(draft, job, names)
    soon = draft.now + pause_us
    return soon if until is None or until <= draft.now else min(soon, until)


def _postpone(draft: Draft, job: Job, wait: Wait) -> None:
    """Look again later; what has lasted a minute is expected to last, and what is spent to stay so
    until somebody raises it."""
    waited_us = draft.now - wait.begun_at
    lack = short_of(draft, job) if wait.kind == "funds" else None
    spent = lack is not None and lack.spent
    pause_us = min(max(waited_us, RESOURCE_POLL_US), LONG_US)
    later = _look_again_at(draft, job, wait.detail.get("steps", ()), pause_us)
    draft.emit(job.id, e.WaitPostponed(None if spent else later), wait.name)
    if job.state == "waiting" and (spent or waited_us >= LONG_US):
        draft.emit(job.id, e.JobParked(wait.kind))
