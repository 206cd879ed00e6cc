"""Payload fields that a command requires: a submission without them is refused."""

from typing import Any

import pytest

from detent.app.app import App
from detent.app.handlers import argv_schema
from detent.errors import Invalid
from detent.operations.context import Core


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
