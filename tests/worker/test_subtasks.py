"""Subtasks of a run, and what a run says on its way."""

from typing import Any

import pytest

from detent.app import subtasks
from detent.app.app import App
from detent.app.failures import SubtaskFailed
from detent.app.run_context import Run
from detent.errors import Invalid
from detent.store.types import Query
from detent.testing.harness import Harness
from tests.worker.waiting import done, error_of

# ---- subtasks -------------------------------------------------------------------------------


def with_subtasks(app: App, calls: list[str]) -> None:
    @app.intent("square", retry={"retries": 0})
    def square(number: int) -> int:
        calls.append(f"square {number}")
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

    @app.intent("sum of all", retry={"retries": 0})
    def of_all(run: Run, numbers: list[int]) -> int:
        return sum(run.map(square, [{"number": each} for each in numbers]))


@pytest.mark.parametrize("lifecycle", [None, "board", "review"])
def test_many_subtasks_are_made_together(
    lifecycle: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtasks, "MAX_PER_TRANSACTION", 2)
    app = App()
    calls: list[Any] = []
    with_subtasks(app, calls)
    h = Harness(app)
    handle = h.submit("sum of all", {"numbers": [3, 1, 2]}, lifecycle=lifecycle)
    h.drain(advance=True)
    assert done(handle) == 14
    assert sorted(calls) == ["square 1", "square 2", "square 3"]


@pytest.mark.parametrize("write", range(8))
def test_a_crash_while_many_are_made_makes_none_twice(
    write: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subtasks, "MAX_PER_TRANSACTION", 2)
    app = App()
    calls: list[Any] = []
    with_subtasks(app, calls)
    h = Harness(app)
    h.crash_at(write)
    handle = h.submit("sum of all", {"numbers": [1, 2, 3]})
    h.drain(advance=True)
    assert done(handle) == 14
    assert sorted(calls) == ["square 1", "square 2", "square 3"]


def test_another_number_of_subtasks_than_before_is_reported() -> None:
    app = App()
    numbers = [1, 2]

    @app.intent("one")
    def one() -> int:
        return 1

    @app.intent("many", retry={"retries": 0})
    def many(run: Run) -> int:
        return sum(run.map(one, [None for _ in numbers]))

    h = Harness(app)
    handle = h.submit("many")
    h.crash_at(3)
    h.drain()
    numbers.append(3)
    h.drain(advance=True)
    assert "made 2 subtasks in an earlier execution" in error_of(handle)


@pytest.mark.parametrize("lifecycle", [None, "board", "review"])
def test_subtasks_are_gathered(lifecycle: str | None) -> None:
    app = App()
    calls: list[Any] = []
    with_subtasks(app, calls)
    h = Harness(app)
    handle = h.submit("sum", {"numbers": [1, 2, 3]}, lifecycle=lifecycle)
    h.drain(advance=True)
    assert done(handle) == 14
    assert sorted(calls) == ["square 1", "square 2", "square 3"]


@pytest.mark.parametrize("write", range(12))
def test_a_crash_while_subtasks_are_made_makes_none_twice(write: int) -> None:
    app = App()
    calls: list[Any] = []
    with_subtasks(app, calls)
    h = Harness(app)
    h.crash_at(write)
    handle = h.submit("sum", {"numbers": [1, 2, 3]})
    h.drain(advance=True)
    assert done(handle) == 14
    assert sorted(calls) == ["square 1", "square 2", "square 3"]


def test_a_failed_subtask_raises_with_every_outcome_or_is_inspected() -> None:
    app = App()
    calls: list[Any] = []
    with_subtasks(app, calls)
    h = Harness(app)
    summed = h.submit("sum", {"numbers": [2, -1]})
    looked = h.submit("look", {"numbers": [2, -1]})
    h.drain(advance=True)
    assert "subtask part--1 is failed: ValueError: no negative ones" in error_of(summed)
    assert done(looked) == ["completed", "failed"]
    assert issubclass(SubtaskFailed, Exception)


@pytest.mark.parametrize(("lifecycle", "ended"), [("board", "done"), ("review", "ready")])
def test_a_parent_that_handled_a_failed_subtask_does_not_wait_for_it(
    lifecycle: str, ended: str
) -> None:
    app = App()
    with_subtasks(app, [])
    h = Harness(app)
    handle = h.submit("look", {"numbers": [2, -1, 3]}, lifecycle=lifecycle)
    h.drain(advance=True)
    states = done(handle)
    assert (len(states), len(set(states))) == (3, 2)
    with h.store.read() as view:
        (row,) = view.page(Query("tasks", {"parent_id": None}))
    assert (row["state"], row["open_subtasks"], len(row["settled"])) == (ended, 0, 1)


def test_a_subtask_with_a_payload_and_arguments_is_refused() -> None:
    app = App()

    @app.intent("add")
    def add(a: int, b: int = 0) -> int:
        return a + b

    @app.intent("parent", retry={"retries": 0})
    def parent(run: Run) -> None:
        run.subtask(add, {"a": 1}, b=2)

    h = Harness(app)
    handle = parent.submit()
    h.drain()
    assert "a payload, and also the arguments b" in error_of(handle)


def test_a_subtask_of_an_unknown_intent_is_refused_with_the_known_ones() -> None:
    app = App()

    @app.intent("outer", retry={"retries": 0})
    def outer(run: Run) -> None:
        run.subtask("inner")

    h = Harness(app)
    handle = h.submit("outer")
    h.drain()
    assert "intent must be one of outer, plan, not 'inner'." in error_of(handle)


@pytest.mark.parametrize("lifecycle", [None, "board", "review"])
def test_a_cancel_reaches_the_subtasks(lifecycle: str | None) -> None:
    app = App()

    @app.intent("wait")
    def wait(run: Run) -> None:
        run.wait_for("never")

    @app.intent("outer")
    def outer(run: Run) -> None:
        run.gather([run.subtask(wait, name="a"), run.subtask(wait, name="b")])

    h = Harness(app)
    handle = h.submit("outer", lifecycle=lifecycle)
    h.drain()
    assert handle.cancel() == "cancelled"
    with h.store.read() as view:
        jobs = view.page(Query("jobs"))
    assert [job["state"] for job in jobs] == ["cancelled"] * 3


# ---- on the way -----------------------------------------------------------------------------


def test_progress_output_and_evidence_are_kept_with_the_run() -> None:
    app = App()

    @app.intent("work")
    def work(run: Run) -> str:
        run.progress(0.5, "half way")
        run.log("hello")
        run.evidence("QA-DECISION.md", "# fine")
        run.evidence("numbers.json", {"a": [1, 2]})
        return run.id

    h = Harness(app)
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

    h = Harness(app)
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

    h = Harness(app)
    handle = h.submit("self", {"x": 1}, lifecycle="board")
    h.drain(advance=True)
    job, task = handle.job_id, handle.task_id
    assert seen == [
        (1, 1, job, task, f"{job}-r1", {"x": 1}),
        (2, 2, job, task, f"{job}-r2", {"x": 1}),
    ]
