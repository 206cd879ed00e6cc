"""Types of a task at an earlier time and of the fork of a job."""

from typing import Any

from typing_extensions import TypedDict


class TaskThen(TypedDict):
    """A task and its jobs at an earlier time; `position` and `at` are those of the last event."""

    position: int
    at: str
    task: dict[str, Any]
    jobs: list[dict[str, Any]]


class Forked(TypedDict):
    """The new job, and the names of the results that it keeps from its source."""

    id: str
    source: str
    until: str
    kept: list[str]
