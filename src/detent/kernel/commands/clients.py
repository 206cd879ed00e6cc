"""Commands of people and programs: submit, queue, review, answer, cancel, edit, delete."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from detent.kernel.commands.command_types import JobCommand, TaskCommand
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.kernel.frozen_value import value


@value
class SubmitTask(TaskCommand):
    """Create a task, and queue it with `queue`."""

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
    #: The task does not start before this time, nor before `delay` microseconds have passed.
    not_before: int = 0
    delay: int = 0
    #: Limits of this submission, in addition to those of every tree: a run may have lower ones.
    max_depth: int | None = None
    max_subtasks: int | None = None


@value
class SubmitJob(JobCommand):
    """Create a job without a task."""

    job_id: str
    project: str
    intent: str
    priority: str = "P2"
    payload: Any = None
    parent_job_id: str | None = None
    concurrency_key: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    #: As in `SubmitTask`.
    not_before: int = 0
    delay: int = 0


class KeptResult(NamedTuple):
    """A checkpoint that a fork copies from its source."""

    name: str
    kind: str
    value: Any
    step: str | None = None


@value
class ForkJob(JobCommand):
    """Create a job that starts with the results of another job up to a checkpoint."""

    job_id: str
    source: str
    until: str
    payload: Any = None
    kept: tuple[KeptResult, ...] = ()
    #: The plan of the source, if it has one, and the results of the plan steps that are kept.
    plan: Mapping[str, Any] | None = None
    carried: Mapping[str, Any] = field(default_factory=dict)


@value
class QueueTask(TaskCommand):
    """Queue a task that is pending, or queue it again after a failure (`run`)."""

    task_id: str


@value
class RetryTask(TaskCommand):
    """Run a failed task again with new retry counts, or start a waiting retry immediately."""

    task_id: str
    #: Fields and the budget to change first, as in `EditTask`.
    changes: Mapping[str, Any] = field(default_factory=dict)
    budget: int | None = None


@value
class ResumeTask(TaskCommand):
    """Continue a timed-out task in its agent session."""

    task_id: str


@value
class CancelTask(TaskCommand):
    """Cancel a task and its subtasks."""

    task_id: str
    reason: str = "cancelled"
    #: The version of the task that the caller saw. If it has changed, the command is refused.
    seen: int | None = None


@value
class AcceptTask(TaskCommand):
    """Accept the result of a task under review; an action that its options declare runs first."""

    task_id: str
    comment: str | None = None
    #: The version of the task that the reviewer saw. If it has changed, the command is refused.
    seen: int | None = None
    #: The diff that the reviewer saw. If there may be another one, the command is refused.
    diff: ReviewedDiff | None = None
    #: Accept it without the declared action.
    without_action: bool = False


@value
class ChooseVariant(TaskCommand):
    """Choose one of the variants of a task, by its number or its id; the others are cancelled."""

    task_id: str
    variant: str
    #: As in `AcceptTask`; the diff is that of the variant.
    seen: int | None = None
    diff: ReviewedDiff | None = None


@value
class RejectTask(TaskCommand):
    """Reject the result of a task under review, and with `run` queue it again."""

    task_id: str
    comment: str | None = None
    seen: int | None = None
    run: bool = False
    diff: ReviewedDiff | None = None


@value
class SendEvent(TaskCommand):
    """Send a task an event that its lifecycle declares for people."""

    task_id: str
    event: str
    comment: str | None = None
    #: The version of the task that the sender saw. If it has changed, the command is refused.
    seen: int | None = None
    diff: ReviewedDiff | None = None


@value
class MigrateTask(TaskCommand):
    """Continue a task under another version of its lifecycle."""

    task_id: str
    #: The id of that version.
    lifecycle: str


@value
class AnswerTask(TaskCommand):
    """Answer the open question of a task."""

    task_id: str
    answer: Any
    #: The name of the question's wait; by default the question that blocks the task.
    wait: str | None = None
    #: The version of the task that the person saw. If it has changed, the command is refused,
    #: unless it repeats the answer that was given.
    seen: int | None = None


@value
class DismissSubtask(TaskCommand):
    """Stop waiting for a failed subtask and for the failed subtasks below it."""

    #: The subtask.
    task_id: str
    reason: str | None = None


@value
class UnblockTask(TaskCommand):
    """Queue a blocked task again."""

    task_id: str


@value
class EditTask(TaskCommand):
    """Change fields and the budget of a task, all of them or none."""

    task_id: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    budget: int | None = None
    #: The version of the task that the caller saw. If it has changed, the command is refused.
    seen: int | None = None


@value
class AssignTask(TaskCommand):
    """Name the person who is to deal with a task; None ends the assignment."""

    task_id: str
    person: str | None = None


@value
class RaiseBudget(TaskCommand):
    """Set a higher budget for a task."""

    task_id: str
    budget: int


@value
class DeleteTask(TaskCommand):
    """Delete an ended task and its subtasks."""

    task_id: str
    reason: str = "deleted"


@value
class CancelJob(JobCommand):
    """Cancel a job without a task, and the jobs below it."""

    job_id: str
    reason: str = "cancelled"


@value
class RetryJob(JobCommand):
    """Run a failed job without a task again."""

    job_id: str


@value
class AnswerJob(JobCommand):
    """Answer the open question of a job without a task, or the question about its budget."""

    job_id: str
    answer: Any
    wait: str | None = None


@value
class DeleteJob(JobCommand):
    """Delete an ended job without a task."""

    job_id: str
    reason: str = "deleted"


@value
class SendSignal(JobCommand):
    """Send a named signal to a job."""

    job_id: str
    name: str
    value: Any = None


@value
class AttachEvidence(JobCommand):
    """Add an evidence file to a run, live or ended, while no worker has claimed its job."""

    job_id: str
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"
