"""Plans: branches side by side, results along the edges, critics, retries."""

from collections.abc import Sequence
from typing import Any

import pytest

from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.failures import JobFailed, NetworkError, RateLimited
from detent.app.run_context import Run
from detent.app.step_result import StepResult
from detent.errors import Invalid
from detent.kernel.critic import Decision
from detent.kernel.plan import PlanStep
from detent.operations.why_job import own_name
from detent.testing.harness import Harness
from tests.worker.waiting import steps

S = 1_000_000


# ---- branches and edges ---------------------------------------------------------------------


@pytest.mark.parametrize("planned", [True, False], ids=["by a planner", "in the submission"])
def test_a_step_holds_the_resource_that_its_intent_requires(planned: bool) -> None:
    app = App()
    held: list[str] = []

    @app.intent("call", capabilities_required=["phone"], label_selector={"zone": "eu"})
    def call(run: Run) -> None:
        held.append(run.resource or "")

    steps = [
        PlanStep("inherits", "call"),
        PlanStep("other zone", "call", label_selector={"zone": "us"}),
    ]
    if planned:
        app.planner("calls")(lambda _: steps)
    else:
        app.plan("calls", steps)
    h = Harness(app)
    h.resource("eu-1", capabilities=["phone"], labels={"zone": "eu"})
    h.resource("us-1", capabilities=["phone"], labels={"zone": "us"})
    handle = h.submit("calls")
    h.drain(advance=True)
    handle.result()
    assert sorted(held) == ["eu-1", "us-1"]


def test_results_flow_along_the_edges() -> None:
    app, order = App(), []

    @app.intent("fetch")
    def fetch(run: Run, repo: str) -> dict[str, str]:
        order.append("fetch")
        return {"at": f"/src/{repo}"}

    @app.intent("lint")
    async def lint(run: AsyncRun, fetch: dict[str, str]) -> str:
        order.append("lint")
        return f"lint of {fetch['at']}"

    @app.intent("test")
    def check(fetch: dict[str, str], suite: str) -> str:
        order.append("test")
        return f"{suite} of {fetch['at']}"

    @app.intent("report")
    def report(run: Run, repo: str) -> list[Any]:
        order.append("report")
        return [repo, dict(run.results)]

    release = app.plan(
        "release",
        [
            PlanStep("fetch", "fetch"),
            PlanStep("lint", "lint", needs=("fetch",)),
            PlanStep("test", "test", needs=("fetch",), input={"suite": "fast"}),
            PlanStep("report", "report", needs=("lint", "test")),
        ],
    )
    h = Harness(app)
    handle = release.submit(repo="detent")
    h.drain()
    outcomes = {"lint": "lint of /src/detent", "test": "fast of /src/detent"}
    assert handle.result(timeout=0) == {
        "fetch": {"at": "/src/detent"},
        **outcomes,
        "report": ["detent", outcomes],
    }
    assert order == ["fetch", "lint", "test", "report"]


def test_a_plan_travels_as_a_document_with_the_job() -> None:
    app = App()
    app.intent("add")(lambda a, b: a + b)
    document = {
        "steps": [
            {"name": "first", "intent": "add", "input": {"a": 1, "b": 2}},
            {"name": "second", "intent": "add", "needs": ["first"], "input": {"a": 10, "b": 20}},
        ]
    }
    h = Harness(app)
    handle = h.submit("plan", options={"plan": document})
    h.drain()
    assert handle.result(timeout=0) == {"first": 3, "second": 30}


def branches(app: App, ran: list[str]) -> None:
    def work(run: Run, fail: bool = False) -> str:
        ran.append(str(run.payload["name"]))
        if fail:
            raise ValueError("broken")
        return "ok"

    app.intent("work")(work)


