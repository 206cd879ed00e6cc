"""Types of the outcome of a task, and of the intents that are offered to other agents."""

from typing import Annotated, Any

from msgspec import Meta
from typing_extensions import TypedDict

from detent.operations.schemas.costs_schema import Elsewhere
from detent.operations.schemas.work_schema import Evidence


class OpenQuestion(TypedDict):
    """An open question of a task. `answer_task` takes its `name` as `question`."""

    #: Identifies the question: a later question of the same name has another key.
    key: str
    name: str
    text: str
    #: The answers to choose from; empty for a free answer.
    options: list[Annotated[Any, Meta(description="A JSON value")]]
    #: Whether an answer that is not one of the options is allowed.
    other: bool
    asked_at: str
    due_at: str | None


class Outcome(TypedDict):
    """What became of a task: its state, its progress, its questions, and its result or error."""

    id: str
    project: str
    intent: str
    state: str
    blocked_by: str | None
    root_id: str
    payload: Any
    tags: list[str]
    created_by: str
    created_at: str
    state_at: str
    #: How the work ended: done, failed or cancelled; null while it is live.
    ending: str | None
    #: When retention may delete the task; null while it is live.
    kept_until: str | None
    #: The progress of its current run, from 0 to 1, and the run's note.
    progress: float | None
    note: str | None
    questions: list[OpenQuestion]
    #: The result of its job, if it ended well.
    result: Any
    error_class: str | None
    error: str | None
    evidence: list[Evidence]
    elsewhere: Elsewhere
    version: int


class OfferedIntent(TypedDict):
    """An intent that is offered to other agents."""

    name: str
    description: str
    #: A JSON Schema of the payload.
    arguments: dict[str, Any]
    #: Whether a call becomes a task that the client polls: optional, required or forbidden.
    tasks: str


class OfferedIntents(TypedDict):
    items: list[OfferedIntent]
