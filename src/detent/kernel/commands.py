"""What may be asked: every command as a value, imperative; `Actor` says who asks.

Reports of a worker carry the grant that its claim gave it; a report with another grant is refused.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from detent.kernel.frozen_value import value


class Actor(NamedTuple):
    """Who asks. An agent acts for a run: `root_id` is the root of the tree that it works on."""

    name: str
    root_id: str | None = None


def run_subject(run_id: str, root_id: str) -> str:
    """The name under which a run acts. No id has an `@`, so that the root can be read from it."""
    return f"run:{run_id}@{root_id}"


class Grant(NamedTuple):
    """What a claim gives: the right to report about one job until the next claim of it."""

    job_id: str
    fence: int
    nonce: str


class Command:
    """One thing that may be asked for."""

    __slots__ = ()


class TaskCommand(Command):
    __slots__ = ()
    task_id: str


class JobCommand(Command):
    __slots__ = ()
    job_id: str


class Report(Command):
    """A worker's report under its grant."""

    __slots__ = ()
    grant: Grant


# ---- people and programs ---------------------------------------------------------------------


@value
class SubmitTask(TaskCommand):
    task_id: str
    project: str
    lifecycle: str
    intent: str
    source: str
    priority: str = "P2"
    title: str = ""
    payload: Any = None
    tags: tuple[str, ...] = ()
    parent_id: str | None = None
    depends_on: tuple[str, ...] = ()
    budget: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    queue: bool = False
    #: It does not start before this time, or before this long after it is stored (microseconds).
    not_before: int = 0
    delay: int = 0
    #: What holds for this submission beside the limits on every tree: a run's own are narrower.
    most_depth: int | None = None
    most_subtasks: int | None = None


@value
class SubmitJob(JobCommand):
    job_id: str
    project: str
    intent: str
    priority: str = "P2"
    payload: Any = None
    parent_job_id: str | None = None
    concurrency_key: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    #: As for a task.
    not_before: int = 0
    delay: int = 0


class KeptResult(NamedTuple):
    """A checkpoint that a fork takes over from its source."""

    name: str
    kind: str
    value: Any
    step: str | None = None


@value
class ForkJob(JobCommand):
    """A new job that begins with what another one had done before a step."""

    job_id: str
    source: str
    until: str
    payload: Any = None
    kept: tuple[KeptResult, ...] = ()
    #: The plan, if the source has one, and the results of its steps that are kept.
    plan: Mapping[str, Any] | None = None
    carried: Mapping[str, Any] = field(default_factory=dict)


@value
class QueueTask(TaskCommand):
    """`run`: queue a task that is not queued yet, or again after a failure."""

    task_id: str


@value
class RetryTask(TaskCommand):
    """Run again: what has failed with new counts, what waits for its next attempt at once."""

    task_id: str
    #: What is changed first, as `EditTask` would.
    changes: Mapping[str, Any] = field(default_factory=dict)


@value
class ResumeTask(TaskCommand):
    """Go on with a timed-out task in its agent session."""

    task_id: str


@value
class CancelTask(TaskCommand):
    task_id: str
    reason: str = "cancelled"


@value
class AcceptTask(TaskCommand):
    task_id: str
    comment: str | None = None
    #: The version of the task that was looked at; another one is refused.
    seen: int | None = None


@value
class RejectTask(TaskCommand):
    task_id: str
    comment: str | None = None
    seen: int | None = None
    run: bool = False


@value
class AnswerTask(TaskCommand):
    task_id: str
    answer: Any
    #: Which question, by the name of its wait; without it the one that blocks the task.
    wait: str | None = None


@value
class DismissSubtask(TaskCommand):
    """Stop waiting for a subtask that failed, and for what failed below it."""

    #: The subtask.
    task_id: str
    reason: str | None = None


@value
class UnblockTask(TaskCommand):
    task_id: str


@value
class EditTask(TaskCommand):
    """New values of fields, and a new budget: all of it, or nothing."""

    task_id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    budget: int | None = None


@value
class RaiseBudget(TaskCommand):
    task_id: str
    budget: int


