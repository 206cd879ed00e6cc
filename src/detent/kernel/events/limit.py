"""What happens to the limits on starting work: pauses and limits that are set, changed and ended.

They belong to the whole installation and have a stream of their own. The subject of an event is
the limit's name: `all`, `intent:NAME`, `project:NAME`, `key:NAME` or `worker:NAME`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from detent.kernel.events.record import Event, event

#: The stream of the installation. No task or job has an id with an `@`.
SYSTEM = "@system"


@event("limit")
class PauseSet(Event):
    """Nothing starts under this name, until `until` or until the pause is ended.

    `in_file`: the configuration file says so.
    """

    reason: str | None = None
    until: int | None = None
    in_file: bool = False


@event("limit")
class PauseEnded(Event):
    """`outcome` is `ended` if a caller ended it, `expired` if its time was over."""

    outcome: str = "ended"


@event("limit")
class LimitSet(Event):
    """At most `running` at once, and at most `rate` starts in `per_s` seconds."""

    running: int | None = None
    rate: int | None = None
    per_s: int | None = None
    in_file: bool = False


@event("limit")
class LimitEnded(Event):
    """The limit on how many run at once or start in a time is gone; a pause stays."""


@event("limit")
class LimitsNoted(Event):
    """All pauses and limits that hold at this moment, by name.

    It stands where the events before it are not in the log: they were trimmed, or an older version
    of detent wrote none.
    """

    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
