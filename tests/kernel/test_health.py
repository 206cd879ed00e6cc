"""Health: the three ranges with their edges, the worst of three, reasons every time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Invalid
from detent.kernel.health import WORST_LAST, Figures, SystemFigures, Thresholds, judge


@pytest.mark.parametrize(
    ("succeeded", "failed", "verdict"),
    [
        (0, 0, "ok"),
        (1, 0, "ok"),
        (951, 49, "ok"),
        (950, 50, "degraded"),
        (19, 1, "degraded"),
        (949, 51, "degraded"),
        (80, 20, "degraded"),
        (4, 1, "degraded"),
        (799, 201, "unhealthy"),
        (0, 1, "unhealthy"),
    ],
)
def test_success_rate(succeeded: int, failed: int, verdict: str) -> None:
    assert judge(Figures(succeeded=succeeded, failed=failed)).verdict == verdict
    assert judge(Figures(succeeded=succeeded, timed_out=failed)).verdict == verdict


@pytest.mark.parametrize(
    ("queue", "verdict"),
    [(0, "ok"), (9, "ok"), (10, "degraded"), (50, "degraded"), (51, "unhealthy")],
)
def test_queue(queue: int, verdict: str) -> None:
    assert judge(Figures(queue=queue)).verdict == verdict


@pytest.mark.parametrize(
    ("blocked", "verdict"),
    [(0, "ok"), (2, "ok"), (3, "degraded"), (10, "degraded"), (11, "unhealthy")],
)
def test_blocked(blocked: int, verdict: str) -> None:
    assert judge(Figures(blocked=blocked)).verdict == verdict


def test_what_waits_for_people_is_shown_and_not_judged() -> None:
    health = judge(Figures(waiting_for_people=1_000))
    assert (health.verdict, health.waiting_for_people) == ("ok", 1_000)


def test_the_reasons_say_what_was_measured_and_against_what() -> None:
    health = judge(Figures(succeeded=90, failed=6, timed_out=4, queue=51, blocked=2))
    assert health.verdict == "unhealthy"
    assert [(each.figure, each.verdict, each.text) for each in health.reasons] == [
        (
            "success_rate",
            "degraded",
            "90 of 100 runs succeeded in the last 24 h (degraded: 80 to 95 %)",
        ),
        ("queue", "unhealthy", "51 queued (unhealthy: over 50)"),
        ("blocked", "ok", "2 blocked, besides questions (ok: below 3)"),
    ]


def test_with_nothing_to_do_the_reasons_say_so() -> None:
    health = judge(Figures())
    assert [reason.text for reason in health.reasons] == [
        "no run ended in the last 24 h",
        "0 queued (ok: below 10)",
        "0 blocked, besides questions (ok: below 3)",
    ]
    assert health.waiting_for_people == 0


@given(
    st.builds(
        Figures,
        succeeded=st.integers(0, 200),
        failed=st.integers(0, 20),
        timed_out=st.integers(0, 20),
        queue=st.integers(0, 60),
        blocked=st.integers(0, 15),
    )
)
def test_the_verdict_is_the_worst_of_three_reasons(figures: Figures) -> None:
    health = judge(figures)
    assert [reason.figure for reason in health.reasons] == ["success_rate", "queue", "blocked"]
    worst = max(WORST_LAST.index(reason.verdict) for reason in health.reasons)
    assert WORST_LAST.index(health.verdict) == worst


@pytest.mark.parametrize(
    ("figures", "within"),
    [
        (Figures(), (True, True)),
        (Figures(succeeded=99, failed=3, timed_out=1, p95_duration_ms=299_999), (True, True)),
        (Figures(succeeded=999, failed=3, timed_out=2, p95_duration_ms=300_000), (False, False)),
    ],
)
def test_durations_and_failures_are_shown_only(figures: Figures, within: tuple[bool, bool]) -> None:
    health = judge(figures)
    assert health.verdict == "ok"
    assert [(each.figure, each.value, each.limit) for each in health.shown] == [
        ("p50_duration_ms", None, None),
        ("p95_duration_ms", figures.p95_duration_ms, 300_000),
        ("failures_24h", figures.failures, 5),
    ]
    assert tuple(each.within for each in health.shown[1:]) == within


RUNNING = SystemFigures(gateway="http://127.0.0.1:8787", workers_alive=2, workers_known=3)


def test_the_system_is_separate_from_the_work() -> None:
    health = judge(Figures(failed=6, spent_budgets=1, waiting_for_people=4), system=RUNNING)
    assert [(each.figure, each.verdict.value) for each in health.system.reasons] == [
        ("gateway", "ok"),
        ("store", "ok"),
        ("keeper", "ok"),
        ("workers", "ok"),
        ("queue", "ok"),
        ("queue_delay", "ok"),
    ]
    assert health.system.verdict == "ok"
    assert [(each.figure, each.verdict.value) for each in health.work.reasons] == [
        ("success_rate", "unhealthy"),
        ("failures", "degraded"),
        ("blocked", "ok"),
        ("waiting_for_people", "ok"),
        ("budgets", "degraded"),
        ("duration", "ok"),
    ]
    assert health.work.verdict == health.verdict == "unhealthy"


@pytest.mark.parametrize(
    ("system", "queue", "figure", "verdict", "text"),
    [
        (SystemFigures(has_keeper=False), 0, "keeper", "unhealthy", "no keeper is elected"),
        (SystemFigures(), 0, "workers", "degraded", "0 of 0 registered workers are alive"),
        (SystemFigures(workers_known=2), 1, "workers", "unhealthy", "0 of 2 registered"),
        (SystemFigures(store_read_ms=1_000), 0, "store", "degraded", "1000 ms for a read"),
        (
            SystemFigures(p50_queue_delay_ms=12, p95_queue_delay_ms=59_999, oldest_queued_ms=5_000),
            0,
            "queue_delay",
            "ok",
            "p50 12 ms, p95 60 s; the oldest job has waited 5 s (ok: below 60 s)",
        ),
        (SystemFigures(oldest_queued_ms=60_000), 0, "queue_delay", "degraded", "no run was"),
    ],
)
def test_a_fault_of_the_system(
    system: SystemFigures, queue: int, figure: str, verdict: str, text: str
) -> None:
    health = judge(Figures(queue=queue), system=system)
    found = next(each for each in health.system.reasons if each.figure == figure)
    assert found.verdict == verdict
    assert found.text.startswith(text)
    assert health.verdict == "ok"


def test_thresholds_are_settings() -> None:
    strict = Thresholds(queue_ok_below=1, queue_degraded_to=1)
    assert judge(Figures(queue=1), strict).verdict == "degraded"
    assert judge(Figures(queue=2), strict).verdict == "unhealthy"
    lenient = Thresholds(success_ok_over_percent=50, success_degraded_from_percent=10)
    assert judge(Figures(succeeded=6, failed=4), lenient).verdict == "ok"


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"success_ok_over_percent": 79}, "health.success_degraded_from_percent"),
        ({"queue_ok_below": 51}, "health.queue_ok_below"),
        ({"blocked_degraded_to": 2}, "health.blocked_ok_below"),
    ],
)
def test_thresholds_that_cross_are_refused(wrong: dict[str, int], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        Thresholds(**wrong)
    assert caught.value.field == field
