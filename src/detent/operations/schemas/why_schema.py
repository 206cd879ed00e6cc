"""Types of the reasons why work is not running."""

from typing import Any

from typing_extensions import TypedDict

from detent.operations.schemas.inbox_schema import Suggestion


class Reason(TypedDict):
    """One reason why a task or job is not running, and when detent checks it again."""

    reason: str
    cleared_by: str
    how: str
    looks_again: str
    looks_again_at: str | None
    detail: dict[str, Any]
    actions: list[Suggestion]


class Why(TypedDict):
    """The reasons why a task or job is not running, and the legal actions."""

    id: str
    state: str
    since: str
    reasons: list[Reason]
    actions: list[str]
    #: The events of the task's lifecycle that the caller may send now.
    events: list[str]
