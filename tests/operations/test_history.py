"""History: a task at any earlier time, and jobs that are forked from one of their steps."""

from typing import Any

import pytest

from detent.app.app import App
from detent.app.run_context import Run
from detent.errors import Forbidden, Invalid, NotFound
from detent.operations import queries
from detent.operations.registry import Caller, call
from detent.testing.audit import audit
from detent.testing.harness import Harness
from tests.operations.operations_client import OperationsClient

# ---- earlier times ---------------------------------------------------------------------------


def test_a_task_at_every_earlier_position() -> None:
    client = OperationsClient()
    made = client.submit(title="first", payload=1, run=False)
    client.later(1)
    client.call("run_task", task_id=made)
    client.later(1)
    held = client.claim()
    client.call("edit_task", task_id=made, title="second", payload=2)
    client.complete(held)
    events = client.call("task_events", task_id=made)["events"]
    states = {}
    for event in events:
        then = client.call("task_at", task_id=made, position=event["position"])
        assert then["position"] == event["position"]
        states[event["name"]] = (then["task"]["state"], then["task"]["title"])
    assert states["task_created"] == ("pending", "first")
    assert states["task_queued"] == ("queued", "first")
    assert states["task_started"] == ("running", "first")
    assert states["task_edited"] == ("running", "second")
    assert states["task_ready"] == ("ready", "second")
    now = client.call("task_at", task_id=made)
    shown = client.task(made)
    assert {name: shown[name] for name in now["task"] if name in shown} == {
        name: value for name, value in now["task"].items() if name in shown
    }
    assert now["jobs"][0]["state"] == "completed"


def test_a_task_at_an_earlier_time() -> None:
    client = OperationsClient()
    made = client.submit(run=False)
    created = client.task(made)["created_at"]
    client.later(60)
    client.call("cancel_task", task_id=made)
    then = client.call("task_at", task_id=made, time=created)
    assert (then["task"]["state"], client.state(made)) == ("pending", "cancelled")
    with pytest.raises(NotFound, match="did not exist at that time"):
        client.call("task_at", task_id=made, time="2020-01-01T00:00:00Z")
    for wrong in ("yesterday", "2030-01-01T00:00:00"):
        with pytest.raises(Invalid):
            client.call("task_at", task_id=made, time=wrong)
    with pytest.raises(Invalid):
        client.call("task_at", task_id=made, time=created, position=1)


# ---- pages -----------------------------------------------------------------------------------


def test_a_long_history_comes_in_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "MAX_EVENTS", 3)
    client = OperationsClient()
    made = client.submit()
    client.complete(client.claim())
    pages, after = [], 0
    while events := (page := client.call("task_events", task_id=made, after=after))["events"]:
        pages.append([each["position"] for each in events])
        after = page["cursor"]
    assert {len(page) for page in pages[:-1]} == {3}
    positions = [position for page in pages for position in page]
    assert positions == [*range(1, client.head() + 1)]
    job = client.call("show_task", task_id=made)["job_id"]
    first = client.call("job_events", job_id=job)
    assert len(first["events"]) == 3
    assert (
        client.call("job_events", job_id=job, after=first["cursor"])["events"][0]["position"]
        > (first["cursor"])
    )


# ---- forks -----------------------------------------------------------------------------------


def harness_of(app: App) -> tuple[Harness, list[str]]:
    """A handler with three steps and a question, and the list of the steps that it executed."""
    done: list[str] = []

    def doing(name: str) -> str:
        done.append(name)
        return f"{name} {len(done)}"

    @app.intent("work")
    def work(run: Run, n: int) -> list[Any]:
        found = [run.step("a", doing, "a")]
        found.append(run.ask("Which?", name="which"))
        found.append(run.step("b", doing, "b"))
        found.append(run.step("c", doing, "c"))
        return [n, *found]

    return Harness(app), done


def ask(harness: Harness, operation: str, caller: Caller | None = None, **arguments: Any) -> Any:
    return call(operation, harness.app.core, caller or Caller("owner"), **arguments)


def test_a_fork_keeps_what_was_done_before_the_step() -> None:
    app = App()
    harness, done = harness_of(app)
    first = harness.submit("work", {"n": 7})
    harness.drain()
    first.answer("this")
    harness.drain()
    assert first.result() == [7, "a 1", "this", "b 2", "c 3"]
    fork = ask(harness, "fork_job", job_id=first.job_id, step="b", id="again")
    assert fork == {"id": "again", "source": first.job_id, "until": "b", "kept": ["a", "which"]}
    assert harness.job("again").runs == 1
    harness.drain()
    job = harness.job("again")
    assert (job.state, job.result) == ("completed", [7, "a 1", "this", "b 4", "c 5"])
    assert done == ["a", "b", "c", "b", "c"]
    assert harness.job(first.job_id).result == [7, "a 1", "this", "b 2", "c 3"]
    assert harness.events("again")[:2] == ["job_created", "job_forked"]


def test_a_fork_from_an_answer_asks_the_question_again() -> None:
    app = App()
    harness, done = harness_of(app)
    first = harness.submit("work", {"n": 7})
    harness.drain()
    first.answer("this")
    harness.drain()
    ask(harness, "fork_job", job_id=first.job_id, step="which", id="again")
    harness.drain()
    assert harness.job("again").state == "parked"
    assert done == ["a", "b", "c"]


def test_a_fork_of_a_plan_keeps_the_steps_not_after_the_step() -> None:
    app = App()
    done: list[str] = []

    def step(name: str) -> None:
        @app.intent(name)
        def run_it() -> str:
            done.append(name)
            return f"{name} {len(done)}"

    for name in ("a", "b", "c", "d"):
        step(name)
    rows: list[dict[str, Any]] = [
        {"name": "a"},
        {"name": "b", "needs": ["a"]},
        {"name": "c", "needs": ["b"]},
        {"name": "d"},
    ]
    app.plan("work", rows)
    harness = Harness(app)
    first = harness.submit("work")
    harness.drain()
    before = len(done)
    fork = ask(harness, "fork_job", job_id=first.job_id, step="b", id="again")
    assert sorted(fork["kept"]) == ["a", "d"]
    harness.drain()
    assert sorted(done[before:]) == ["b", "c"]
    result, old = harness.job("again").result, first.result()
    assert (result["a"], result["d"]) == (old["a"], old["d"])
    assert (result["b"] == old["b"], result["c"] == old["c"]) == (False, False)
    audit(harness.store)


def test_what_cannot_be_forked() -> None:
    app = App()
    harness, _ = harness_of(app)
    first = harness.submit("work", {"n": 7})
    harness.drain()
    with pytest.raises(NotFound, match="Its steps are: a"):
        ask(harness, "fork_job", job_id=first.job_id, step="z")
    with pytest.raises(NotFound):
        ask(harness, "fork_job", job_id="missing", step="a")
    bound = Caller("agent", root_id=first.job_id)
    with pytest.raises(Forbidden):
        ask(harness, "fork_job", bound, job_id=first.job_id, step="a")
