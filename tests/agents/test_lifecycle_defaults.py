"""The retry policy and the budget of a lifecycle's document, with a real worker and agent."""

from pathlib import Path

import pytest

from detent.operations.registry import OWNER, call
from tests.agents.scene import Scene

FILE = Path(__file__).parents[1] / "lifecycles" / "documents" / "seven_states.toml"
DEFAULTS = """\
retry = { retries = 1, delay_ms = 0 }
max_budget_usd = 0.5
"""


@pytest.fixture(autouse=True)
def installed(s: Scene) -> None:
    text = DEFAULTS + FILE.read_text(encoding="utf-8")
    call("install_lifecycle", s.core, OWNER, document=text)


def submit(s: Scene, intent: str, **fields: object) -> None:
    """As a client submits a task."""
    s.handle = s.app.bind(s.core).submit(intent, {}, lifecycle="delivery", **fields)


def test_the_agent_spends_the_budget_of_the_document(s: Scene) -> None:
    s.script([{"cost": 0.3}, {"cost": 0.3}, {"cost": 0.3}, {"say": "never"}])
    s.intent()
    submit(s, "fix")
    with s.working():
        task = s.rests("blocked")
    assert (task.budget, task.spent, task.blocked_by) == (500_000, 600_000, "budget")
    assert s.run()["error_class"] == "budget"


def test_the_budget_of_a_task_wins(s: Scene) -> None:
    s.script([{"cost": 0.3}, {"cost": 0.3}, {"cost": 0.3}, {"say": "enough"}])
    s.intent()
    submit(s, "fix", max_budget_usd=2.0)
    with s.working():
        task = s.rests("approval")
    assert (task.budget, task.spent) == (2_000_000, 900_000)


def test_a_failed_attempt_is_retried_as_the_document_says(s: Scene) -> None:
    attempts: list[int] = []

    @s.app.intent("break")
    def fail() -> None:
        attempts.append(1)
        raise ValueError("it is broken")

    submit(s, "break")
    with s.working():
        task = s.rests("blocked")
    assert (len(attempts), task.blocked_by, task.retries_left) == (2, "error", 0)


def test_the_retries_of_an_intent_win(s: Scene) -> None:
    attempts: list[int] = []

    @s.app.intent("break", retry={"retries": 2})
    def fail() -> None:
        attempts.append(1)
        raise ValueError("it is broken")

    submit(s, "break")
    with s.working():
        task = s.rests("blocked")
    assert (len(attempts), task.retries_left) == (3, 0)
