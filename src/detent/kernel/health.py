"""The health of the installation: the worst of three figures, each with its reason.

All figures are in two groups: the system, which operators run, and the work that people gave it.
Pure: the caller counts. The edges of a range belong to `degraded`.
"""

from collections.abc import Iterator, Sequence
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
    p95_duration_ok_below_s: int = 300
    failures_ok_below: int = 5
    queue_delay_ok_below_s: int = 60

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
#: A store whose reads take longer than this is slow, whatever is stored.
STORE_READ_OK_BELOW_MS = 1_000


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
    spent_budgets: int = 0
    #: Durations of the newest runs; None if there are none.
    p50_duration_ms: int | None = None
    p95_duration_ms: int | None = None

    @property
    def ended(self) -> int:
        return self.succeeded + self.failed + self.timed_out

    @property
    def failures(self) -> int:
        return self.failed + self.timed_out


@dataclass(frozen=True, slots=True)
class SystemFigures:
    """What is measured of the parts of the system."""

    #: The address of the gateway of this data directory, if one is running.
    gateway: str | None = None
    store_read_ms: int = 0
    has_keeper: bool = True
    workers_alive: int = 0
    workers_known: int = 0
    #: The time from queueing a job to its claim; None if no run was measured.
    p50_queue_delay_ms: int | None = None
    p95_queue_delay_ms: int | None = None
    #: How long the oldest job that could be claimed has been queued.
    oldest_queued_ms: int | None = None


NOT_MEASURED = SystemFigures()


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
    limit: int | None
    within: bool


@dataclass(frozen=True, slots=True)
class Group:
    """Figures that belong together. The verdict is that of the worst of them."""

    verdict: Verdict
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Health:
    """The verdict with all its reasons, and the figures of the system and of the work."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    shown: tuple[Shown, ...]
    waiting_for_people: int
    system: Group
    work: Group


def judge(
    figures: Figures,
    thresholds: Thresholds = DEFAULT_THRESHOLDS,
    system: SystemFigures = NOT_MEASURED,
) -> Health:
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
            "blocked, besides questions",
        ),
    )
    success, queue, blocked = reasons
    return Health(
        _worst(reasons),
        reasons,
        _shown(figures, thresholds),
        figures.waiting_for_people,
        _group(*_system(figures, system), queue, _queue_delay(system, thresholds)),
        _group(success, _failures(figures, thresholds), blocked, *_work(figures, thresholds)),
    )


def _worst(reasons: Sequence[Reason]) -> Verdict:
    return max((reason.verdict for reason in reasons), key=WORST_LAST.index)


def _group(*reasons: Reason) -> Group:
    return Group(_worst(reasons), reasons)


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
    p95_ms, limit_ms = figures.p95_duration_ms, 1_000 * thresholds.p95_duration_ok_below_s
    failures, limit = figures.failures, thresholds.failures_ok_below
    return (
        Shown("p50_duration_ms", figures.p50_duration_ms, None, True),
        Shown("p95_duration_ms", p95_ms, limit_ms, p95_ms is None or p95_ms < limit_ms),
        Shown("failures_24h", failures, limit, failures < limit),
    )


# ---- the system ------------------------------------------------------------------------------


def _system(figures: Figures, system: SystemFigures) -> Iterator[Reason]:
    where = system.gateway or "none on this machine"
    yield Reason("gateway", Verdict.OK, where)
    yield _below("store", system.store_read_ms, STORE_READ_OK_BELOW_MS, "ms for a read")
    if system.has_keeper:
        yield Reason("keeper", Verdict.OK, "a keeper is elected")
    else:
        text = "no keeper is elected: timers, retries and schedules wait"
        yield Reason("keeper", Verdict.UNHEALTHY, text)
    yield Reason("workers", _workers_verdict(figures, system), _workers_text(system))


def _workers_verdict(figures: Figures, system: SystemFigures) -> Verdict:
    if system.workers_alive:
        return Verdict.OK
    return Verdict.UNHEALTHY if figures.queue else Verdict.DEGRADED


def _workers_text(system: SystemFigures) -> str:
    return f"{system.workers_alive} of {system.workers_known} registered workers are alive"


def _queue_delay(system: SystemFigures, thresholds: Thresholds) -> Reason:
    limit_ms = 1_000 * thresholds.queue_delay_ok_below_s
    measured = [system.p95_queue_delay_ms or 0, system.oldest_queued_ms or 0]
    verdict = Verdict.OK if max(measured) < limit_ms else Verdict.DEGRADED
    text = _percentiles(system.p50_queue_delay_ms, system.p95_queue_delay_ms, "no run was claimed")
    if system.oldest_queued_ms is not None:
        text += f"; the oldest job has waited {_duration(system.oldest_queued_ms)}"
    return Reason("queue_delay", verdict, f"{text} (ok: below {_duration(limit_ms)})")


# ---- the work --------------------------------------------------------------------------------


def _failures(figures: Figures, thresholds: Thresholds) -> Reason:
    text = "failed or timed-out runs in the last 24 h"
    return _below("failures", figures.failures, thresholds.failures_ok_below, text)


def _work(figures: Figures, thresholds: Thresholds) -> Iterator[Reason]:
    people, budgets = figures.waiting_for_people, figures.spent_budgets
    yield Reason("waiting_for_people", Verdict.OK, f"{people} in the inbox")
    verdict = Verdict.DEGRADED if budgets else Verdict.OK
    yield Reason("budgets", verdict, f"{budgets} waiting for a higher budget")
    limit_ms = 1_000 * thresholds.p95_duration_ok_below_s
    p95_ms = figures.p95_duration_ms
    verdict = Verdict.OK if p95_ms is None or p95_ms < limit_ms else Verdict.DEGRADED
    text = _percentiles(figures.p50_duration_ms, p95_ms, "no run ended in the last 24 h")
    yield Reason("duration", verdict, f"{text} (ok: p95 below {_duration(limit_ms)})")


def _below(figure: str, value: int, limit: int, words: str) -> Reason:
    verdict = Verdict.OK if value < limit else Verdict.DEGRADED
    return Reason(figure, verdict, f"{value} {words} (ok: below {limit})")


def _percentiles(p50_ms: int | None, p95_ms: int | None, none: str) -> str:
    if p50_ms is None or p95_ms is None:
        return none
    return f"p50 {_duration(p50_ms)}, p95 {_duration(p95_ms)}"


def _duration(ms: int) -> str:
    if ms < 1_000:
        return f"{ms} ms"
    return f"{ms / 1_000:.3g} s" if ms < 120_000 else f"{ms // 60_000} min"
