"""The shapes of what charts are drawn from. Types only."""

from typing_extensions import TypedDict


class Counts(TypedDict):
    """By lifecycle, how many stand in each state."""

    lifecycles: dict[str, dict[str, int]]


class Span(TypedDict):
    """A piece of the window: the runs that ended in it."""

    start: str
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    success_rate: float | None
    p50_s: float | None
    p95_s: float | None
    #: How long jobs had waited in the queue when these runs took them: the middle, the longest.
    queue_p50_s: float | None
    queue_max_s: float | None
    cost: float


class Threshold(TypedDict):
    """Where a figure stops being ok, and where it stops being degraded."""

    figure: str
    ok: float
    degraded: float | None


class Series(TypedDict):
    """The window piece by piece, oldest first. `partial`: older runs were not looked at."""

    span_s: int
    spans: list[Span]
    thresholds: list[Threshold]
    partial: bool
