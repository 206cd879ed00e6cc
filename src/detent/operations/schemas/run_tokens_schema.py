"""The shapes of a run's own door: what an agent reads of its work. Types only."""

from typing import Any

from typing_extensions import TypedDict


class OwnBudget(TypedDict):
    """Dollars. `left` is the least that the task or a task above it has left; null: no limit."""

    budget: float | None
    spent: float
    left: float | None


class OwnComment(TypedDict):
    """What a reviewer said when the work was rejected."""

    round: int
    comment: str | None
    by: str
    at: str


class OwnAnswer(TypedDict):
    """What was answered to a question; `outcome` is answered, default or expired."""

    question: str | None
    answer: Any
    outcome: str
    by: str
    at: str


class OwnSubtask(TypedDict):
    id: str
    intent: str
    title: str
    state: str


class OwnRun(TypedDict):
    """A run and what it works on. A job alone has no task, and so no title and no subtasks."""

    run_id: str
    job_id: str
    task_id: str | None
    attempt: int
    project: str
    intent: str
    priority: str
    title: str
    tags: list[str]
    payload: Any
    session_id: str | None
    round: int
    budget: OwnBudget
    comments: list[OwnComment]
    answers: list[OwnAnswer]
    subtasks: list[OwnSubtask]


class OwnReport(TypedDict):
    """What was taken down under the run."""

    run_id: str
    outcome: str


class OwnQuestion(TypedDict):
    """The question counts when the run ends well; `next` says what to do now."""

    run_id: str
    outcome: str
    next: str


class OwnEvidence(TypedDict):
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
