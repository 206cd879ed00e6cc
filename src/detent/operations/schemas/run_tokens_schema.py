"""Types of what a run reads and reports with its own token."""

from typing import Any

from typing_extensions import TypedDict


class OwnBudget(TypedDict):
    """Amounts in dollars. `left` is the smallest remaining budget of the task and the tasks above
    it; null: no limit."""

    budget: float | None
    spent: float
    left: float | None


class OwnComment(TypedDict):
    """The comment of a reviewer who rejected the work. It ended `round`; the first one is 1."""

    round: int
    comment: str | None
    by: str
    at: str


class OwnAnswer(TypedDict):
    """The answer to a question; `outcome` is answered, default or expired."""

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
    """A run and its work. A job without a task has no title and no subtasks.

    `round` is the round that it works in; the first one is 1.
    """

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
    """The confirmation of a report of the run."""

    run_id: str
    outcome: str


class OwnQuestion(TypedDict):
    """The question is asked when the run succeeds; `next` says what to do now."""

    run_id: str
    outcome: str
    next: str


class OwnEvidence(TypedDict):
    run_id: str
    file: str
    kind: str
    sha256: str
    size: int
