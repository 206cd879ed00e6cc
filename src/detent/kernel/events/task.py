"""Events of a task: its state changes, and facts that do not change its state."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from detent.kernel.events.record import Event, event


@event("task")
class TaskCreated(Event):
    project: str
    lifecycle: str
    intent: str
    source: str
    priority: str
    root_id: str
    parent_id: str | None = None
    depth: int = 0
    title: str = ""
    payload: Any = None
    tags: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()
    open_dependencies: int = 0
    budget: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


@event("task")
class TaskQueued(Event):
    #: The new job that this calls for.
    job_id: str


@event("task")
class TaskStarted(Event):
    run_id: str


@event("task")
class TaskBlocked(Event):
    reason: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    retries_left: int | None = None


@event("task")
class TaskUnblocked(Event):
    """`reason` is the reason that is gone; `wait` is the ended wait, `job_id` the new job."""

    reason: str | None = None
    wait: str | None = None
    outcome: str = "unblocked"
    value: Any = None
    job_id: str | None = None


@event("task")
class TaskReady(Event):
    pass


@event("task")
class TaskCompleted(Event):
    pass


@event("task")
class TaskFailed(Event):
    error_class: str | None = None
    error: str | None = None


@event("task")
class TaskTimedOut(Event):
    error: str | None = None


@event("task")
class TaskBudgetExceeded(Event):
    spent: int
    budget: int | None = None


@event("task")
class TaskCancelled(Event):
    reason: str


@event("task")
class TaskAccepting(Event):
    """A person has accepted the result, and the declared action (merge, push) must run first.

    `diff` is the SHA-256 of the reviewed diff; `job_id` is the new job, whose work is the action.
    `by` is the checker that has accepted it, if no person did.
    """

    job_id: str
    comment: str | None = None
    diff: str | None = None
    by: str | None = None


@event("task")
class TaskAccepted(Event):
    """`diff` is the SHA-256 of the diff that was reviewed, if the reviewer named one.

    `by` is the person or checker that accepted, if a worker wrote the event.
    """

    comment: str | None = None
    diff: str | None = None
    by: str | None = None


@event("task")
class TaskRejected(Event):
    """`diff` is the SHA-256 of the diff that was reviewed, if the reviewer named one."""

    round: int
    comment: str | None = None
    diff: str | None = None


@event("task")
class TaskMoved(Event):
    """A transition whose event only the document of the lifecycle declares.

    In the log it has the declared name. `round` is the number of the round that it counts, `job_id`
    the new job that it calls for, `diff` the SHA-256 of the diff that was reviewed.
    """

    name: str  # type: ignore[misc]  # of the instance: every other event has the name of its class
    comment: str | None = None
    round: int | None = None
    job_id: str | None = None
    diff: str | None = None


@event("task")
class TaskMigrated(Event):
    """The task continues under another version of its lifecycle, in a state of that version."""

    lifecycle: str
    state: str


@event("task")
class TaskRetried(Event):
    job_id: str | None = None


@event("task")
class TaskResumed(Event):
    pass


@event("task")
class TaskAnswered(Event):
    """`question` names the wait that the answer ends."""

    answer: Any
    question: str
    outcome: str = "answered"


@event("task")
class CommentAdded(Event):
    """A comment on lines of a diff, or on a whole file of it (`start` and `end` are 0).

    `diff` is the SHA-256 of the diff, and `run_id` the run that produced it. `quoted` has the lines
    that the comment is about, `round` how often changes had been requested before. `by` is the
    checker that commented, if a worker wrote the event.
    """

    comment_id: str
    diff: str
    run_id: str
    file: str
    side: str
    start: int
    end: int
    quoted: tuple[str, ...]
    text: str
    round: int = 0
    by: str | None = None


@event("task")
class CommentReplied(Event):
    """`run_id` is the run that replied; None for a reply of a person."""

    comment_id: str
    reply_id: str
    text: str
    run_id: str | None = None


@event("task")
class CommentResolved(Event):
    comment_id: str


@event("task")
class CommentReopened(Event):
    comment_id: str


@event("task")
class TaskEdited(Event):
    """New values of editable fields: title, payload, tags, priority, options."""

    changes: Mapping[str, Any]


@event("task")
class TaskAssigned(Event):
    """The person who is to deal with the task; null if it is no longer assigned."""

    person: str | None = None


@event("task")
class VariantChosen(Event):
    """One of the variants of a task was chosen: the task continues the work of this subtask.

    `job_id` is the job that has created the variants. `intent` and `session_id` are those of the
    variant: the next rounds of the task have them.
    """

    task_id: str
    number: int
    job_id: str
    intent: str
    session_id: str | None = None


@event("task")
class TaskCancelRequested(Event):
    reason: str


@event("task")
class TaskCharged(Event):
    amount: int
    run_id: str


@event("task")
class BudgetWarned(Event):
    """Eighty percent of the budget is spent."""

    spent: int
    budget: int


@event("task")
class BudgetRaised(Event):
    budget: int


@event("task")
class SessionOpened(Event):
    """The agent's session id, chosen before its process starts so that a crash cannot lose it."""

    session_id: str


@event("task")
class DependencyDone(Event):
    task_id: str


@event("task")
class DependencyFailed(Event):
    task_id: str
    state: str


@event("task")
class SubtaskAdded(Event):
    task_id: str


@event("task")
class SubtaskDone(Event):
    task_id: str


@event("task")
class SubtaskFailed(Event):
    task_id: str
    state: str


@event("task")
class SubtaskHandled(Event):
    """The parent's handler has received the outcome of the subtask (`gather(outcomes=True)`).

    An event of every task above the subtask: none of them waits for it any more.
    """

    task_id: str
    state: str


@event("task")
class SubtaskDismissed(Event):
    """A person has dismissed a subtask that failed; the subtask itself does not change.

    An event of every task above the subtask: none of them waits for it any more.
    """

    task_id: str
    state: str
    reason: str | None = None


@event("task")
class TaskImported(Event):
    """The earlier events of the task were imported from an archive of another installation.

    `manifest` is the SHA-256 of the archive's manifest; `position` and `chain` are the end of the
    hash chain of the exported log.
    """

    manifest: str
    position: int
    chain: str


@event("task")
class TaskDeleted(Event):
    """The tombstone of a deleted task, with the numbers of what was removed, for audits."""

    reason: str
    events: int = 0
    jobs: int = 0
    runs: int = 0
