"""Jobs alone: submitting one, and what one can do with it."""

from collections.abc import Mapping
from typing import Any

from detent.ids import new_id
from detent.kernel import commands as c
from detent.kernel.priority import priority_from
from detent.operations import shapes
from detent.operations.core import Core, known
from detent.operations.intake import posted, submitted
from detent.operations.registry import Caller, Posted, Scope, operation, submission
from detent.operations.requests import options_for, own_id, project_from


@submission(Scope.SUBMIT, "POST", "/api/jobs")
def submit_job(
    core: Core,
    caller: Caller,
    *,
    intent: str,
    id: str | None = None,
    project: str | None = None,
    priority: str = "P2",
    payload: Any = None,
    concurrency_key: str | None = None,
    options: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Posted[shapes.Submitted]:
    """Queue a job without a task."""
    intents = core.known_intents()
    known(intent, intents, "intent", "unknown_intent")
    checked = options_for(intents, intent, options or {}, "job", payload)
    command = c.SubmitJob(
        job_id=new_id() if id is None else own_id(id, "id"),
        project=project_from(core, caller, project),
        intent=intent,
        priority=priority_from(priority).value,
        payload=payload,
        concurrency_key=concurrency_key or checked.get("concurrency_key"),
        options=checked,
    )
    body = (intent, project, command.priority, payload, concurrency_key, options)
    return posted(command, caller, body, idempotency_key, submitted, fresh=id is None)


def _done(core: Core, caller: Caller, command: c.JobCommand) -> shapes.Moved:
    core.job(caller, command.job_id)
    outcome = core.engine.do(command, caller.actor)
    job, version = core.job(caller, command.job_id)
    return {"id": job.id, "state": job.state, "version": version, "outcome": outcome}


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/cancel")
def cancel_job(
    core: Core, caller: Caller, *, job_id: str, reason: str = "cancelled"
) -> shapes.Moved:
    """Cancel the job, or ask its worker to stop."""
    return _done(core, caller, c.CancelJob(job_id, reason))


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/retry")
def retry_job(core: Core, caller: Caller, *, job_id: str) -> shapes.Moved:
    """Run a failed job again with new counts."""
    return _done(core, caller, c.RetryJob(job_id))


@operation(Scope.OPERATE, "POST", "/api/jobs/{job_id}/signal")
def signal_job(
    core: Core, caller: Caller, *, job_id: str, name: str, value: Any = None
) -> shapes.Moved:
    """Send a named signal to the job; kept if nothing waits for it yet."""
    return _done(core, caller, c.SendSignal(job_id, name, value))


@operation(Scope.REVIEW, "POST", "/api/jobs/{job_id}/answer")
def answer_job(
    core: Core, caller: Caller, *, job_id: str, answer: Any, question: str | None = None
) -> shapes.Moved:
    """Answer the open question of a job, by its name if several are open; the work goes on."""
    return _done(core, caller, c.AnswerJob(job_id, answer, question))


@operation(Scope.ADMIN, "DELETE", "/api/jobs/{job_id}")
def delete_job(core: Core, caller: Caller, *, job_id: str) -> shapes.Deleted:
    """Delete a job that has no task, with its rows and data; refused while it is live."""
    core.job(caller, job_id)
    core.engine.do(c.DeleteJob(job_id), caller.actor)
    return {"id": job_id, "outcome": "deleted"}
