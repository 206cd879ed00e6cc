"""The health of the installation: the worst of three figures, each with its reason.

Pure: the caller counts. The edges of a range belong to `degraded`.
"""

from dataclasses import dataclass
from enum import StrEnum

from detent.errors import Invalid


class Verdict(StrEnum):
    """The health, from best to worst."""

    OK = "ok"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"


WORST_LAST = tuple(Verdict)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits between ok, degraded and unhealthy. Each is a setting."""

    success_ok_over_percent: int = 95
    success_degraded_from_percent: int = 80
    queue_ok_below: int = 10
    queue_degraded_to: int = 50
    blocked_ok_below: int = 3
    blocked_degraded_to: int = 10
    mean_duration_ok_below_s: int = 300
    failures_ok_below: int = 5

    def __post_init__(self) -> None:
        for low, high in (
            ("success_degraded_from_percent", "success_ok_over_percent"),
            ("queue_ok_below", "queue_degraded_to"),
            ("blocked_ok_below", "blocked_degraded_to"),
        ):
            if getattr(self, low) > getattr(self, high):
                message = f"health.{low} must not be over health.{high}."
                raise Invalid(message, field=f"health.{low}", given=getattr(self, low))


DEFAULT_THRESHOLDS = Thresholds()


@dataclass(frozen=True, slots=True)
class Figures:
    """The counted figures. Runs are those that ended in the last 24 h.

    Suspended and cancelled runs are not counted. `blocked` does not include questions and reviews,
    which wait for people.
    """

    succeeded: int = 0
    failed: int = 0
    timed_out: int = 0
    queue: int = 0
    blocked: int = 0
    waiting_for_people: int = 0
    mean_duration_ms: int | None = None

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.timed_out

    @property
    def failures(self) -> int:
        return self.failed + self.timed_out


@dataclass(frozen=True, slots=True)
class Reason:
    """One figure with its verdict and a sentence that explains it."""

    figure: str
    verdict: Verdict
    text: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A figure that is shown and does not change the verdict. None: nothing was measured."""

    figure: str
    value: int | None
    limit: int
    within: bool


@dataclass(frozen=True, slots=True)
class Health:
    """The verdict with all its reasons."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    shown: tuple[Shown, ...]
    waiting_for_people: int


def judge(figures: Figures, thresholds: Thresholds = DEFAULT_THRESHOLDS) -> Health:
    """Return the health: the worst of success rate, queue and blocked tasks."""
    reasons = (
        _success_rate(figures, thresholds),
        _count(
            "queue",
            figures.queue,
            thresholds.queue_ok_below,
            thresholds.queue_degraded_to,
            "queued",
        ),
        _count(
            "blocked",
            figures.blocked,
            thresholds.blocked_ok_below,
            thresholds.blocked_degraded_to,
            "blocked",
        ),
    )
    worst = max((reason.verdict for reason in reasons), key=WORST_LAST.index)
    return Health(worst, reasons, _shown(figures, thresholds), figures.waiting_for_people)


def _success_rate(figures: Figures, thresholds: Thresholds) -> Reason:
    ok_over, degraded_from = (
        thresholds.success_ok_over_percent,
        thresholds.success_degraded_from_percent,
    )
    if figures.ended == 0:
        return Reason("success_rate", Verdict.OK, "no run ended in the last 24 h")
    # Compared as whole numbers, because floats would round 95 %.
    scaled = 100 * figures.succeeded
    if scaled > ok_over * figures.ended:
        verdict, range_text = Verdict.OK, f"over {ok_over} %"
    elif scaled >= degraded_from * figures.ended:
        verdict, range_text = Verdict.DEGRADED, f"{degraded_from} to {ok_over} %"
    else:
        verdict, range_text = Verdict.UNHEALTHY, f"below {degraded_from} %"
    counted = f"{figures.succeeded} of {figures.ended} runs succeeded in the last 24 h"
    return Reason("success_rate", verdict, f"{counted} ({verdict}: {range_text})")


def _count(figure: str, value: int, ok_below: int, degraded_to: int, word: str) -> Reason:
    if value < ok_below:
        verdict, range_text = Verdict.OK, f"below {ok_below}"
    elif value <= degraded_to:
        verdict, range_text = Verdict.DEGRADED, f"{ok_below} to {degraded_to}"
    else:
        verdict, range_text = Verdict.UNHEALTHY, f"over {degraded_to}"
    return Reason(figure, verdict, f"{value} {word} ({verdict}: {range_text})")


def _shown(figures: Figures, thresholds: Thresholds) -> tuple[Shown, ...]:
    mean_ms, limit_ms = figures.mean_duration_ms, 1_000 * thresholds.mean_duration_ok_below_s
    failures, limit = figures.failures, thresholds.failures_ok_below
    return (
        Shown("mean_duration_ms", mean_ms, limit_ms, mean_ms is None or mean_ms < limit_ms),
        Shown("failures_24h", failures, limit, failures < limit),
    )
