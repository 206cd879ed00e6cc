"""What plans deal with: resources, people, planners."""

from typing import Any

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed, NeedsUser, ResourceFailed
from detent.app.plan_request import PlanRequest
from detent.app.run_context import Run
from detent.errors import Refused
from detent.testing.harness import Harness
from tests.worker.waiting import step_events, steps

# ---- resources ------------------------------------------------------------------------------


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


@pytest.mark.parametrize(("hold_s", "held"), [(None, 0), (60, 1), (10, 0)])
def test_a_sleeping_step_keeps_its_resource_for_the_declared_time(
    hold_s: float | None, held: int
) -> None:
    app = App()

    @app.intent("dial", capabilities_required=["phone"], hold_resource_s=hold_s)
    def dial(run: Run) -> str | None:
        run.sleep(40)
        return run.resource

    h = Harness(app)
    phones(h, "phone-1")
    handle = h.submit("dial")
    h.drain()
    h.clock.advance(seconds=20)
    h.drain()
    with h.store.read() as view:
        assert [each.in_use for each in view.resources()] == [held]
    h.drain(advance=True)
    assert handle.result(timeout=0) == "phone-1"


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


# ---- people ---------------------------------------------------------------------------------


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


# ---- planners -------------------------------------------------------------------------------


def test_a_planner_makes_the_plan_and_a_new_version_with_the_finished_steps() -> None:
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
        ([{"name": "a", "intent": "nowhere"}], "needs the intent 'nowhere', which does not exist"),
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
            raise ConnectionError("the model is unavailable")
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
