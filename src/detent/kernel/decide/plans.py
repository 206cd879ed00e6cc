"""Plans under a grant: laying a plan out, starting its steps, and resting when none can run."""

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel.decide.guards import held
from detent.kernel.draft import Draft
from detent.kernel.entities import Job
from detent.kernel.plan_progress import lay_out
from detent.kernel.plan_steps import available, planner_is_due, start, startable, steps_of
from detent.kernel.predicates import next_attempt
from detent.kernel.retry import failure_class_from
from detent.kernel.transitions.attempts import retry_or_fail
from detent.kernel.transitions.claim_end import settle
from detent.kernel.transitions.idle_plan import rest_plan as let_plan_wait
from detent.kernel.transitions.idle_plan import short_of


def record_plan(draft: Draft, command: c.RecordPlan) -> int:
    job = held(draft, command.grant)
    _plan_is_wanted(draft, job)
    lay_out(draft, job, command.plan)
    return draft.job(job.id).plan_version


def fail_plan(draft: Draft, command: c.FailPlan) -> str:
    """The planner failed: an attempt at the whole job is over, as when its only run fails."""
    job = held(draft, command.grant)
    _plan_is_wanted(draft, job)
    if job.cancel_reason is None:
        kind = failure_class_from(command.error_class)
        retry_or_fail(draft, job, kind, command.error, next_attempt(draft, job, kind))
    return settle(draft, job.id)


def _plan_is_wanted(draft: Draft, job: Job) -> None:
    if job.plan_version > 0 and not job.plan_wanted:
        raise Refused(f"job {job.id} has a plan and asked for no other", code="plan_not_wanted")
    if job.plan_version > 0 and not planner_is_due(draft, job):
        raise Refused(f"job {job.id} has steps that are still going on", code="still_running")


def start_step(draft: Draft, command: c.StartStep) -> str | None:
    """A claim of the job found money; what its other steps have spent since counts as well."""
    job = held(draft, command.grant)
    lack = short_of(draft, job)
    if lack is not None:
        raise Refused(
            f"step {command.step} of job {job.id} cannot start: {lack.task_id} has no money left",
            code="budget_spent",
        )
    return start(draft, job, command.step)


def rest_plan(draft: Draft, command: c.RestPlan) -> str:
    """The worker finds that no step can start now, for want of a resource, of money or of time."""
    job = held(draft, command.grant)
    if draft.live_runs(job.id):
        raise Refused(f"job {job.id} has live runs and cannot rest", code="still_running")
    for name in startable(draft, job, draft.now) if short_of(draft, job) is None else ():
        step = steps_of(draft, job.id)[name]
        if available(draft, draft.plan(job.id).step(name), step) is not None:
            raise Refused(f"step {name} of job {job.id} can start now", code="step_can_start")
    return let_plan_wait(draft, job)