@value
class DeleteTask(TaskCommand):
    task_id: str
    reason: str = "deleted"


@value
class CancelJob(JobCommand):
    job_id: str
    reason: str = "cancelled"


@value
class RetryJob(JobCommand):
    job_id: str


@value
class AnswerJob(JobCommand):
    """Answer a question of a job alone, or let it go on with its budget."""

    job_id: str
    answer: Any
    wait: str | None = None


@value
class DeleteJob(JobCommand):
    job_id: str
    reason: str = "deleted"


@value
class SendSignal(JobCommand):
    job_id: str
    name: str
    value: Any = None


@value
class AttachEvidence(JobCommand):
    """Add a file to a run, live or ended, while no worker holds its job."""

    job_id: str
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"


# ---- workers ---------------------------------------------------------------------------------


@value
class ClaimJob(JobCommand):
    job_id: str
    worker: str
    nonce: str


@value
class RecordCheckpoint(Report):
    grant: Grant
    name: str
    value: Any = None
    step: str | None = None


@value
class BeginEffect(Report):
    grant: Grant
    name: str
    policy: str
    step: str | None = None


@value
class SuspendRun(Report):
    """End a run without ending its attempt: it goes on when the wait is over."""

    grant: Grant
    run_id: str
    wait: str
    kind: str
    needs: tuple[str, ...] = ()
    due_at: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    hold_resource_us: int = 0


@value
class CompleteRun(Report):
    grant: Grant
    run_id: str
    result: Any = None
    exit_code: int | None = None
    #: The critic's word on a step; without one the default critic decides.
    decision: str | None = None


@value
class FailRun(Report):
    grant: Grant
    run_id: str
    error_class: str
    error: str
    exit_code: int | None = None
    reset_at: int | None = None
    decision: str | None = None


@value
class TimeOutRun(Report):
    grant: Grant
    run_id: str
    limit: str = "run"
    error: str = "the run was over its time limit"
    decision: str | None = None


@value
class ConfirmCancel(Report):
    """The work has really stopped, as a cancel asked."""

    grant: Grant


@value
class HandBack(Report):
    """A stopping worker gives the job back, without penalty."""

    grant: Grant


@value
class ReserveFunds(Report):
    """Set money aside for this run, before it spends any; answered with how much, None: any."""

    grant: Grant
    run_id: str


@value
class ChargeRun(Report):
    """Totals of this run so far."""

    grant: Grant
    run_id: str
    cost: int
    tokens_in: int = 0
    tokens_out: int = 0


@value
class ReportProgress(Report):
    grant: Grant
    run_id: str
    progress: float | None = None
    note: str | None = None


@value
class AddEvidence(Report):
    grant: Grant
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"


@value
class OpenSession(Report):
    """The session that an agent works in. With a run, it is noted there too; a step's session is
    its own and not the task's."""

    grant: Grant
    session_id: str
    run_id: str | None = None


@value
class RecordPlan(Report):
    """The planner's answer: the first plan of a job, or its next version."""

    grant: Grant
    plan: Mapping[str, Any]


@value
class FailPlan(Report):
    """The planner failed: there is no plan, or no next one."""

    grant: Grant
    error_class: str
    error: str


@value
class StartStep(Report):
    grant: Grant
    step: str


@value
class RestPlan(Report):
    """Nothing of the plan can run now: wait for what it lacks, or end."""

    grant: Grant


# ---- due times -------------------------------------------------------------------------------


@value
class ReclaimJob(JobCommand):
    """The lease under this fence has run out."""

    job_id: str
    fence: int


@value
class RequeueJob(JobCommand):
    """A retry is due."""

    job_id: str


@value
class WakeJob(JobCommand):
    """A wait's time is over."""

    job_id: str
    wait: str


@value
class ExpireJob(JobCommand):
    """The limit on its queue wait, or on the whole job, has passed."""

    job_id: str
    limit: str


@value
class EndHold(JobCommand):
    """A suspended step has kept its resource as long as it may."""

    job_id: str
    step: str


@value
class CheckTask(TaskCommand):
    """Look at a blocked task again and re-queue it if its reason is gone."""

    task_id: str
