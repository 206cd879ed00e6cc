"""Variants from the command line: submit, compare, choose, show."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from detent.engine import Engine
from detent.testing.conformance.variants import with_variants
from detent.testing.conformance.work_actions import claim_one, complete
from tests.cli.databases import opened

Run = Callable[..., Result]


@pytest.fixture
def made(data: Path) -> tuple[str, list[str]]:
    """A task with three variants, of which one has ended well."""
    with opened(data) as store:
        engine = Engine(store)
        task_id, variants = with_variants(engine)
        complete(engine, claim_one(engine), {"text": "done"})
    return task_id, variants


def test_variants_are_compared_and_one_is_chosen(run: Run, made: tuple[str, list[str]]) -> None:
    task_id, ids = made
    shown = run("variants", task_id).stdout
    assert shown.splitlines()[0].split()[:3] == ["NUMBER", "INTENT", "STATE"]
    assert [line.split()[:3] for line in shown.splitlines()[1:4]] == [
        ["1", "dig", "completed"],
        ["2", "dig", "queued"],
        ["3", "dig", "queued"],
    ]
    assert f"Choose one: detent choose {task_id} NUMBER" in shown
    found = json.loads(run("variants", task_id, "--json").stdout)
    assert [each["choosable"] for each in found["variants"]] == [True, False, False]
    assert (found["wanted"], found["chosen"]) == (3, None)
    assert "3, none was chosen" in run("show", task_id).stdout
    for wrong, code in (("4", 2), ("x", 2), ("-1", 2), ("2", 1)):
        assert run("choose", task_id, wrong, code=code).exit_code == code
    assert json.loads(run("variants", task_id, "--json").stdout)["chosen"] is None

    assert run("choose", task_id, "1").stdout == f"{task_id}: running (chosen)\n"
    shown = run("variants", task_id).stdout
    assert "Variant 1 was chosen." in shown
    assert shown.count("cancelled") == 2
    assert f"3, variant 1 was chosen: {ids[0]}" in run("show", task_id).stdout
    assert run("choose", task_id, "1").exit_code == 0
    assert "was chosen already" in run("choose", task_id, "2", code=1).stderr


def test_a_task_without_variants(run: Run, job: str) -> None:
    task_id = json.loads(run("tasks", "--json").stdout)["items"][0]["id"]
    assert run("variants", task_id).stdout == f"Task {task_id} has no variants.\n"
    assert "no variants to choose from" in run("choose", task_id, "1", code=1).stderr


@pytest.mark.parametrize("given", ["0", "1", "-1", "x", "1000", "", "runQA,", "runQA,nothing"])
def test_a_wrong_number_of_variants_stores_nothing(run: Run, data: Path, given: str) -> None:
    data.mkdir()
    refused = run("submit", "runQA", "--variants", given, code=2)
    assert "detent: --variants " in refused.stderr
    assert json.loads(run("tasks", "--json").stdout)["items"] == []
    assert "needs options.variants" in run("submit", "runQA", "--choose", "person", code=2).stderr


def test_variants_and_a_policy_are_submitted(run: Run, data: Path) -> None:
    data.mkdir()
    named = ("--variants", "runQA,fixBug", "--choose", "first_passing")
    task_id = run("submit", "runQA", *named).stdout.strip()
    options = json.loads(run("show", task_id, "--json").stdout)["task"]["options"]
    assert (options["variants"], options["choose"]) == (["runQA", "fixBug"], "first_passing")
    assert "They are created when a worker starts it." in run("variants", task_id).stdout
