"""Plans: branches side by side, results along the edges, critics, resources, people, planners."""

from collections.abc import Sequence
from typing import Any

import pytest

from detent.errors import Refused
from detent.kernel.critic import Decision
from detent.kernel.plan import PlanStep
from detent.testing.inline import Harness
from detent.worker.app import App
from detent.worker.failures import JobFailed, NeedsUser, NetworkError, RateLimited, ResourceFailed
from detent.worker.handle import Handle
from detent.worker.history import StepResult
from detent.worker.plans import PlanRequest
from detent.worker.run import AsyncRun, Run

S = 1_000_000


def step_events(h: Harness, handle: Handle[Any], step: str) -> list[str]:
    with h.store.read() as view:
        events = view.events(0, 10_000, stream=handle.job_id)
    return [each.name for each in events if each.subject == step and each.name.startswith("step_")]


def steps(h: Harness, handle: Handle[Any]) -> dict[str, str]:
    with h.store.read() as view:
        return {step.name: step.state for step in view.steps([handle.job_id])}


# ---- branches and edges --------------------------------------------------------------------


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
    assert len(ran) <= 6  # two at once were in flight at most


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


# ---- critics -------------------------------------------------------------------------------


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


def test_a_step_that_no_handler_of_this_worker_does_fails_and_says_so() -> None:
    app = App()
    app.intent("known")(lambda: 1)
    h = Harness(app)
    handle = h.submit("plan", options={"plan": {"steps": [{"name": "unknown", "max_retries": 0}]}})
    h.drain(advance=True)
    with pytest.raises(JobFailed, match="intent unknown has no handler in this worker"):
        handle.result(timeout=0)


# ---- resources -----------------------------------------------------------------------------


def phones(h: Harness, *names: str) -> None:
    for name in names:
        h.resource(name, capabilities=["phone"])


def test_a_failing_resource_is_switched_with_the_whole_history_then_success() -> None:
    app, used = App(), []

    @app.intent("dial", capabilities_required=["phone"])
    def dial(run: Run) -> str:
        used.append(run.resource)
        if run.resource != "phone-3":
            raise ResourceFailed(f"{run.resource} has no line")
        return "connected"

    h = Harness(app)
    phones(h, "phone-1", "phone-2", "phone-3")
    handle = h.submit("dial")
    h.drain(advance=True)
    assert handle.result(timeout=0) == "connected"
    assert used == ["phone-1", "phone-2", "phone-3"]
    switch = ["step_failed_resource", "step_switching_resource", "step_leased", "step_running"]
    assert step_events(h, handle, "dial") == [
        "step_pending",
        "step_leased",
        "step_running",
        *switch,
        *switch,
        "step_succeeded",
    ]


def test_when_no_other_resource_is_left_the_job_fails_and_says_so() -> None:
    app = App()

    @app.intent("dial", capabilities_required=["phone"])
    def dial() -> None:
        raise ResourceFailed("no line")

    h = Harness(app)
    phones(h, "phone-1")
    handle = h.submit("dial")
    h.drain(advance=True)
    with pytest.raises(JobFailed, match="no other resource fits: ResourceFailed: no line"):
        handle.result(timeout=0)


def test_a_resource_is_never_held_by_more_than_its_capacity_and_never_leaks() -> None:
    app = App()
    inside: list[Any] = []

    @app.intent("dial", capabilities_required=["phone"])
    def dial(run: Run) -> None:
        with h.store.read() as view:
            inside.append([each.in_use for each in view.resources()])
        run.sleep(30)

    h = Harness(app)
    phones(h, "phone-1")
    handles = [h.submit("dial") for _ in range(3)]
    h.drain(advance=True)
    assert [handle.state() for handle in handles] == ["completed"] * 3
    assert all(usage == [1] for usage in inside)
    with h.store.read() as view:
        assert [each.in_use for each in view.resources()] == [0]


def test_a_crashed_holder_frees_its_resource() -> None:
    app, tries = App(), []

    @app.intent("dial", capabilities_required=["phone"])
    def dial(run: Run) -> str:
        tries.append(run.resource)
        run.step("inner", lambda: None)
        return "done"

    h = Harness(app)
    phones(h, "phone-1")
    h.crash(before="dial/inner")
    handle = h.submit("dial")
    h.drain(advance=True)
    assert handle.result(timeout=0) == "done"
    assert tries == ["phone-1", "phone-1"]
    with h.store.read() as view:
        assert [each.in_use for each in view.resources()] == [0]


