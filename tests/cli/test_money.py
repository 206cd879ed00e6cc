"""`detent costs` and `detent raise`, and the table of `detent lifecycle mapping`."""

import json
from pathlib import Path

from detent.engine import Engine
from detent.testing.conformance.work_actions import claim_one, submit_task, suspend
from tests.cli.conftest import Run
from tests.cli.databases import opened


def test_a_budget_is_shown_and_raised(run: Run) -> None:
    task_id = run("submit", "runQA", "--budget", "2.5", "--hold").output.strip()
    shown = json.loads(run("costs", task_id, "--json").output)
    assert (shown["budget"], shown["left"], shown["runs"]) == (2.5, 2.5, [])
    assert "may spend $2.50 more" in run("costs", task_id).output
    assert "budget $10" in run("raise", task_id, "10").output
    assert json.loads(run("costs", task_id, "--json").output)["budget"] == 10.0


def test_without_a_budget(run: Run) -> None:
    task_id = run("submit", "runQA", "--hold").output.strip()
    assert "has cost $0.00 with its subtasks. It has no budget." in run("costs", task_id).output


def test_a_run_that_waits_for_an_answer_has_not_succeeded(run: Run, data: Path) -> None:
    with opened(data) as store:
        engine = Engine(store)
        task_id = submit_task(engine)
        suspend(engine, claim_one(engine), "answer", "question")
    shown = run("costs", task_id).output
    assert "suspended" in shown
    assert "succeeded" not in shown


def test_a_budget_that_is_none_is_refused(run: Run) -> None:
    task_id = run("submit", "runQA", "--hold").output.strip()
    assert "more than 0 dollars" in run("raise", task_id, "0", code=2).output


def test_an_amount_that_is_none_names_the_option(run: Run) -> None:
    task_id = run("submit", "runQA", "--hold").output.strip()
    for *command, option in (
        ("submit", "runQA", "--budget", "much", "--budget"),
        ("tasks", "set", task_id, "--budget", "nan", "--budget"),
        ("raise", task_id, "$", "DOLLARS"),
    ):
        printed = run(*command, code=2).output
        assert f"Invalid value for {option}" in printed, printed
        assert "is not an amount of dollars, for example 25 or 0.50." in printed
    assert "budget $7.50" in run("raise", task_id, "$7.5").output


def test_the_mapping_of_states(run: Run) -> None:
    rows = json.loads(run("lifecycle", "mapping", "--json").output)["items"]
    (failed,) = [row for row in rows if row["failed"] and row["reason"] == "error"]
    assert (failed["other"], failed["mcp"]) == ("failed", "failed")
    assert "budget_exceeded" in run("lifecycle", "mapping").output
