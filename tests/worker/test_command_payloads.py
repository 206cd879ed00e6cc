"""Payload fields that a command or a prompt requires: a submission without them is refused."""

from dataclasses import replace
from typing import Any

import pytest

from detent.app.app import App
from detent.app.handlers import argv_schema, prompt_schema
from detent.errors import Invalid
from detent.operations.context import Core
from detent.operations.projects import list_intents
from detent.operations.registry import Caller


def test_a_command_declares_the_payload_fields_that_it_requires() -> None:
    assert argv_schema(["make", "test"]) is None
    argv = ["git", "clone", "{payload.repo.url}", "{payload.depth}", "{payload.repo.branch}"]
    schema = argv_schema(argv)
    assert schema is not None
    assert schema["required"] == ["repo", "depth"]
    assert schema["properties"]["repo"]["required"] == ["url", "branch"]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({}, "payload.repo, payload.depth are missing: the handler of clone requires them"),
        ({"repo": {}, "depth": 1}, "payload.repo.url is missing: the handler of clone requires it"),
        ({"repo": "x", "depth": 1}, "payload.repo must be an object, not 'x'"),
        (
            {"repo": {"url": ["x"]}, "depth": 1},
            r"payload.repo.url must be text or a number or true or false, not \['x'\]",
        ),
        ({"repo": {"url": None}, "depth": 1}, "payload.repo.url must be text"),
    ],
)
def test_a_submission_without_a_field_that_the_command_requires_is_refused(
    core: Core, payload: Any, text: str
) -> None:
    app = App().bind(core)
    app.command("clone", ["git", "clone", "{payload.repo.url}", "{payload.depth}"])
    with pytest.raises(Invalid, match=text):
        app.submit("clone", payload)
    with pytest.raises(Invalid, match=text):
        app.submit("clone", payload, lifecycle="board")
    app.submit("clone", {"repo": {"url": "x"}, "depth": 1, "more": [True]})


def test_a_result_of_an_earlier_plan_step_can_be_an_argument_of_a_command(core: Core) -> None:
    app = App().bind(core)
    app.command("build", ["make"])
    app.command("upload", ["upload", "--", "{payload.build.path}", "{payload.to}"])
    app.plan("ship", [{"name": "build"}, {"name": "upload", "needs": ["build"]}])
    app.submit("ship", {"to": "x"})
    with pytest.raises(Invalid, match=r"payload.*to is missing|input.to is missing"):
        app.submit("ship", {})


# ---- prompts of agents -------------------------------------------------------------------------


def test_a_prompt_declares_the_payload_fields_that_it_requires() -> None:
    for anything in ("{title}", "Do: {payload}", "no placeholder"):
        assert prompt_schema(anything) is None
    schema = prompt_schema("{title}: {payload.bug} {payload.repo.url-1} {payload.bug} {payload}")
    assert schema is not None
    assert schema["required"] == ["bug", "repo"]
    assert schema["properties"]["bug"] == {}
    assert schema["properties"]["repo"]["required"] == ["url-1"]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({}, "payload.file, payload.bug are missing: the handler of fix requires them"),
        ({"file": {}, "bug": 1}, "payload.file.name is missing: the handler of fix requires it"),
        ({"file": "x", "bug": 1}, "payload.file must be an object, not 'x'"),
        ("x", "payload must be an object, not 'x'"),
    ],
)
def test_a_submission_without_a_field_that_the_prompt_requires_is_refused(
    core: Core, payload: Any, text: str
) -> None:
    app = App().bind(core)
    app.agent("fix", "claude", "Fix this in {payload.file.name}: {payload.bug}")
    with pytest.raises(Invalid, match=text):
        app.submit("fix", payload)
    with pytest.raises(Invalid, match=text):
        app.submit("fix", payload, lifecycle="review")
    app.submit("fix", {"file": {"name": ["any", "value"]}, "bug": None, "more": True})


def test_a_configured_agent_has_a_form_with_the_texts_of_its_prompt(core: Core) -> None:
    rows = {"fix": {"agent": "claude", "prompt": "Fix this: {payload.bug}"}}
    registered = {"fix": App.from_config(rows).intents["fix"].row()}
    core.engine.transaction(lambda tx: tx.put_rows("intents", registered))
    (shown,) = list_intents(replace(core, intents=rows), Caller("local"))["items"]
    assert shown["arguments"] is not None
    assert shown["arguments"]["properties"] == {"bug": {"type": "string"}}