# ---- people --------------------------------------------------------------------------------


@pytest.mark.parametrize(("answer", "state"), [("confirm", "done"), ("refuse", "blocked")])
def test_a_step_that_needs_a_person_goes_on_when_confirmed(answer: str, state: str) -> None:
    app, tries = App(), []

    @app.intent("login", max_retries=1)
    def login() -> str:
        tries.append(1)
        if len(tries) == 1:
            raise NeedsUser("solve the captcha")
        return "in"

    h = Harness(app)
    handle = h.submit("login", lifecycle="board")
    h.drain(advance=True)
    task = handle.task()
    assert task is not None
    assert (task.state, task.blocked_by) == ("blocked", "needs_user")
    assert "solve the captcha" in task.blocked_detail["text"]
    handle.answer(answer)
    h.drain()
    assert handle.state() == state
    assert len(tries) == (2 if answer == "confirm" else 1)


def test_a_question_inside_a_step_leaves_its_siblings_alone() -> None:
    app, ran = App(), []

    @app.intent("ask")
    def ask(run: Run) -> str:
        ran.append("ask")
        return str(run.ask("Which colour?"))

    @app.intent("work")
    def work() -> str:
        ran.append("work")
        return "worked"

    app.plan("both", [{"name": "ask"}, {"name": "work"}])
    h = Harness(app)
    handle = h.submit("both", lifecycle="review")
    h.drain()
    assert steps(h, handle) == {"ask": "running", "work": "succeeded"}
    handle.answer("blue")
    h.drain()
    assert handle.result(timeout=0) == {"ask": "blue", "work": "worked"}
    assert ran == ["ask", "work", "ask"]


# ---- retries of steps ----------------------------------------------------------------------


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


# ---- planners ------------------------------------------------------------------------------


def test_a_planner_makes_the_plan_and_makes_it_anew_keeping_finished_steps() -> None:
    app, ran, asked = App(), [], []

    @app.intent("work", critic=lambda result, history: "accept" if result.succeeded else "replan")
    def work(run: Run, name: str, way: str) -> str:
        ran.append(f"{name}:{way}")
        if way == "wrong":
            raise ValueError("dead end")
        return way

    @app.planner("solve")
    def plan(request: PlanRequest) -> list[dict[str, Any]]:
        asked.append((request.version, dict(request.results), dict(request.errors)))
        way = "wrong" if request.version == 1 else "right"
        rows = [("prepare", "right"), ("finish", way)]
        return [
            {"name": name, "intent": "work", "input": {"name": name, "way": its_way}}
            for name, its_way in rows
        ]

    h = Harness(app)
    handle = h.submit("solve", {"goal": "win"})
    h.drain(advance=True)
    assert handle.result(timeout=0) == {"prepare": "right", "finish": "right"}
    assert ran == ["prepare:right", "finish:wrong", "finish:right"]
    assert asked[0] == (1, {}, {})
    assert asked[1][0] == 2
    assert asked[1][1] == {"prepare": "right"}
    assert "dead end" in asked[1][2]["finish"]


@pytest.mark.parametrize(
    ("plan", "text"),
    [
        ([{"name": "a", "needs": ["a"]}], "depends on itself"),
        ([{"name": "a", "intent": "nowhere"}], "this worker has no intent 'nowhere'"),
        ([], "1 to 1000 steps"),
        (None, "object is not iterable"),
    ],
)
def test_a_planner_that_makes_no_plan_fails_the_job_with_its_reason(plan: Any, text: str) -> None:
    app = App()
    app.planner("solve", retry={"retries": 0})(lambda request: plan)
    h = Harness(app)
    handle = h.submit("solve")
    h.drain(advance=True)
    with pytest.raises(JobFailed, match=text):
        handle.result(timeout=0)


def test_a_planner_that_raises_is_retried_as_any_failure() -> None:
    app, tries = App(), []
    app.intent("work")(lambda: "ok")

    @app.planner("solve", retry={"delay_ms": 0})
    def plan(request: PlanRequest) -> list[dict[str, Any]]:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("the model is away")
        return [{"name": "work"}]

    h = Harness(app)
    handle = h.submit("solve")
    h.drain(advance=True)
    assert handle.result(timeout=0) == {"work": "ok"}
    assert len(tries) == 3


def test_answering_work_that_asked_nothing_is_refused() -> None:
    app = App()
    app.intent("work")(lambda: 1)
    h = Harness(app)
    handle = h.submit("work")
    with pytest.raises(Refused, match="no open question"):
        handle.answer("yes")
