"""Decides a worker's reports about a plan: record it, start its steps, wait if none can run."""

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import plan_progress
from detent.kernel.decide.guards import held
from detent.kernel.draft import Draft
from detent.kernel.entities import Job
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
    plan_progress.record_plan(draft, job, command.plan)
    return draft.job(job.id).plan_version


def fail_plan(draft: Draft, command: c.FailPlan) -> str:
    """End the attempt because the planner failed, as a failed run does."""
    job = held(draft, command.grant)
    _plan_is_wanted(draft, job)
    if job.cancel_reason is None:
        kind = failure_class_from(command.error_class)
        retry_or_fail(draft, job, kind, command.error, next_attempt(draft, job, kind))
    return settle(draft, job.id)


def _plan_is_wanted(draft: Draft, job: Job) -> None:
    if job.plan_version > 0 and not job.plan_wanted:
        raise Refused(
            f"Job {job.id} has a plan and did not request another.", code="plan_not_wanted"
        )
    if job.plan_version > 0 and not planner_is_due(draft, job):
        raise Refused(f"Job {job.id} has plan steps that are still running.", code="still_running")


def start_step(draft: Draft, command: c.StartStep) -> str | None:
    """Start a plan step. The budget is checked again: other steps may have spent it since."""
    job = held(draft, command.grant)
    lack = short_of(draft, job)
    if lack is not None:
        raise Refused(
            f"Step {command.step} of job {job.id} cannot start: the budget of {lack.task_id} is "
            "exhausted.",
            code="budget_spent",
        )
    return start(draft, job, command.step)


def rest_plan(draft: Draft, command: c.RestPlan) -> str:
    """Let the plan wait because no step can start now."""
    job = held(draft, command.grant)
    if draft.live_runs(job.id):
        raise Refused(f"Job {job.id} has live runs and cannot wait.", code="still_running")
    for name in startable(draft, job, draft.now) if short_of(draft, job) is None else ():
        step = steps_of(draft, job.id)[name]
        if available(draft, draft.plan(job.id).step(name), step) is not None:
            raise Refused(f"Step {name} of job {job.id} can start now.", code="step_can_start")
    return let_plan_wait(draft, job)
