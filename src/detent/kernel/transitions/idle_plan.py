"""Plans without a step that can run now: they wait for a resource, money or a time, or fail."""

from collections.abc import Iterable

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.acceptance import is_acceptance
from detent.kernel.budget import Exhausted
from detent.kernel.budget_reservation import allowance
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Step
from detent.kernel.plan_steps import (
    available,
    can_ever_fit,
    retries_left,
    startable,
    steps_of,
    usable_at,
)
from detent.kernel.resource_wait import first_deadline, overdue
from detent.kernel.retry import FailureClass
from detent.kernel.transitions.attempts import block_until_retry, fail_job
from detent.kernel.transitions.waits import wait_or_park
from detent.kernel.variants import has_variants
from detent.kernel.world import WAITS

#: The minimum interval between two checks for a missing resource or missing money.
RESOURCE_POLL_US = 5_000_000
#: The maximum interval, also if a rate limit ends later: a person may end it earlier.
LONGEST_POLL_US = 300_000_000


def rest_plan(draft: Draft, job: Job) -> str:
    """Let a plan without live steps wait; fail the job if nothing can end the wait.

    Returns the state of the job.
    """
    lacking = startable(draft, job, draft.now)
    lack = short_of(draft, job) if lacking else None
    hopeless = next((name for name in lacking if not _can_ever_fit(draft, job, name)), None)
    if job.cancel_reason is not None:
        draft.emit(job.id, e.JobCancelled(job.cancel_reason))
    elif lack is not None and (stopped := _failed_on_budget(draft, job)) is not None:
        error = f"step {stopped.name} failed: {stopped.error}"
        fail_job(draft, job, FailureClass.BUDGET, error)
    elif hopeless is not None:
        error = f"no resource can ever fit step {hopeless}"
        fail_job(draft, job, FailureClass.RESOURCE, error)
    elif lack is None and (late := _overdue_step(draft, job, lacking)) is not None:
        error = f"step {late} waited longer for a resource than its limit allows"
        fail_job(draft, job, FailureClass.RESOURCE, error)
    else:
        _wait(draft, job, lacking, lack)
    return draft.job(job.id).state


def _failed_on_budget(draft: Draft, job: Job) -> Step | None:
    """Return the last step that failed on a spent budget: no step that costs money follows it."""
    steps = steps_of(draft, job.id).values()
    spent = [step for step in steps if (step.state, step.error_class) == ("failed", "budget")]
    return max(spent, key=lambda step: step.state_at, default=None)


def _overdue_step(draft: Draft, job: Job, lacking: tuple[str, ...]) -> str | None:
    """Return a step that waited too long for a resource.

    A job that never waited was delayed by something else, for example by a lost worker: its steps
    wait first.
    """
    return overdue(draft, job, lacking, draft.now) if job.waited else None


def _can_ever_fit(draft: Draft, job: Job, name: str) -> bool:
    return can_ever_fit(draft, draft.plan(job.id).step(name), steps_of(draft, job.id)[name])


def _wait(draft: Draft, job: Job, lacking: tuple[str, ...], lack: Exhausted | None) -> None:
    delayed = _delayed(draft, job)
    if not lacking and not draft.parts_of(WAITS, job.id):
        _retry_later(draft, job, delayed)
        return
    if lack is not None:
        _wait_for_funds(draft, job, job.fence, lack)
    elif lacking:
        _wait_for_resource(draft, job, lacking)
    if delayed:
        begun = e.WaitBegun("retry", due_at=min(step.not_before for step in delayed))
        draft.emit(job.id, begun, f"retry:{job.fence}")
    wait_or_park(draft, job.id)


def _retry_later(draft: Draft, job: Job, delayed: list[Step]) -> None:
    """Retry the job when its first step is due. Only the step counts the failure."""
    if not delayed:
        raise Refused(
            f"Job {job.id} has no plan step that could wait: none is delayed, and none lacks a "
            "resource or money.",
            code="nothing_to_wait_for",
        )
    first = min(delayed, key=lambda step: step.not_before)
    kind = FailureClass(first.error_class or FailureClass.ERROR)
    draft.emit(job.id, e.JobRetrying(kind.value, first.not_before, counted=False))
    pending = 1 + retries_left(draft, draft.plan(job.id).step(first.name), first, kind)
    left = None if kind is FailureClass.RATE_LIMIT else pending
    block_until_retry(draft, job, kind, first.error or "", first.not_before, left)


