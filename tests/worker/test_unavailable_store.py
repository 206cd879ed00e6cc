"""Runs while many reads of the store fail: the reads are repeated, and no run fails."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from detent.app import retried_calls
from detent.app.app import App
from detent.app.plan_request import PlanRequest
from detent.app.run_context import Run
from detent.app.step_result import StepResult
from detent.errors import Unavailable
from detent.store.port import ReadTransaction
from detent.testing.harness import Harness


class FlakyReads:
    """Half of the reads of a store fail."""

    def __init__(self, store: Any) -> None:
        self.read, self.random, self.failed = store.read, random.Random(1), 0

    @contextmanager
    def __call__(self) -> Iterator[ReadTransaction]:
        if self.random.random() < 0.5:
            self.failed += 1
            raise Unavailable("The store is unavailable.", retry_after_s=1)
        with self.read() as view:
            yield view


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=monotonic, sleep=lambda _: None)
    monkeypatch.setattr(retried_calls, "time", clock)


def result_of(app: App, intent: str, monkeypatch: pytest.MonkeyPatch, **fields: Any) -> Any:
    """Submit work, execute it while reads fail, and return its result."""
    harness = Harness(app)
    handle = harness.submit(intent, **fields)
    reads = FlakyReads(harness.store)
    with monkeypatch.context() as patched:
        patched.setattr(harness.store, "read", reads)
        harness.drain(advance=True)
    assert reads.failed > 0
    assert "run_failed" not in harness.events(handle.job_id)
    return handle.result(timeout=0)


def test_a_plan_with_a_planner_and_a_critic(monkeypatch: pytest.MonkeyPatch) -> None:
    app, histories = App(), []

    def judge(result: StepResult, history: tuple[StepResult, ...]) -> str:
        histories.append(len(history))
        return "accept" if history else "retry"

    @app.intent("build", critic=judge)
    def build(run: Run) -> int:
        return run.step("compile", lambda: 7)

    @app.planner("ship")
    def ship(request: PlanRequest) -> list[dict[str, Any]]:
        return [{"name": "build"}, {"name": "again", "intent": "build", "needs": ["build"]}]

    assert result_of(app, "ship", monkeypatch) == {"build": 7, "again": 7}
    assert histories == [0, 1, 0, 1]


def test_variants_and_a_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()

    @app.intent("fix", variants=2, choose="first_passing", checker="check")
    def fix(run: Run) -> str:
        return "fixed"

    @app.intent("check")
    def check(run: Run, **work: Any) -> dict[str, Any]:
        return {"accept": True, "findings": [work["result"]]}

    assert result_of(app, "fix", monkeypatch, lifecycle="board") == "fixed"


def test_subtasks_and_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    app = App()

    @app.intent("double")
    def double(n: int) -> int:
        return 2 * n

    @app.intent("sum")
    async def total(run: Any) -> int:
        made = [await run.subtask(double, n=n, name=f"n{n}") for n in (1, 2, 3)]
        return sum(await run.gather(made))

    assert result_of(app, "sum", monkeypatch) == 12
