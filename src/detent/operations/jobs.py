"""Jobs alone: submitting one, and what one can do with it."""

from typing import Any

from detent.kernel import commands as c
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.intake import submitted
from detent.operations.registry import Caller, Posted, Scope, operation, submission
from detent.submission.command import submit_job as job_from
from detent.submission.request import JobRequest


@submission(Scope.SUBMIT, "POST", "/api/jobs", request=JobRequest)
def submit_job(core: Core, caller: Caller, /, **given: Any) -> Posted[schemas.Submitted]:
    """Queue a job without a task."""
    return Posted([job_from(core.submissions(caller), given).request()], submitted)


def _done(core: Core, caller: Caller, command: c.JobCommand) -> schemas.Moved:
    core.job(caller, command.job_id)
    outcome = core.engine.do(command, caller.actor)
    job, version = core.job(caller, command.job_id)
    return {"id": job.id, "state": job.state, "version": version, "outcome": outcome}


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/cancel")
def cancel_job(
    core: Core, caller: Caller, *, job_id: str, reason: str = "cancelled"
) -> schemas.Moved:
    """Cancel the job, or ask its worker to stop."""
    return _done(core, caller, c.CancelJob(job_id, reason))


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/retry")
def retry_job(core: Core, caller: Caller, *, job_id: str) -> schemas.Moved:
    """Run a failed job again with new counts."""
    return _done(core, caller, c.RetryJob(job_id))


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/signal")
def signal_job(
    core: Core, caller: Caller, *, job_id: str, name: str, value: Any = None
) -> schemas.Moved:
    """Send a named signal to the job; kept if nothing waits for it yet."""
    return _done(core, caller, c.SendSignal(job_id, name, value))


@operation(Scope.REVIEW, "POST", "/api/jobs/{job_id}/answer")
def answer_job(
    core: Core, caller: Caller, *, job_id: str, answer: Any, question: str | None = None
) -> schemas.Moved:
    """Answer the open question of a job, by its name if several are open; the work goes on."""
    return _done(core, caller, c.AnswerJob(job_id, answer, question))


@operation(Scope.ADMIN, "DELETE", "/api/jobs/{job_id}")
def delete_job(core: Core, caller: Caller, *, job_id: str) -> schemas.Deleted:
    """Delete a job that has no task, with its rows and data; refused while it is live."""
    core.job(caller, job_id)
    core.engine.do(c.DeleteJob(job_id), caller.actor)
    return {"id": job_id, "outcome": "deleted"}
