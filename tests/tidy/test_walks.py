"""The walks of ARCHITECTURE.md: each operation calls the listed functions, in the listed order."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from detent import App, Run
from detent.worker.worker import Worker
from tests.gateway.installation import Installation, installed, until
from tests.tidy.call_trace import ROOT, Call, traced

PAGE = ROOT / "ARCHITECTURE.md"
STEP = re.compile(r"^\d+\. `(?P<file>[\w/]+\.py)` `(?P<function>[\w.]+)`: ", re.MULTILINE)
MAX_LINES = 120


def walks() -> dict[str, list[Call]]:
    """The steps of every walk, by its heading."""
    _, _, text = PAGE.read_text("utf-8").partition("## Three walks\n")
    sections = (section.partition("\n") for section in text.split("### ")[1:])
    return {
        heading: [Call(step["file"], step["function"]) for step in STEP.finditer(body)]
        for heading, _, body in sections
    }


def first_missing(steps: Sequence[Call], called: Sequence[Call]) -> Call | None:
    """The first step that is not called, or not after the steps before it."""
    rest = iter(called)
    return next((step for step in steps if step not in rest), None)


# ---- the operations ----------------------------------------------------------------------------


def make_app() -> App:
    app = App()

    @app.intent("runQA")
    def run_tests() -> str:
        return "passed"

    @app.intent("review")
    def review(run: Run) -> Any:
        return run.ask("Merge it?", ["yes", "no"])

    return app


def add(gateway: Installation, intent: str) -> str:
    request = {"source": "api", "intent": intent, "payload": {}}
    response = gateway.client().post("/add", json=request)
    assert response.status_code == 201, response.text
    return str(response.json()["taskId"])


def until_state(gateway: Installation, task_id: str, state: str) -> None:
    client = gateway.client()
    until(lambda: client.get(f"/api/tasks/{task_id}").json()["state"] == state)


def submit_a_task(gateway: Installation) -> None:
    add(gateway, "runQA")


def submit_others(gateway: Installation) -> None:
    """Submissions like the traced one."""
    for _ in range(3):
        add(gateway, "runQA")


def execute_a_job(gateway: Installation) -> None:
    with Worker(gateway.core, make_app()):
        until_state(gateway, add(gateway, "runQA"), "done")


def ask_a_question(gateway: Installation) -> None:
    with Worker(gateway.core, make_app()):
        task_id = add(gateway, "review")
        until_state(gateway, task_id, "blocked")
        answer = gateway.client().post(f"/api/tasks/{task_id}/answer", json={"answer": "yes"})
        assert answer.status_code == 200, answer.text
        until_state(gateway, task_id, "done")


OPERATIONS: dict[str, Callable[[Installation], None]] = {
    "A submission: from `POST /add` to the commit": submit_a_task,
    "A job: from the claim to its end": execute_a_job,
    "A question: from `run.ask` to the continued run": ask_a_question,
}
#: What is done before the operation and is not traced.
BEFORE: dict[str, Callable[[Installation], None]] = {
    "A submission: from `POST /add` to the commit": submit_others,
}


@pytest.mark.parametrize("heading", OPERATIONS)
def test_the_operation_calls_the_listed_functions_in_order(heading: str, tmp_path: Path) -> None:
    steps = walks()[heading]
    with traced() as called, installed(tmp_path) as gateway:
        if heading in BEFORE:
            BEFORE[heading](gateway)
            called.clear()
        OPERATIONS[heading](gateway)
    missing = first_missing(steps, called)
    assert missing is None, (
        f"{missing} is not called, or not in this order. "
        f"Correct the walk {heading!r} in {PAGE.name}."
    )


def test_every_walk_has_an_operation_and_every_line_is_a_step() -> None:
    assert list(walks()) == list(OPERATIONS)
    lines = re.findall(r"^\d+\. `.*", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(lines) == sum(map(len, walks().values())) >= 3 * 10


def test_a_renamed_or_moved_function_is_found() -> None:
    called = [Call("a.py", "one"), Call("b.py", "two"), Call("a.py", "three")]
    assert first_missing(called, called) is None
    assert first_missing([*called[:1], Call("b.py", "renamed")], called) == Call("b.py", "renamed")
    assert first_missing([called[1], called[0]], called) == called[0]


def test_the_page_fits_on_two_screens() -> None:
    assert len(PAGE.read_text("utf-8").splitlines()) <= MAX_LINES


def test_the_first_submission_of_a_kind_takes_the_general_path(tmp_path: Path) -> None:
    steps = [
        Call("engine/batch.py", "run"),
        Call("kernel/decide/submit.py", "submit_task"),
        Call("kernel/transitions/task_job.py", "create_job"),
        Call("store/sqlite/writer.py", "SqliteWriter.save"),
    ]
    with traced() as called, installed(tmp_path) as gateway:
        submit_a_task(gateway)
    assert first_missing(steps, called) is None
