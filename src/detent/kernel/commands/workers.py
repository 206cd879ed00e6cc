"""Commands of workers: claim a job, and report about it under the grant of the claim."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from detent.kernel.commands.clients import SubmitTask
from detent.kernel.commands.command_types import Grant, JobCommand, Report
from detent.kernel.frozen_value import value


@value
class ClaimJob(JobCommand):
    """Claim a due job for a worker."""

    job_id: str
    worker: str
    nonce: str


@value
class RecordCheckpoint(Report):
    """Record the result of a durable step."""

    grant: Grant
    name: str
    value: Any = None
    step: str | None = None


@value
class BeginEffect(Report):
    """Record that an external effect begins, before it does."""

    grant: Grant
    name: str
    policy: str
    step: str | None = None


@value
class SuspendRun(Report):
    """End a run without ending its attempt, which continues when the wait ends."""

    grant: Grant
    run_id: str
    wait: str
    kind: str
    needs: tuple[str, ...] = ()
    due_at: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    hold_resource_us: int = 0


@value
class RequestPermission(Report):
    """Ask a person while the run keeps running; the wait ends with the run at the latest."""

    grant: Grant
    run_id: str
    wait: str
    due_at: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)


@value
class CompleteRun(Report):
    """Report that a run succeeded."""

    grant: Grant
    run_id: str
    result: Any = None
    exit_code: int | None = None
    #: The critic's decision about a plan step; the default critic decides if there is none.
    decision: str | None = None
    #: The subtask that checks the work of the run, submitted in the same transaction.
    check: SubmitTask | None = None


@value
class FailRun(Report):
    """Report that a run failed, with the class of the failure."""

    grant: Grant
    run_id: str
    error_class: str
    error: str
    exit_code: int | None = None
    reset_at: int | None = None
    decision: str | None = None


@value
class TimeOutRun(Report):
    """Report that a run exceeded a time limit."""

    grant: Grant
    run_id: str
    limit: str = "run"
    error: str = "the run was over its time limit"
    decision: str | None = None


@value
class ConfirmCancel(Report):
    """Confirm that the work of a job with a cancel request has stopped."""

    grant: Grant


@value
class HandBack(Report):
    """Return a job to the queue without counting an attempt, when its worker stops."""

    grant: Grant


@value
class ReserveFunds(Report):
    """Reserve money for a run before it spends any. The result is the amount, None if unlimited."""

    grant: Grant
    run_id: str


@value
class ChargeRun(Report):
    """Report the total cost and tokens of a run so far."""

    grant: Grant
    run_id: str
    cost: int
    tokens_in: int = 0
    tokens_out: int = 0
    model: str | None = None


@value
class ReportProgress(Report):
    """Report the progress of a run."""

    grant: Grant
    run_id: str
    progress: float | None = None
    note: str | None = None


@value
class AddEvidence(Report):
    """Add an evidence file to a live run."""

    grant: Grant
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"


@value
class OpenSession(Report):
    """Record the session of an agent, on the run too if it is given.

    The session of a plan step is not the session of the task.
    """

    grant: Grant
    session_id: str
    run_id: str | None = None


@value
class RecordPlan(Report):
    """Record the first plan of a job, or its next version."""

    grant: Grant
    plan: Mapping[str, Any]


@value
class FailPlan(Report):
    """Report that the planner failed: there is no plan, or no next version."""

    grant: Grant
    error_class: str
    error: str


@value
class StartStep(Report):
    """Start a plan step."""

    grant: Grant
    step: str


@value
class RestPlan(Report):
    """Report that no plan step can run now: the job waits for what is missing, or fails."""

    grant: Grant
