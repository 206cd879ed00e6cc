"""Plans whose steps need different workers: each is run by a worker that has its intent."""

from typing import Any

import pytest

from detent.app.app import App
from detent.app.failures import JobFailed, NetworkError
from detent.app.handle import Handle
from detent.app.run_context import Run
from detent.errors import Invalid
from detent.kernel import commands as c
from detent.kernel.plan import PlanStep
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.store.types import Query
from detent.testing.harness import Harness
from tests.worker.waiting import done, error_of, step_events, steps, until, working

S = 1_000_000


def app_with(*intents: str) -> App:
    app = App()
    for each in intents:
        app.intent(each)(lambda each=each: each)
    return app


def plan_of(*names: str) -> dict[str, Any]:
    """Steps one after the other, each doing the intent of its name up to the first dash."""
    rows = []
    for at, name in enumerate(names):
        needs = list(names[at - 1 : at]) if at else []
        rows.append({"name": name, "intent": name.split("-")[0], "needs": needs})
    return {"steps": rows}


def registered(core: Core, *apps: App) -> None:
    """The intents are known, and no worker for them is there."""
    rows = {name: each.row() for app in apps for name, each in app.intents.items()}
    core.engine.transaction(lambda tx: tx.put_rows("intents", rows))


def reasons(core: Core, job_id: str) -> dict[str, Any]:
    found: Any = call("job_why", core, OWNER, job_id=job_id)
    return {each["reason"]: each for each in found["reasons"]}


# ---- real workers ----------------------------------------------------------------------------


def test_each_step_is_run_by_a_worker_that_has_its_intent(core: Core) -> None:
    left, right = app_with("saw"), app_with("sow")
    registered(core, left, right)
    left.bind(core)
    plan = plan_of("saw-1", "sow-1", "saw-2", "sow-2")
    with working(core, left, name="left"), working(core, right, name="right"):
        handle = left.submit("plan", options={"plan": plan})
        result = handle.result(timeout=60)
    assert result == {"saw-1": "saw", "sow-1": "sow", "saw-2": "saw", "sow-2": "sow"}
    with core.store.read() as view:
        runs = view.page(Query("runs", {"job_id": handle.job_id}))
        ((job, _),) = view.jobs([handle.job_id])
    by_step = {row["step"]: row["worker"] for row in runs}
    assert by_step == {"saw-1": "left", "sow-1": "right", "saw-2": "left", "sow-2": "right"}
    assert (job.attempt, job.failures, job.lost) == (1, {}, 0)


def test_a_plan_that_no_known_worker_can_run_waits_and_says_so(core: Core) -> None:
    left, right = app_with("saw"), app_with("sow")
    registered(core, left, right)
    left.bind(core)
    with working(core, left, name="left"):
        handle = left.submit("plan", options={"plan": plan_of("saw", "sow")})
        until(lambda: "no_worker" in reasons(core, handle.job_id), "the plan is handed back")
        why = reasons(core, handle.job_id)["no_worker"]
        assert why["detail"] == {"intent": "plan", "needs": ["sow"]}
        assert why["how"].endswith("intents of its next steps: sow")
        with working(core, right, name="right"):
            assert handle.result(timeout=60) == {"saw": "saw", "sow": "sow"}


def test_a_planner_may_plan_for_other_workers(core: Core) -> None:
    left, right = App(), app_with("sow")
    left.planner("think")(lambda request: [PlanStep("seed", "sow")])
    registered(core, right)
    left.bind(core)
    with working(core, left, name="left"), working(core, right, name="right"):
        assert left.submit("think").result(timeout=60) == {"seed": "sow"}


# ---- critics ---------------------------------------------------------------------------------


def test_an_unknown_critic_fails_the_step_before_it_has_run() -> None:
    app, ran = App(), []
    app.intent("work")(lambda: ran.append("work"))
    h = Harness(app)
    plan = {"steps": [{"name": "work", "critic": "gone"}]}
    command = c.SubmitJob("job", "default", "plan", options={"plan": plan})
    h.engine.do(command, c.Actor("an older client"))
    h.drain(advance=True)
    job = h.job("job")
    assert ran == []
    assert (job.state, job.attempt) == ("failed", 1)
    assert "names the critic 'gone', which this worker does not have. Known: none" in str(job.error)


def test_a_step_is_judged_by_the_critic_that_its_intent_names() -> None:
    app, seen = App(), []

    @app.critic("strict")
    def strict(result: Any, history: Any) -> str:
        seen.append(result.value)
        return "accept" if len(seen) > 1 else "retry"

    app.intent("work", critic="strict")(lambda: "done")
    app.plan("whole", [{"name": "work"}])
    h = Harness(app)
    handle = h.submit("whole")
    h.drain(advance=True)
    assert (done(handle), seen) == ({"work": "done"}, ["done", "done"])


