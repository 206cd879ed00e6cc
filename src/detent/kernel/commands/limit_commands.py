"""Commands about pauses and limits, each of them on one name."""

from detent.kernel.commands import Command
from detent.kernel.frozen_value import value


class LimitCommand(Command):
    __slots__ = ()
    name: str


@value
class SetPause(LimitCommand):
    """Start nothing under the name for `for_us` microseconds, or until the pause is ended."""

    name: str
    reason: str | None = None
    for_us: int | None = None
    in_file: bool = False


@value
class EndPause(LimitCommand):
    name: str


@value
class ExpirePause(LimitCommand):
    """The time of a pause is over."""

    name: str


@value
class SetLimit(LimitCommand):
    """Replace all numbers under the name; what is not given has no limit. See `LimitSet`."""

    name: str
    running: int | None = None
    rate: int | None = None
    per_s: int | None = None
    in_file: bool = False
    weight: int | None = None
    submit_rate: int | None = None
    submit_per_s: int | None = None
    stored_bytes: int | None = None
    cost_per_day: int | None = None


@value
class EndLimit(LimitCommand):
    name: str
