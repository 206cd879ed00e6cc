"""One reason why work is not running, and what reasons are found with."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from detent.operations.actions import Suggestion
from detent.operations.context import Core
from detent.store.port import ReadTransaction
from detent.views import shown, utc

IMMEDIATELY = "immediately, when that happens"
NEVER = "none"


class Reason(NamedTuple):
    """One reason. `again` says when detent checks it again, `again_at` the time if it is known."""

    reason: str
    cleared_by: str
    how: str
    again: str
    detail: Mapping[str, Any] = {}
    again_at: int | None = None
    #: What a person can do now.
    actions: tuple[Suggestion, ...] = ()

    def to_schema(self) -> dict[str, Any]:
        at = None if self.again_at is None else utc(self.again_at)
        return {
            "reason": self.reason,
            "cleared_by": self.cleared_by,
            "how": self.how,
            "looks_again": self.again if at is None else f"at {at}",
            "looks_again_at": at,
            "detail": shown(self.detail),
            "actions": [each.to_schema() for each in self.actions],
        }


class WhyContext(NamedTuple):
    """What reasons are found with: a view of the store, and the intervals of the settings."""

    view: ReadTransaction
    blocked_ms: int
    lease_ms: int

    @property
    def periodically(self) -> str:
        """When the keeper checks blocked tasks."""
        return f"{IMMEDIATELY}, and every {self.blocked_ms // 1_000} s"


def why_context(core: Core, view: ReadTransaction) -> WhyContext:
    return WhyContext(view, core.settings.keeper_blocked_ms, core.settings.worker_lease_ms)