def step(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    given = {"name": name, "fail": more.pop("fail", False)}
    return {"name": name, "intent": "work", "needs": list(needs), "input": given, **more}


def test_a_failing_sibling_throws_nothing_away_and_says_what_is_unreachable() -> None:
    app = App()
    ran: list[Any] = []
    branches(app, ran)
    plan = [
        step("good"),
        step("bad", fail=True, max_retries=0),
        step("after-good", "good"),
        step("after-bad", "bad"),
        step("cleanup", "bad", "after-good", when="all_done"),
    ]
    app.plan("mixed", plan)
    h = Harness(app)
    handle = h.submit("mixed")
    h.drain()
    with pytest.raises(JobFailed, match="step bad failed: ValueError: broken"):
        handle.result(timeout=0)
    assert sorted(ran) == ["after-good", "bad", "cleanup", "good"]
    assert steps(h, handle) == {
        "good": "succeeded",
        "bad": "failed",
        "after-good": "succeeded",
        "after-bad": "waiting_deps",
        "cleanup": "succeeded",
    }


def test_a_persons_retry_of_a_failed_plan_keeps_the_finished_steps() -> None:
    app, ran = App(), []
    broken = [True]

    @app.intent("work")
    def work(run: Run, name: str) -> str:
        ran.append(name)
        if name == "bad" and broken[0]:
            raise ValueError("broken")
        return name

    app.plan("mixed", [step("good"), step("bad", max_retries=0)])
    h = Harness(app)
    handle = h.submit("mixed", lifecycle="board")
    h.drain()
    assert handle.state() == "blocked"
    broken[0] = False
    h.retry(handle)
    h.drain()
    assert handle.state() == "done"
    assert ran == ["good", "bad", "bad"]
    assert handle.result(timeout=0) == {"good": "good", "bad": "bad"}


def test_steps_side_by_side_stay_within_the_limit() -> None:
    app = App()
    ran: list[Any] = []
    branches(app, ran)
    app.plan("wide", [step(f"s{n}") for n in range(6)], max_parallel_steps=2)
    h = Harness(app)
    handle = h.submit("wide")
    live: list[int] = []

    def count(when: str, command: Any) -> None:
        with h.store.read() as view:
            live.append(len(list(view.live_runs([handle.job_id]))))

    h.hooks.append(count)
    h.drain()
    assert len(ran) == 6
    assert max(live) == 2


@pytest.mark.parametrize("write", range(24))
def test_a_crash_at_every_write_of_a_plan_repeats_only_the_step_in_flight(write: int) -> None:
    app = App()
    ran: list[Any] = []
    branches(app, ran)
    app.plan("diamond", [step("a"), step("b", "a"), step("c", "a"), step("d", "b", "c")])
    h = Harness(app)
    h.crash_at(write)
    handle = h.submit("diamond")
    h.drain(advance=True)
    assert handle.result(timeout=0) == dict.fromkeys("abcd", "ok")
    assert sorted(set(ran)) == ["a", "b", "c", "d"]
    assert len(ran) <= 6  # at most two were in flight at the same time


def test_checkpoints_of_two_steps_of_one_intent_are_kept_apart() -> None:
    app, ran = App(), []

    @app.intent("work")
    def work(run: Run, name: str) -> int:
        ran.append(name)
        value = run.step("inner", lambda: len(ran))
        run.sleep(1)
        return value

    app.plan("two", [step("a"), step("b")])
    h = Harness(app)
    handle = h.submit("two")
    h.drain(advance=True)
    assert handle.result(timeout=0) == {"a": 1, "b": 2}


def test_why_names_a_wait_as_its_handler_does() -> None:
    app = App()

    @app.intent("work")
    def work(run: Run, name: str) -> str:
        run.sleep(60, "night/window")
        return name

    app.plan("one", [step("a")])
    h = Harness(app)
    handle = h.submit("one")
    h.drain()
    with h.store.read() as view:
        (wait,) = view.waits([handle.job_id])
    assert wait.name.startswith("a~")
    assert own_name(wait) == "night/window"
    assert own_name(wait._replace(step=None)) == wait.name


# ---- critics --------------------------------------------------------------------------------


def test_a_critic_decides_from_result_and_history() -> None:
    app, seen = App(), []

    def critic(result: StepResult, history: Sequence[StepResult]) -> Decision:
        seen.append((result.state, result.value, [each.state for each in history]))
        return Decision.ACCEPT if result.value == 3 else Decision.RETRY

    values = iter([1, 2, 3])

    @app.intent("guess", critic=critic, retry={"delay_ms": 0})
    def guess() -> int:
        return next(values)

    h = Harness(app)
    handle = h.submit("guess")
    h.drain(advance=True)
    assert handle.result(timeout=0) == 3
    assert seen == [
        ("succeeded", 1, []),
        ("succeeded", 2, ["succeeded"]),
        ("succeeded", 3, ["succeeded", "succeeded"]),
    ]


@pytest.mark.parametrize("answer", ["nonsense", None, 7])
def test_a_critic_that_says_none_of_the_five_fails_the_step(answer: Any) -> None:
    app = App()
    app.intent("work", critic=lambda result, history: answer)(lambda: 1)
    h = Harness(app)
    handle = h.submit("work")
    h.drain(advance=True)
    assert steps(h, handle) == {"work": "failed"}


def test_a_critic_that_raises_fails_the_step_and_leaves_a_note() -> None:
    app = App()

    def critic(result: StepResult, history: Sequence[StepResult]) -> str:
        raise LookupError("no rule for this")

    app.intent("work", critic=critic)(lambda: 1)
    h = Harness(app)
    handle = h.submit("work")
    h.drain(advance=True)
    assert steps(h, handle) == {"work": "failed"}
    with h.store.read() as view:
        notes = [e.data for e in view.events(0, 100, stream=handle.job_id) if "note" in e.data]
    assert "the critic raised LookupError: no rule for this" in notes[0]


@pytest.mark.parametrize(
    ("step", "field", "text"),
    [
        ({"name": "unknown"}, "intent", "needs the intent 'unknown', which does not exist"),
        ({"name": "known", "intent": "both"}, "intent", "is a plan itself"),
        ({"name": "known", "intent": "plan"}, "intent", "is a plan itself"),
        ({"name": "known", "critic": "missing"}, "critic", "the critic 'missing', which does not"),
    ],
)
def test_a_step_that_names_what_does_not_exist_is_refused_at_the_submission(
    step: dict[str, Any], field: str, text: str
) -> None:
    app = App()
    app.intent("known")(lambda: 1)
    app.critic("strict")(lambda result, history: "accept")
    app.plan("both", [{"name": "known"}])
    h = Harness(app)
    with pytest.raises(Invalid, match=text) as refused:
        h.submit("plan", options={"plan": {"steps": [step]}})
    assert refused.value.field == f"options.plan.steps[0].{field}"
    assert h.drain() == 0
    assert h.submit("plan", options={"plan": {"steps": [{"name": "known", "critic": "strict"}]}})


def test_what_does_nothing_without_a_plan_is_refused_without_one() -> None:
    app = App()
    app.intent("known")(lambda: 1)
    app.plan("fixed", [{"name": "known"}])
    h = Harness(app)
    for options in ({"retry": {"retries": 0}}, {"critic": "x"}, None):
        with pytest.raises(Invalid, match="plan is missing: every submission of the intent"):
            h.submit("plan", options=options)
    rows = {name: intent.row().get("needs_plan", False) for name, intent in app.intents.items()}
    assert rows == {"plan": True, "known": False, "fixed": False}


# ---- retries of steps -----------------------------------------------------------------------


def test_a_step_is_retried_in_its_own_time_and_its_sibling_is_not_repeated() -> None:
    app, ran = App(), []
    h: Harness

    @app.intent("flaky")
    def flaky(run: Run) -> str:
        ran.append(("flaky", (h.clock.now - start) // S))
        if run.attempt < 3:
            raise NetworkError("no route")
        return "ok"

    @app.intent("work")
    def work() -> str:
        ran.append(("work", (h.clock.now - start) // S))
        return "ok"

    app.plan("both", [{"name": "flaky"}, {"name": "work"}])
    h = Harness(app)
    start = h.clock.now
    handle = h.submit("both")
    h.drain(advance=True)
    assert handle.result(timeout=0) == {"flaky": "ok", "work": "ok"}
    assert ran == [("flaky", 0), ("work", 0), ("flaky", 30), ("flaky", 90)]


@pytest.mark.parametrize("most", [0, 1, 4])
def test_an_intent_without_a_plan_is_retried_as_often_as_its_max_retries(most: int) -> None:
    app, tries = App(), []

    @app.intent("call", max_retries=most)
    def call() -> None:
        tries.append(1)
        raise RuntimeError("no")

    h = Harness(app)
    h.submit("call")
    h.drain(advance=True)
    assert len(tries) == 1 + most


def test_a_rate_limited_step_waits_for_the_stated_reset() -> None:
    app, tries = App(), []
    h: Harness

    @app.intent("call", max_retries=1)
    def call() -> str:
        tries.append((h.clock.now - start) // S)
        if len(tries) < 4:
            raise RateLimited(reset_at=h.clock.now + 45 * S)
        return "through"

    h = Harness(app)
    start = h.clock.now
    handle = h.submit("call")
    h.drain(advance=True)
    assert handle.result(timeout=0) == "through"
    assert tries == [0, 45, 90, 135]
