"""Plans under a grant: laying a plan out, starting its steps, and resting when none can run."""

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel.decide.guards import held
from detent.kernel.draft import Draft
from detent.kernel.planned import lay_out
from detent.kernel.resting import rest_plan as rest
from detent.kernel.steps import start


def record_plan(draft: Draft, command: c.RecordPlan) -> int:
    job = held(draft, command.grant)
    if job.plan_version > 0 and not job.plan_wanted:
        raise Refused(f"job {job.id} has a plan and asked for no other", code="plan_not_wanted")
    lay_out(draft, job, command.plan)
    return draft.job(job.id).plan_version


def start_step(draft: Draft, command: c.StartStep) -> str | None:
    job = held(draft, command.grant)
    return start(draft, job, command.step)


def rest_plan(draft: Draft, command: c.RestPlan) -> str:
    """The worker finds that no step can start now, for want of a resource or of time."""
    job = held(draft, command.grant)
    if draft.live_runs(job.id):
        raise Refused(f"job {job.id} has live runs and cannot rest", code="still_running")
    return rest(draft, job)
