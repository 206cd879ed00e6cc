"""The shapes of what was: a task at an earlier moment, and a fork of a job. Types only."""

from typing import Any

from typing_extensions import TypedDict


class TaskThen(TypedDict):
    """A task and its jobs as they stood; `position` and `at` are of the last event before that."""

    position: int
    at: str
    task: dict[str, Any]
    jobs: list[dict[str, Any]]


class Forked(TypedDict):
    """The new job, and which results of its source it begins with."""

    id: str
    source: str
    until: str
    kept: list[str]
