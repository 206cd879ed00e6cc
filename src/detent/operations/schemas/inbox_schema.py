"""Types of the inbox: what waits for a person, and what can be done about it."""

from typing import Any

from typing_extensions import TypedDict

from detent.operations.schemas.work_schema import Task


class JobQuestion(TypedDict):
    """An open question of a job without a task, or of a run that keeps running (`permission`).

    `answer_job` takes its `name` as `question`.
    """

    job_id: str
    task_id: str | None
    name: str
    kind: str
    begun_at: str
    step: str | None
    due_at: str | None
    detail: dict[str, Any]
    project: str
    intent: str
    priority: str
    state: str


class RefusedRow(TypedDict):
    """A refused submission from the table `intake`, with the reason."""

    id: str
    operation: str
    project: str
    intent: str
    #: The inserted body, as text.
    body: str
    idempotency_key: str | None
    refused_at: str
    code: str
    field: str | None
    detail: str


class RefusedRows(TypedDict):
    items: list[RefusedRow]


class Suggestion(TypedDict):
    """A legal action, the task that it applies to, and the command for it."""

    action: str
    id: str
    command: str


class InboxTask(Task):
    """A task that waits for a person, with the legal actions."""

    #: What it needs: question, confirmation, review, budget, failure, quarantine or subtask.
    kind: str
    #: When it comes back to the caller's inbox, if the caller has snoozed it.
    snoozed_until: str | None
    actions: list[Suggestion]
    #: The events of its lifecycle that the caller may send now.
    events: list[str]


class Inbox(TypedDict):
    """Tasks that wait for a person, questions of jobs without a task and of live runs, and refused
    submissions; in each list, the highest priority is first, then the oldest."""

    #: How many items match; the lists have the most urgent ones. Snoozed items are not counted.
    count: int
    #: How many of the matching items the caller has snoozed.
    snoozed: int
    items: list[InboxTask]
    questions: list[JobQuestion]
    refused: list[RefusedRow]


class Snoozed(TypedDict):
    """A task, and when it comes back to the caller's inbox; null if it is not snoozed."""

    id: str
    snoozed_until: str | None
