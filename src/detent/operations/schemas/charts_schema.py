"""Types of the data for charts."""

from typing_extensions import TypedDict


class Counts(TypedDict):
    """By lifecycle, the number in each state."""

    lifecycles: dict[str, dict[str, int]]
    #: The number of tasks whose work has not ended.
    active: int


class Span(TypedDict):
    """One interval of the window, with the runs that ended in it."""

    start: str
    succeeded: int
    failed: int
    timed_out: int
    cancelled: int
    success_rate: float | None
    p50_s: float | None
    p95_s: float | None
    #: How long the jobs of these runs waited in the queue: p50 and p95.
    queue_p50_s: float | None
    queue_p95_s: float | None
    cost: float


class Threshold(TypedDict):
    """The limit of a figure for ok, and for degraded."""

    figure: str
    ok: float
    degraded: float | None


class Series(TypedDict):
    """The intervals of the window, oldest first. `partial`: older runs were not read."""

    span_s: int
    spans: list[Span]
    thresholds: list[Threshold]
    partial: bool
