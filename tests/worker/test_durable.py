"""Durable execution: what is recorded is not done again, waits outlive processes."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.failures import Expired
from detent.app.handle import Handle
from detent.app.run_context import Run
from detent.errors import Refused
from detent.testing.harness import Harness
from tests.worker.waiting import done, error_of

WEEK_S = 7 * 86_400
DAY_S = 86_400

# ---- steps ----------------------------------------------------------------------------------


@dataclass
class Size:
    width: int
    height: int


def three_steps(calls: list[str]) -> App:
    """A handler whose steps leave a mark outside the store each time they are executed."""
    app = App()

    def mark(name: str) -> str:
        calls.append(name)
        return name

    @app.intent("three")
    def three(run: Run) -> list[str]:
        return [run.step(name, mark, name) for name in "abc"]

    return app


def test_a_step_is_executed_once_and_its_result_is_found_again() -> None:
    calls: list[str] = []
    h = Harness(three_steps(calls))
    h.crash(after="b")
    handle = h.submit("three")
    h.drain()
    assert calls == ["a", "b"]
    assert handle.state() == "running"
    h.drain(advance=True)
    assert done(handle) == ["a", "b", "c"]
    assert calls == ["a", "b", "c"]


@pytest.mark.parametrize("write", range(8))
def test_a_crash_at_every_boundary_repeats_at_most_the_step_in_flight(write: int) -> None:
    """Writes: three checkpoints and the report, each with a moment before and one after it."""
    calls: list[str] = []
    h = Harness(three_steps(calls))
    h.crash_at(write)
    handle = h.submit("three")
    h.drain(advance=True)
    assert done(handle) == ["a", "b", "c"]
    in_flight = write % 2 == 0 and write < 6
    assert len(calls) == 3 + in_flight
    repeated = [name for name in "abc" if calls.count(name) > 1]
    assert repeated == (["abc"[write // 2]] if in_flight else [])


def test_the_first_pass_sees_a_result_as_every_later_pass_will() -> None:
    app = App()
    seen: list[Any] = []

    def measure() -> Size:
        return Size(3, 4)

    @app.intent("measure")
    def handler(run: Run) -> int:
        size = run.step("size", measure)
        pair = run.step("pair", lambda: (1, 2))
        seen.append((size, pair))
        run.sleep(1)
        return size.width * size.height

    h = Harness(app)
    handle = h.submit("measure")
    h.drain(advance=True)
    assert done(handle) == 12
    assert seen == [(Size(3, 4), [1, 2])] * 2


@dataclass
class Weight:
    grams: int = 0


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def test_steps_with_the_same_code_have_results_of_their_own_types() -> None:
    app = App()

    def made(kind: type) -> Callable[[], Any]:
        def make() -> kind:  # type: ignore[valid-type]
            return kind(*range(len(kind.__dataclass_fields__)))  # type: ignore[attr-defined, no-any-return]

        return make

    @app.intent("measure")
    def measure(run: Run) -> list[str]:
        size, weight = made(Size), made(Weight)
        results = [
            run.step("size", size),
            run.step("weight", weight),
            run.step("traced size", traced(size)),
            run.step("traced weight", traced(weight)),
            run.effect("effect", traced(size)),
        ]
        return [type(each).__name__ for each in results]

    h = Harness(app)
    handle = measure.submit()
    h.drain()
    assert handle.result() == ["Size", "Weight", "Size", "Weight", "Size"]


def test_a_name_used_twice_in_one_pass_is_an_error_that_says_what_to_do() -> None:
    app = App()

    @app.intent("twice")
    def twice(run: Run) -> None:
        run.step("fetch", int)
        run.step("fetch", int)

    h = Harness(app)
    handle = h.submit("twice", options={"retry": {"retries": 0}})
    h.drain()
    assert "'fetch' was used before in this execution" in error_of(handle)
    assert "in a loop, put the index into the name" in error_of(handle)


def test_steps_of_a_coroutine_may_be_coroutines() -> None:
    app, calls = App(), []

    @app.intent("async")
    async def handler(run: AsyncRun, start: int) -> int:
        async def add(amount: int) -> int:
            calls.append(amount)
            return start + amount

        first = await run.step("add", add, 2)
        await run.sleep(WEEK_S)
        return await run.step("double", lambda: first * 2)

    h = Harness(app)
    handle = handler.submit(start=1)
    h.drain()
    assert handle.state() == "parked"
    h.drain(advance=True)
    assert done(handle) == 6
    assert calls == [2]


def test_an_async_function_in_a_plain_handler_is_refused() -> None:
    app = App()

    async def work() -> int:
        return 1

    @app.intent("mixed")
    def mixed(run: Run) -> None:
        _ = run.step("work", work)

    h = Harness(app)
    handle = h.submit("mixed", options={"retry": {"retries": 0}})
    h.drain()
    assert "Declare the handler with `async def`" in error_of(handle)


# ---- code that has changed ------------------------------------------------------------------


def changing(body: list[Callable[[Run], Any]]) -> tuple[App, Harness]:
    """An app whose handler does what `body[0]` says now: another deployment is another body."""
    app = App()

    @app.intent("changing")
    def handler(run: Run) -> Any:
        return body[0](run)

    return app, Harness(app)


def test_a_name_that_means_something_else_now_is_reported_with_what_to_do() -> None:
    def first(run: Run) -> None:
        run.step("check", int)
        run.sleep(10)

    body: list[Callable[[Run], Any]] = [first]
    _, h = changing(body)
    handle = h.submit("changing", options={"retry": {"retries": 0}})
    h.drain()
    body[0] = lambda run: run.sleep(1, name="check")
    h.drain(advance=True)
    assert "'check' was recorded as a step" in error_of(handle)
    assert "Give the wait another name" in error_of(handle)


def test_recorded_names_that_the_code_passes_by_are_noticed() -> None:
    ran: list[str] = []

    def first(run: Run) -> None:
        run.step("charge", lambda: ran.append("charge"))
        run.sleep(10)

    body: list[Callable[[Run], Any]] = [first]
    _, h = changing(body)
    handle = h.submit("changing")
    h.drain()
    body[0] = lambda run: run.step("charge-card", lambda: ran.append("charge-card"))
    h.drain(advance=True)
    assert handle.state() == "completed"
    note = last_note(h, handle)
    assert "charge, sleep" in note
    assert "A renamed step is executed again under its new name" in note


def last_note(h: Harness, handle: Handle[Any]) -> str:
    with h.store.read() as view:
        events = view.events(0, 1_000, stream=handle.job_id)
    return next(event.data for event in reversed(events) if event.name == "run_progressed")


def test_a_swallowed_suspension_is_an_error_that_names_it() -> None:
    app = App()

    @app.intent("greedy")
    def greedy(run: Run) -> str:
        try:
            run.sleep(60)
        except BaseException:
            return "caught"
        return "never"

    h = Harness(app)
    handle = h.submit("greedy", options={"retry": {"retries": 0}})
    h.drain()
    assert "caught the suspension for 'sleep'" in error_of(handle)


def test_finally_runs_when_a_handler_is_suspended() -> None:
    app, log = App(), []

    @app.intent("tidy")
    def tidy(run: Run) -> None:
        try:
            run.sleep(60)
        finally:
            log.append("closed")

    h = Harness(app)
    h.submit("tidy")
    h.drain()
    assert log == ["closed"]


# ---- waits ----------------------------------------------------------------------------------


def test_a_handler_sleeps_for_a_week_across_restarts() -> None:
    app, calls = App(), []

    @app.intent("weekly")
    def weekly(run: Run) -> int:
        before = run.step("before", run.now)
        calls.append("pass")
        run.sleep(WEEK_S)
        return run.now() - before

    first = Harness(app)
    handle = weekly.submit()
    first.drain()
    assert handle.state() == "parked"
    # Another process on the same store: nothing of the first is left but what is stored.
    second = Harness(app, store=first.store)
    second.clock = first.clock
    first.clock.advance(seconds=WEEK_S - 1)
    assert second.drain() == 0
    first.clock.advance(seconds=1)
    assert second.drain() == 1
    assert done(handle) == WEEK_S * 1_000_000
    assert calls == ["pass", "pass"]


def signalled(run: Run) -> Any:
    return run.wait_for("paid", timeout=DAY_S)


def test_a_signal_is_delivered_and_an_early_one_is_kept() -> None:
    app = App()
    app.intent("order")(signalled)
    h = Harness(app)
    late, early = h.submit("order"), h.submit("order")
    assert early.signal("paid", {"amount": 3}) == "kept"
    h.drain()
    assert done(early) == {"amount": 3}
    assert late.signal("paid", 5) == "delivered"
    assert late.signal("paid", 6) == "repeated"
    h.drain()
    assert done(late) == 5


def test_a_wait_without_its_signal_expires() -> None:
    app = App()
    app.intent("order", retry={"classes": {"timeout": {"retries": 0}}})(signalled)

    @app.intent("patient")
    def patient(run: Run) -> str:
        return str(run.wait_for("paid", timeout=DAY_S, default="unpaid"))

    @app.intent("catching")
    def catching(run: Run) -> str:
        try:
            run.wait_for("paid", timeout=60, name="payment")
        except Expired as error:
            return str(error)
        return "came"

    h = Harness(app)
    order, default, caught = h.submit("order"), h.submit("patient"), h.submit("catching")
    h.drain(advance=True)
    assert done(default) == "unpaid"
    assert done(caught) == "no signal 'paid' came within 60 s (wait 'payment')"
    place = _line_of("run.wait_for(")
    assert error_of(order).endswith(f"Expired: no signal 'paid' came within 86400 s ({place})")


def _line_of(text: str) -> str:
    """The first line of this file that contains the text, as an error message names it."""
    lines = Path(__file__).read_text("utf-8").splitlines()
    return f"{__file__}:{next(at for at, line in enumerate(lines, 1) if text in line)}"


def test_a_question_without_an_answer_names_the_line_that_asked() -> None:
    app = App()

    @app.intent("poll", retry={"classes": {"timeout": {"retries": 0}}})
    async def poll(run: AsyncRun) -> str:
        return str(await run.ask("Who goes there?", timeout=60))

    h = Harness(app)
    asked = h.submit("poll")
    h.drain(advance=True)
    place = _line_of("Who goes there?")
    words = "the question 'Who goes there?' was not answered within 60 s"
    assert error_of(asked).endswith(f"Expired: {words} ({place})")


def asking(app: App) -> None:
    @app.intent("deploy")
    def deploy(run: Run) -> str:
        built = run.step("build", lambda: "image-7")
        answer = run.ask("Deploy?", choices=["yes", "no"])
        return f"{answer}: {built}"


@pytest.mark.parametrize("lifecycle", [None, "board", "review"])
def test_a_question_answered_a_day_later_goes_on_where_it_was(lifecycle: str | None) -> None:
    app = App()
    asking(app)
    h = Harness(app)
    handle = h.submit("deploy", lifecycle=lifecycle)
    h.drain(advance=True)
    h.clock.advance(seconds=DAY_S)
    if lifecycle is not None:
        assert handle.state() == "blocked"
    with pytest.raises(Refused, match="options are: yes, no"):
        handle.answer("maybe")
    handle.answer("yes")
    h.drain()
    assert done(handle) == "yes: image-7"


def test_an_answer_in_own_words_is_taken_where_the_asker_allows_it() -> None:
    app = App()

    @app.intent("name")
    def name(run: Run) -> str:
        return str(run.ask("Which name?", choices=["ann", "bob"], other=True))

    @app.intent("name_later")
    async def name_later(run: AsyncRun) -> str:
        return str(await run.ask("Which name?", choices=["ann", "bob"], other=True))

    h = Harness(app)
    handles = [h.submit(intent, lifecycle="board") for intent in ("name", "name_later")]
    h.drain()
    for handle in handles:
        handle.answer("cleo")
    h.drain()
    assert [done(handle) for handle in handles] == ["cleo", "cleo"]


def test_a_question_takes_its_default_when_its_time_is_over() -> None:
    app = App()

    @app.intent("deploy")
    def deploy(run: Run) -> str:
        return str(run.ask("Deploy?", choices=["yes", "no"], timeout=DAY_S, default="no"))

    h = Harness(app)
    handle = h.submit("deploy", lifecycle="board")
    h.drain(advance=True)
    assert done(handle) == "no"


@pytest.mark.parametrize("seconds", [-1, float("nan"), 1e12, True, timedelta(days=1)])
def test_a_sleep_that_makes_no_sense_is_refused(seconds: Any) -> None:
    app = App()

    @app.intent("sleepy")
    def sleepy(run: Run) -> None:
        run.sleep(seconds)

    h = Harness(app)
    handle = h.submit("sleepy", options={"retry": {"retries": 0}})
    h.drain()
    assert "a wait must last from 0 to" in error_of(handle)
