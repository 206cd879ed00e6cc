"""Failed attempts by class: how often and when they are tried again, in virtual time."""

from typing import Any

import pytest

from detent.app.app import App
from detent.app.failures import Crash, JobFailed, NetworkError, RateLimited
from detent.app.run_context import Run
from detent.testing.harness import Harness

S = 1_000_000


def failing(error: BaseException, **options: Any) -> tuple[Harness, list[int]]:
    """An app whose handler always fails, and the seconds at which it was tried."""
    app = App()
    h: Harness
    tried: list[int] = []

    @app.intent("work", **options)
    def work() -> None:
        tried.append((h.clock.now - start) // S)
        raise error

    h = Harness(app)
    start = h.clock.now
    return h, tried


@pytest.mark.parametrize(
    ("error", "options", "expected"),
    [
        (NetworkError(), {}, [0, 30, 90, 210]),
        (TimeoutError(), {}, [0, 300]),
        (ValueError(), {}, [0, 1, 3, 7]),
        (
            ValueError(),
            {"retry": {"retries": 2, "backoff": "fixed", "delay_ms": 5_000}},
            [0, 5, 10],
        ),
        (ValueError(), {"retry": {"max_attempts": 2, "delay_ms": 0}}, [0, 0]),
        (ValueError(), {"retry": {"retries": 0}}, [0]),
    ],
)
def test_failures_are_retried_by_class_and_intent(
    error: BaseException, options: dict[str, Any], expected: list[int]
) -> None:
    h, tried = failing(error, **options)
    handle = h.submit("work")
    h.drain(advance=True)
    assert tried == expected
    with pytest.raises(JobFailed, match=type(error).__name__):
        handle.result(timeout=0)


@pytest.mark.parametrize("text", ["a\udc80b", "a\0b"])
def test_a_failure_whose_text_no_store_can_hold_is_reported(text: str) -> None:
    h, tried = failing(ValueError(text), retry={"retries": 1})
    handle = h.submit("work")
    h.drain(advance=True)
    assert tried == [0, 1]  # as failures, not as a worker that was lost
    with pytest.raises(JobFailed, match="ValueError: a\ufffdb"):
        handle.result(timeout=0)


def test_a_sleeping_retry_holds_nothing_and_survives_a_restart() -> None:
    h, tried = failing(NetworkError())
    handle = h.submit("work", lifecycle="board")
    h.drain()
    assert (handle.state(), handle.job().state) == ("blocked", "retrying")
    again = Harness(h.app, store=h.store)
    h.clock.advance(seconds=29)
    assert again.drain() == 0
    h.clock.advance(seconds=1)
    assert again.drain() == 1
    assert tried == [0, 30]


def test_a_rate_limit_waits_for_its_reset_and_uses_up_no_attempt() -> None:
    app, seen = App(), []
    h: Harness

    @app.intent("call", retry={"retries": 0})
    def call(run: Run) -> str:
        seen.append((h.clock.now - start, run.attempt))
        if len(seen) < 4:
            raise RateLimited(reset_at=h.clock.now + 77 * S)
        return "through"

    h = Harness(app)
    start = h.clock.now
    handle = h.submit("call")
    h.drain(advance=True)
    assert handle.result(timeout=0) == "through"
    assert seen == [(0, 1), (77 * S, 1), (154 * S, 1), (231 * S, 1)]


def test_a_job_that_kills_its_workers_is_quarantined_and_the_others_go_on() -> None:
    app, tried = App(), []

    @app.intent("poison")
    def poison() -> None:
        tried.append(1)
        raise Crash

    @app.intent("fine")
    def fine() -> str:
        return "done"

    h = Harness(app)
    bad, good = h.submit("poison"), h.submit("fine")
    h.drain(advance=True)
    assert good.result(timeout=0) == "done"
    assert len(tried) == 4
    with pytest.raises(JobFailed) as raised:
        bad.result(timeout=0)
    assert raised.value.error_class == "lost"
    with h.store.read() as view:
        last = view.events(0, 1_000, stream=bad.job_id)[-1]
    assert last.name == "job_failed"
    assert '"quarantined":true' in last.data


def test_progress_between_losses_resets_the_count_of_losses() -> None:
    app = App()
    tried: list[Any] = []

    @app.intent("slow")
    def slow(run: Run) -> int:
        for index in range(6):
            run.step(f"part-{index}", lambda: 1)
            if len(tried) == index:
                tried.append(index)
                raise Crash
        return len(tried)

    h = Harness(app)
    handle = h.submit("slow")
    h.drain(advance=True)
    assert handle.result(timeout=0) == 6


def test_limits_on_queue_wait_and_on_the_whole_job_end_it() -> None:
    app = App()

    @app.intent("slow", queue_timeout_s=10)
    def slow() -> None: ...

    @app.intent("long", job_timeout_s=60)
    def long(run: Run) -> None:
        run.sleep(3_600)

    h = Harness(app)
    queued, running = h.submit("slow"), h.submit("long")
    h.clock.advance(seconds=11)
    h.drain(advance=True)
    for handle, reason in ((queued, "queue_timeout"), (running, "job_timeout")):
        assert handle.state() == "cancelled"
        with h.store.read() as view:
            events = view.events(0, 1_000, stream=handle.job_id)
        assert reason in events[-1].data