def test_a_planner_that_names_an_unknown_critic_makes_no_plan() -> None:
    app = app_with("work")
    app.planner("think", retry={"retries": 0})(lambda _: [PlanStep("a", "work", critic="gone")])
    h = Harness(app)
    handle = h.submit("think")
    h.drain(advance=True)
    assert "names the critic 'gone', which does not exist" in error_of(handle)
    assert h.job(handle.job_id).plan_version == 0


# ---- retries ---------------------------------------------------------------------------------


class Flaky:
    """A harness with an intent that always fails, and the seconds at which it was tried."""

    def __init__(self, **options: Any) -> None:
        self.app, self.times = App(), list[int]()
        self.app.intent("flaky", **options)(self._run)
        self.app.planner("think", retry={"retries": 0})(lambda _: [PlanStep("flaky", "flaky")])
        self.h = Harness(self.app)
        self.start = self.h.clock.now

    def _run(self) -> None:
        self.times.append((self.h.clock.now - self.start) // S)
        raise RuntimeError("no")

    def drained(self, intent: str, **options: Any) -> Handle[Any]:
        handle = self.h.submit(intent, options=options)
        self.h.drain(advance=True)
        return handle


def test_a_step_is_tried_again_by_the_policy_of_its_intent() -> None:
    work = Flaky(retry={"max_attempts": 2, "backoff": "fixed", "delay_ms": 7_000})
    plan = {"steps": [{"name": "flaky"}]}
    handle = work.drained("plan", plan=plan, retry={"delay_ms": 1_000})
    assert work.times == [0, 7]
    assert steps(work.h, handle) == {"flaky": "failed"}


@pytest.mark.parametrize(
    ("own", "expected"),
    [
        ({"retry": {"retries": 1, "backoff": "fixed", "delay_ms": 2_000}}, [0, 2]),
        ({"max_retries": 0}, [0]),
        ({"max_retries": 2}, [0, 1, 3]),
    ],
)
def test_a_policy_of_the_step_itself_comes_before_that_of_its_intent(
    own: dict[str, Any], expected: list[int]
) -> None:
    work = Flaky(retry={"max_attempts": 9, "backoff": "fixed", "delay_ms": 7_000})
    work.drained("plan", plan={"steps": [{"name": "flaky", **own}]})
    assert work.times == expected


def test_a_planned_step_has_the_policy_of_its_intent_too() -> None:
    work = Flaky(max_retries=1)
    work.drained("think")
    assert len(work.times) == 2


def test_the_policy_of_a_class_counts_for_steps() -> None:
    app, tries = App(), []

    @app.intent("call", retry={"classes": {"network": {"retries": 1}}})
    def call_out() -> None:
        tries.append(1)
        raise NetworkError("no route")

    app.plan("whole", [{"name": "call"}])
    h = Harness(app)
    handle = h.submit("whole")
    h.drain(advance=True)
    assert len(tries) == 2
    assert step_events(h, handle, "call")[-1] == "step_failed"


# ---- subtasks --------------------------------------------------------------------------------


def test_a_subtask_that_needs_a_plan_is_refused_without_one_where_it_is_made() -> None:
    app, seen = App(), []

    @app.intent("parent", retry={"retries": 0})
    def parent(run: Run) -> None:
        try:
            run.subtask("plan")
        except Invalid as error:
            seen.append(error.message)
            raise

    h = Harness(app)
    handle = h.submit("parent")
    h.drain(advance=True)
    assert seen == ["A subtask of the intent 'plan' must include its plan."]
    assert "run.subtask('plan', plan=[…])" in error_of(handle)
    with h.store.read() as view:
        assert [row["intent"] for row in view.page(Query("jobs"))] == ["parent"]


@pytest.mark.parametrize("lifecycle", [None, "board"])
def test_a_subtask_with_a_plan_runs_its_steps(lifecycle: str | None) -> None:
    app = app_with("saw")

    @app.intent("parent")
    def parent(run: Run, wood: str) -> Any:
        return run.gather([run.subtask("plan", {"wood": wood}, plan=[PlanStep("cut", "saw")])])

    h = Harness(app)
    handle = h.submit("parent", {"wood": "oak"}, lifecycle=lifecycle)
    h.drain(advance=True)
    assert done(handle) == [{"cut": "saw"}]


def test_the_plan_of_a_subtask_is_checked_where_it_is_made() -> None:
    app = app_with("saw")

    @app.intent("parent", retry={"retries": 0})
    def parent(run: Run) -> None:
        run.subtask("plan", plan=[PlanStep("cut", "nothing")])

    h = Harness(app)
    handle = h.submit("parent")
    h.drain(advance=True)
    with pytest.raises(JobFailed, match="needs the intent 'nothing', which does not exist"):
        done(handle)
