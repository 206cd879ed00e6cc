"""`detent submit`: the id before the wait, how --set gives text, and errors that name options."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from detent.cli import submit
from detent.errors import Invalid
from detent.submission.request import missing_fields

Run = Callable[..., Result]


def test_the_id_is_printed_before_the_wait(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def shown(detent: Any, task_id: str, as_json: bool) -> Any:
        return detent.call("show_task", task_id=task_id)

    monkeypatch.setattr(submit, "wait_for", shown)
    result = run("submit", "runQA", "--hold", "--wait", code=15)
    task_id = run("tasks").stdout.splitlines()[1].split()[0]
    note = f"Submitted {task_id}. Ctrl-C ends the waiting, not the task."
    assert result.stderr.splitlines() == [note]
    assert task_id in result.stdout


def test_a_misspelled_intent_is_recognised(run: Run) -> None:
    shown = run("submit", "runQa", code=2).stderr
    assert "Did you mean runQA? Use one of the known intents" in shown
    assert "Did you mean" not in run("submit", "x" * 5_000, code=2).stderr


@pytest.mark.parametrize(
    ("given", "allowed", "assignment", "hint"),
    [
        (1.4, "text", "version=1.4", """--set 'version="1.4"'"""),
        (1.4, "text", "other=1", None),
        (1.4, "a whole number", "version=1.4", None),
    ],
)
def test_a_number_in_place_of_text_is_explained(
    given: Any, allowed: str, assignment: str, hint: str | None
) -> None:
    error = Invalid("wrong", field="payload.version", given=given, allowed=(allowed,))
    before = error.hint
    submit.explain_payload(error, (assignment,))
    added = error.hint.removeprefix(before)
    assert added == ("" if hint is None else f" --set reads JSON; for text, write: {hint}")


@pytest.mark.parametrize(
    ("missing", "hint"),
    [
        (["payload.bug"], "Try again with --set bug=…."),
        (["payload.file", "payload.bug"], "Try again with --set file=… --set bug=…."),
        (["payload.repo.url"], None),
        (["intent"], None),
    ],
)
def test_a_missing_field_is_explained(missing: list[str], hint: str | None) -> None:
    error = missing_fields(missing)
    expected = error.hint if hint is None else hint
    submit.explain_payload(error, ())
    assert error.hint == expected


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--budget", "0"], "--budget must be more than 0 dollars"),
        (["--at", "noon"], "--at must be a time with a time zone"),
        (["--priority", "P9"], "--priority must be one of"),
        (["--title", "x" * 501], "--title must be"),
        (["--tag", ""], "--tag must be"),
        (["--key", ""], "--key must be"),
        (["--variants", "99"], "--variants must be"),
        (["--choose", "best"], "--choose must be"),
    ],
)
def test_an_error_names_the_option(run: Run, arguments: list[str], problem: str) -> None:
    assert f"detent: {problem}" in run("submit", "runQA", *arguments, code=2).stderr


def test_an_error_as_json_keeps_the_name_of_the_field(run: Run) -> None:
    shown = json.loads(run("submit", "runQA", "--budget", "0", "--json", code=2).stderr)
    assert shown["field"] == "max_budget_usd"
    assert shown["detail"].startswith("--budget must be")


def test_other_commands_name_their_options_and_arguments(run: Run) -> None:
    task_id = run("submit", "runQA", "--hold").stdout.strip()
    assert "detent: DOLLARS must be" in run("raise", task_id, "0", code=2).stderr
    assert (
        "detent: --budget must be" in run("tasks", "set", task_id, "--budget", "0", code=2).stderr
    )
