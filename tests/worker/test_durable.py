"""Durable execution: what is recorded is not done again, waits outlive processes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from detent.errors import Invalid, Refused
from detent.testing.inline import Harness
from detent.worker.app import App
from detent.worker.effects import NOT_DONE, NotDone
from detent.worker.failures import Expired, JobFailed, SubtaskFailed
from detent.worker.handle import Handle
from detent.worker.run import AsyncRun, Run

WEEK_S = 7 * 86_400
DAY_S = 86_400


def harness(app: App) -> Harness:
    return Harness(app)


def done(handle: Handle[Any]) -> Any:
    """The result of a job that must have ended."""
    return handle.result(timeout=0)


def error_of(handle: Handle[Any]) -> str:
    with pytest.raises(JobFailed) as raised:
        handle.result(timeout=0)
    return str(raised.value)


# ---- steps ---------------------------------------------------------------------------------


@dataclass
class Size:
    width: int
    height: int


def three_steps(ledger: list[str]) -> App:
    """A handler whose steps leave a mark outside the store each time they are executed."""
    app = App()

    def mark(name: str) -> str:
        ledger.append(name)
        return name

    @app.intent("three")
    def three(run: Run) -> list[str]:
        return [run.step(name, mark, name) for name in "abc"]

    return app


def test_a_step_is_executed_once_and_its_result_is_found_again() -> None:
    ledger: list[str] = []
    h = harness(three_steps(ledger))
    h.crash(after="b")
    handle = h.submit("three")
    h.drain()
    assert ledger == ["a", "b"]
    assert handle.state() == "running"
    h.drain(advance=True)
    assert done(handle) == ["a", "b", "c"]
    assert ledger == ["a", "b", "c"]


@pytest.mark.parametrize("write", range(8))
def test_a_crash_at_every_boundary_repeats_at_most_the_step_in_flight(write: int) -> None:
    """Writes: three checkpoints and the report, each with a moment before and one after it."""
    ledger: list[str] = []
    h = harness(three_steps(ledger))
    h.crash_at(write)
    handle = h.submit("three")
    h.drain(advance=True)
    assert done(handle) == ["a", "b", "c"]
    in_flight = write % 2 == 0 and write < 6
    assert len(ledger) == 3 + in_flight
    repeated = [name for name in "abc" if ledger.count(name) > 1]
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

    h = harness(app)
    handle = h.submit("measure")
    h.drain(advance=True)
    assert done(handle) == 12
    assert seen == [(Size(3, 4), [1, 2])] * 2


def test_a_name_used_twice_in_one_pass_is_an_error_that_says_what_to_do() -> None:
    app = App()

    @app.intent("twice")
    def twice(run: Run) -> None:
        run.step("fetch", int)
        run.step("fetch", int)

    h = harness(app)
    handle = h.submit("twice", options={"retry": {"retries": 0}})
    h.drain()
    assert "'fetch' was used before in this pass" in error_of(handle)
    assert "a loop puts its index into it" in error_of(handle)


def test_steps_of_a_coroutine_may_be_coroutines() -> None:
    app, ledger = App(), []

    @app.intent("async")
    async def handler(run: AsyncRun, start: int) -> int:
        async def add(amount: int) -> int:
            ledger.append(amount)
            return start + amount

        first = await run.step("add", add, 2)
        await run.sleep(WEEK_S)
        return await run.step("double", lambda: first * 2)

    h = harness(app)
    handle = handler.submit(start=1)
    h.drain()
    assert handle.state() == "parked"
    h.drain(advance=True)
    assert done(handle) == 6
    assert ledger == [2]


def test_an_async_function_in_a_plain_handler_is_refused() -> None:
    app = App()

    async def work() -> int:
        return 1

    @app.intent("mixed")
    def mixed(run: Run) -> None:
        _ = run.step("work", work)

    h = harness(app)
    handle = h.submit("mixed", options={"retry": {"retries": 0}})
    h.drain()
    assert "make the handler async" in error_of(handle)


# ---- code that has changed -----------------------------------------------------------------


def changing(body: list[Callable[[Run], Any]]) -> tuple[App, Harness]:
    """An app whose handler does what `body[0]` says now: another deployment is another body."""
    app = App()

    @app.intent("changing")
    def handler(run: Run) -> Any:
        return body[0](run)

    return app, harness(app)


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
    assert "run again under its new name" in note


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

    h = harness(app)
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

    h = harness(app)
    h.submit("tidy")
    h.drain()
    assert log == ["closed"]


# ---- waits ---------------------------------------------------------------------------------


def test_a_handler_sleeps_for_a_week_across_restarts() -> None:
    app, ledger = App(), []

    @app.intent("weekly")
    def weekly(run: Run) -> int:
        before = run.step("before", run.now)
        ledger.append("pass")
        run.sleep(WEEK_S)
        return run.now() - before

    first = harness(app)
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
    assert ledger == ["pass", "pass"]


def signalled(run: Run) -> Any:
    return run.wait_for("paid", timeout=DAY_S)


def test_a_signal_is_delivered_and_an_early_one_is_kept() -> None:
    app = App()
    app.intent("order")(signalled)
    h = harness(app)
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
            run.wait_for("paid", timeout=60)
        except Expired as error:
            return str(error)
        return "came"

    h = harness(app)
    order, default, caught = h.submit("order"), h.submit("patient"), h.submit("catching")
    h.drain(advance=True)
    assert "no signal 'paid' came within 86400 s" in error_of(order)
    assert done(default) == "unpaid"
    assert done(caught) == "no signal 'paid' came within 60 s"


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
    h = harness(app)
    handle = h.submit("deploy", lifecycle=lifecycle)
    h.drain(advance=True)
    h.clock.advance(seconds=DAY_S)
    if lifecycle is not None:
        assert handle.state() == "blocked"
    with pytest.raises(Refused, match="allows: yes, no"):
        handle.answer("maybe")
    handle.answer("yes")
    h.drain()
    assert done(handle) == "yes: image-7"


def test_a_question_takes_its_default_when_its_time_is_over() -> None:
    app = App()

    @app.intent("deploy")
    def deploy(run: Run) -> str:
        return str(run.ask("Deploy?", choices=["yes", "no"], timeout=DAY_S, default="no"))

    h = harness(app)
    handle = h.submit("deploy", lifecycle="board")
    h.drain(advance=True)
    assert done(handle) == "no"


@pytest.mark.parametrize("seconds", [-1, float("nan"), 1e12, True])
def test_a_sleep_that_makes_no_sense_is_refused(seconds: Any) -> None:
    app = App()

    @app.intent("sleepy")
    def sleepy(run: Run) -> None:
        run.sleep(seconds)

    h = harness(app)
    handle = h.submit("sleepy", options={"retry": {"retries": 0}})
    h.drain()
    assert "a wait lasts from 0 to" in error_of(handle)


# ---- effects -------------------------------------------------------------------------------


def paying(
    policy: str, ledger: list[str], reconcile: Callable[[str], int | NotDone] | None = None
) -> App:
    app = App()

    def pay(amount: int, *, idempotency_key: str) -> int:
        ledger.append(idempotency_key)
        return amount

    @app.intent("pay")
    def handler(run: Run) -> int:
        return run.effect("charge", pay, 7, policy=policy, reconcile=reconcile)

    return app


def test_an_effect_is_done_once_and_its_key_is_the_same_in_every_attempt() -> None:
    ledger: list[str] = []
    h = harness(paying("idempotent", ledger))
    h.crash_at(2)  # BeginEffect is written; the effect has happened; its end is not
    handle = h.submit("pay")
    h.drain(advance=True)
    assert done(handle) == 7
    assert ledger == [f"{handle.job_id}:charge"] * 2


@pytest.mark.parametrize(("happened", "calls"), [(True, 1), (False, 2)])
def test_an_effect_cut_off_is_reconciled(happened: bool, calls: int) -> None:
    ledger: list[str] = []
    asked: list[str] = []

    def look_up(key: str) -> int | NotDone:
        asked.append(key)
        return 7 if happened else NOT_DONE

    h = harness(paying("reconcile", ledger, look_up))
    h.crash_at(2)
    handle = h.submit("pay")
    h.drain(advance=True)
    assert done(handle) == 7
    assert asked == [f"{handle.job_id}:charge"]
    assert len(ledger) == calls


def cut_off_and_asked(ledger: list[str]) -> tuple[Harness, Handle[Any]]:
    h = harness(paying("manual", ledger))
    h.crash_at(2)
    handle = h.submit("pay", lifecycle="board")
    h.drain(advance=True)
    assert handle.state() == "blocked"
    assert handle.job().state == "parked"
    return h, handle


def test_a_person_decides_about_an_effect_with_policy_manual() -> None:
    ledger: list[str] = []
    h, handle = cut_off_and_asked(ledger)
    task = handle.task()
    assert task is not None
    assert task.blocked_by == "needs_user"
    assert "nobody knows whether it happened" in task.blocked_detail["text"]
    handle.answer("again")
    h.drain()
    assert done(handle) == 7
    assert len(ledger) == 2


def test_a_person_says_that_the_effect_happened() -> None:
    ledger: list[str] = []
    h, handle = cut_off_and_asked(ledger)
    handle.answer("done")
    h.drain()
    assert done(handle) is None
    assert len(ledger) == 1


def test_a_person_says_that_the_effect_must_not_go_on() -> None:
    h, handle = cut_off_and_asked([])
    handle.answer("fail")
    h.drain()
    assert "must not be tried again" in error_of(handle)


def test_an_effect_cut_off_again_asks_again() -> None:
    ledger: list[str] = []
    h, handle = cut_off_and_asked(ledger)
    handle.answer("again")
    h.crash_at(2)  # "begun again" is written; the effect has happened a second time; its end is not
    h.drain(advance=True)
    assert handle.state() == "blocked"
    assert len(ledger) == 2
    handle.answer("done")
    h.drain()
    assert handle.state() == "done"
    assert len(ledger) == 2


@pytest.mark.parametrize(
    ("policy", "reconcile"), [("sometimes", None), ("reconcile", None), ("manual", str)]
)
def test_a_policy_that_makes_no_sense_is_refused(policy: str, reconcile: Any) -> None:
    h = harness(paying(policy, [], reconcile))
    handle = h.submit("pay", options={"retry": {"retries": 0}})
    h.drain()
    assert "reconcile" in error_of(handle)


# ---- subtasks ------------------------------------------------------------------------------


def with_subtasks(app: App, ledger: list[str]) -> None:
    @app.intent("square", retry={"retries": 0})
    def square(number: int) -> int:
        ledger.append(f"square {number}")
        if number < 0:
            raise ValueError("no negative ones")
        return number * number

    @app.intent("sum", retry={"retries": 0})
    def total(run: Run, numbers: list[int]) -> int:
        parts = [run.subtask(square, number=each, name=f"part-{each}") for each in numbers]
        return sum(run.gather(parts))

    @app.intent("look", retry={"retries": 0})
    def look(run: Run, numbers: list[int]) -> list[str]:
        parts = [run.subtask("square", {"number": each}, name=f"part-{each}") for each in numbers]
        return [end.state for end in run.gather(parts, outcomes=True)]


@pytest.mark.parametrize("lifecycle", [None, "board", "review"])
def test_subtasks_are_gathered(lifecycle: str | None) -> None:
    app = App()
    ledger: list[Any] = []
    with_subtasks(app, ledger)
    h = harness(app)
    handle = h.submit("sum", {"numbers": [1, 2, 3]}, lifecycle=lifecycle)
    h.drain(advance=True)
    assert done(handle) == 14
    assert sorted(ledger) == ["square 1", "square 2", "square 3"]


@pytest.mark.parametrize("write", range(12))
def test_a_crash_while_subtasks_are_made_makes_none_twice(write: int) -> None:
    app = App()
    ledger: list[Any] = []
    with_subtasks(app, ledger)
    h = harness(app)
    h.crash_at(write)
    handle = h.submit("sum", {"numbers": [1, 2, 3]})
    h.drain(advance=True)
    assert done(handle) == 14
    assert sorted(ledger) == ["square 1", "square 2", "square 3"]


def test_a_failed_subtask_raises_with_every_outcome_or_is_looked_at() -> None:
    app = App()
    ledger: list[Any] = []
    with_subtasks(app, ledger)
    h = harness(app)
    summed = h.submit("sum", {"numbers": [2, -1]})
    looked = h.submit("look", {"numbers": [2, -1]})
    h.drain(advance=True)
    assert "subtask part--1 is failed: ValueError: no negative ones" in error_of(summed)
    assert done(looked) == ["completed", "failed"]
    assert issubclass(SubtaskFailed, Exception)


def test_a_subtask_of_an_unknown_intent_is_refused_with_the_known_ones() -> None:
    app = App()

    @app.intent("outer", retry={"retries": 0})
    def outer(run: Run) -> None:
        run.subtask("inner")

    h = harness(app)
    handle = h.submit("outer")
    h.drain()
    assert "there is no intent 'inner'. Known: outer, plan." in error_of(handle)


# ---- on the way ----------------------------------------------------------------------------


def test_progress_output_and_evidence_are_kept_with_the_run() -> None:
    app = App()

    @app.intent("work")
    def work(run: Run) -> str:
        run.progress(0.5, "half way")
        run.log("hello")
        run.evidence("QA-DECISION.md", "# fine")
        run.evidence("numbers.json", {"a": [1, 2]})
        return run.id

    h = harness(app)
    handle = h.submit("work")
    h.drain()
    run_id = done(handle)
    assert h.files(run_id).output() == b"hello\n"
    assert (h.runs / run_id / "evidence" / "QA-DECISION.md").read_text() == "# fine"
    with h.store.read() as view:
        events = [(e.name, e.data) for e in view.events(0, 100, stream=handle.job_id)]
    kinds = [data for name, data in events if name == "evidence_added"]
    assert '"kind":"qa_report"' in kinds[0]
    assert '"kind":"artifact"' in kinds[1]
    assert any(name == "run_progressed" and "half way" in data for name, data in events)


@pytest.mark.parametrize("fraction", [-0.1, 1.5])
def test_progress_outside_its_bounds_is_refused(fraction: float) -> None:
    app, errors = App(), []

    @app.intent("work")
    def work(run: Run) -> None:
        with pytest.raises(Invalid) as raised:
            run.progress(fraction)
        errors.append(raised.value.field)

    h = harness(app)
    h.submit("work")
    h.drain()
    assert errors == ["progress"]


def test_a_run_knows_itself() -> None:
    app, seen = App(), []

    @app.intent("self", retry={"delay_ms": 0})
    def handler(run: Run) -> None:
        seen.append((run.fence, run.attempt, run.job_id, run.task_id, run.id, run.payload))
        if run.attempt == 1:
            raise RuntimeError("again")

    h = harness(app)
    handle = h.submit("self", {"x": 1}, lifecycle="board")
    h.drain(advance=True)
    job, task = handle.job_id, handle.task_id
    assert seen == [
        (1, 1, job, task, f"{job}-r1", {"x": 1}),
        (2, 2, job, task, f"{job}-r2", {"x": 1}),
    ]
