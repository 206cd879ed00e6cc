"""Jobs without a task: submit, cancel, retry, signal, answer and delete them."""

from typing import Any

from detent.kernel import commands as c
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.intake import submitted
from detent.operations.registry import Caller, PreparedSubmission, Scope, operation, submission
from detent.submission.command import submit_job as job_from
from detent.submission.context import Context
from detent.submission.request import JobRequest


@submission(Scope.SUBMIT, "POST", "/api/jobs", request=JobRequest)
def submit_job(
    _core: Core, _caller: Caller, context: Context, /, **given: Any
) -> PreparedSubmission[schemas.Submitted]:
    """Create a job without a task and queue it."""
    return PreparedSubmission([job_from(context, given).request()], submitted)


def _done(core: Core, caller: Caller, command: c.JobCommand) -> schemas.Moved:
    core.job(caller, command.job_id)
    outcome = core.engine.do(command, caller.actor)
    job, version = core.job(caller, command.job_id)
    return {"id": job.id, "state": job.state, "version": version, "outcome": outcome}


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/cancel")
def cancel_job(
    core: Core, caller: Caller, *, job_id: str, reason: str = "cancelled"
) -> schemas.Moved:
    """Cancel a job; if it is running, its worker is asked to stop."""
    return _done(core, caller, c.CancelJob(job_id, reason))


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/retry")
def retry_job(core: Core, caller: Caller, *, job_id: str) -> schemas.Moved:
    """Run a failed job again with its attempt count reset."""
    return _done(core, caller, c.RetryJob(job_id))


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/signal")
def signal_job(
    core: Core, caller: Caller, *, job_id: str, name: str, value: Any = None
) -> schemas.Moved:
    """Send a named signal to a job; it is stored until the job waits for it."""
    return _done(core, caller, c.SendSignal(job_id, name, value))


@operation(Scope.REVIEW, "POST", "/api/jobs/{job_id}/answer")
def answer_job(
    core: Core, caller: Caller, *, job_id: str, answer: Any, question: str | None = None
) -> schemas.Moved:
    """Answer the open question of a job; name the question if several are open."""
    return _done(core, caller, c.AnswerJob(job_id, answer, question))


@operation(Scope.ADMIN, "DELETE", "/api/jobs/{job_id}")
def delete_job(core: Core, caller: Caller, *, job_id: str) -> schemas.Deleted:
    """Delete a job that has no task, with its data; refused while it has not ended."""
    core.job(caller, job_id)
    core.engine.do(c.DeleteJob(job_id), caller.actor)
    return {"id": job_id, "outcome": "deleted"}