def begin_waits_of_steps(draft: Draft, job: Job) -> None:
    """Let the steps wait that no worker could start now, before the job is handed back.

    Otherwise the queue would list what they need, and a worker would claim the job for them again
    and again. Nothing waits if no step could start, or every step.
    """
    startable_now = startable(draft, job, draft.now)
    lacking = [name for name in startable_now if not is_available(draft, job, name)]
    delayed = _delayed(draft, job)
    if len(lacking) == len(startable_now) or not (lacking or delayed):
        return
    if lacking:
        _wait_for_resource(draft, job, lacking)
    if delayed:
        names = [step.name for step in delayed]
        due_at = min(step.not_before for step in delayed)
        begun = e.WaitBegun("retry", due_at=due_at, detail={"steps": names})
        draft.emit(job.id, begun, f"retry:{job.fence}")


def _wait_for_resource(draft: Draft, job: Job, names: Iterable[str]) -> None:
    steps = list(names)
    due_at = next_check_at(draft, job, steps, RESOURCE_POLL_US)
    begun = e.WaitBegun("resource", due_at=due_at, detail={"steps": steps})
    draft.emit(job.id, begun, f"resource:{job.fence}")


def is_available(draft: Draft, job: Job, name: str) -> bool:
    """Whether a step would get a resource now."""
    step = steps_of(draft, job.id)[name]
    return available(draft, draft.plan(job.id).step(name), step) is not None


def _delayed(draft: Draft, job: Job) -> list[Step]:
    steps = steps_of(draft, job.id).values()
    return [step for step in steps if step.state == "retrying" and step.not_before > draft.now]


def next_check_at(draft: Draft, job: Job, names: Iterable[str], pause_us: int) -> int:
    """Return the time after the pause, or the first deadline of the steps if that is earlier.

    If rate limits or open breakers end later than the pause, nothing is checked before.
    """
    steps = list(names)
    until = first_deadline(draft, job, steps)
    usable = min(_usable_at(draft, job, steps), draft.now + LONGEST_POLL_US)
    soon = max(draft.now + pause_us, usable)
    return soon if until is None or until <= draft.now else min(soon, until)


def _usable_at(draft: Draft, job: Job, names: Iterable[str]) -> int:
    """Return when the first resource of the steps can be used, now if that is not known."""
    steps = steps_of(draft, job.id)
    times = (usable_at(draft, draft.plan(job.id).step(name), steps[name]) for name in names)
    return min((draft.now if at is None else at for at in times), default=draft.now)


# ---- money -----------------------------------------------------------------------------------


def lacks_funds(draft: Draft, job: Job, fence: int, run_id: str | None) -> bool:
    """Whether a claim finds no money to spend; then its run is suspended until there is some."""
    free = is_acceptance(job) or has_variants(job)
    lack = None if free else short_of(draft, job)
    if lack is None:
        return False
    name = _wait_for_funds(draft, job, fence, lack)
    if run_id is None:
        wait_or_park(draft, job.id)
    else:
        ended = e.RunSucceeded("suspended", None, name, reason="funds")
        draft.emit(job.id, ended, run_id)
    return True


def short_of(draft: Draft, job: Job) -> Exhausted | None:
    """Return the budget that keeps every run of the job from starting now."""
    task = draft.task_of(job)
    found = None if task is None else allowance(draft, task)
    return found if isinstance(found, Exhausted) else None


def _wait_for_funds(draft: Draft, job: Job, fence: int, lack: Exhausted) -> str:
    """Begin a wait for money, and return its name.

    Money that other runs have reserved may become free, so the wait is checked again. A spent
    budget must be raised.
    """
    payer = draft.task(lack.task_id)
    detail = {"task": payer.id, "budget": payer.budget, "spent": payer.spent}
    due_at = None if lack.spent else draft.now + RESOURCE_POLL_US
    name = f"funds:{fence}"
    draft.emit(job.id, e.WaitBegun("funds", due_at=due_at, detail=detail), name)
    return name
