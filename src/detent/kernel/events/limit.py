"""Events of pauses and limits: set, changed, ended.

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
    """At most `running` jobs run at the same time, and at most `rate` start in `per_s` seconds.

    Of a project also: its `weight` among projects; at most `submit_rate` submissions in
    `submit_per_s` seconds; at most `stored_bytes`; no start when the runs of a day have cost
    `cost_per_day` micro-dollars.
    """

    running: int | None = None
    rate: int | None = None
    per_s: int | None = None
    in_file: bool = False
    weight: int | None = None
    submit_rate: int | None = None
    submit_per_s: int | None = None
    stored_bytes: int | None = None
    cost_per_day: int | None = None


@event("limit")
class LimitEnded(Event):
    """All numbers under the name are removed; a pause stays."""


@event("limit")
class LimitsNoted(Event):
    """All pauses and limits in effect at this moment, by name.

    It is written where the log lacks the events before it: they were trimmed, or an older version
    of detent wrote none.
    """

    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
