"""Deliveries of webhooks: only signed ones of known repositories count, and each of them once."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from detent.engine import Engine
from detent.errors import DetentError, Invalid, NotFound, Unauthorized
from detent.operations.context import Core
from detent.operations.forge_deliveries import (
    REMEMBERED_US,
    close_deliveries,
    open_deliveries,
    receive,
)
from detent.operations.forge_hook import Named
from detent.operations.github_hook import GITHUB_HOOK
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.testing.clock import VirtualClock
from tests.gateway.installation import installed
from verification.github.github_people import Delivery, People, delivery
from verification.github.github_state import RepoState

SECRET = "hook-secret"


class Gate:
    """The gateway's part of deliveries, without a socket."""

    def __init__(self, directory: Path) -> None:
        secret = directory / "secret"
        secret.write_text(SECRET)
        self.clock = VirtualClock()
        store = MemoryStore(self.clock)
        settings = Settings(
            github_webhook_secret=f"file:{secret}", github_repositories=("acme/app=fix",)
        )
        self.core = Core(store, Engine(store), settings)
        self.people = People(RepoState("acme/app", directory), SECRET)

    def post(self, given: Delivery) -> str:
        return receive(self.core, GITHUB_HOOK, given.headers, given.body)["status"]

    def waiting(self) -> list[Named]:
        return [each.named for each in open_deliveries(self.core, "github")]


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def labelled(gate: Gate) -> Delivery:
    gate.people.open_issue("b is wrong", labels=("detent",))
    (found,) = gate.people.waiting
    gate.people.waiting = []
    return found


def test_a_delivery_is_recorded_once(gate: Gate) -> None:
    given = labelled(gate)
    assert [gate.post(given), gate.post(given)] == ["accepted", "repeated"]
    assert gate.waiting() == [Named("acme/app", issues=(1,))]
    close_deliveries(gate.core, "github", open_deliveries(gate.core, "github"))
    assert gate.post(given) == "repeated"
    assert gate.waiting() == []


def test_an_old_delivery_is_forgotten(gate: Gate) -> None:
    given = labelled(gate)
    gate.post(given)
    done = open_deliveries(gate.core, "github")
    gate.clock.advance(us=REMEMBERED_US + 1)
    close_deliveries(gate.core, "github", done)
    assert gate.post(given) == "accepted"


@pytest.mark.parametrize(
    "change",
    [
        {"x-hub-signature-256": ""},
        {"x-hub-signature-256": "sha256=" + "0" * 64},
        {"x-hub-signature-256": "sha256=é"},
    ],
)
def test_a_forged_delivery_is_refused(gate: Gate, change: dict[str, str]) -> None:
    given = labelled(gate)
    with pytest.raises(Unauthorized, match="not signed"):
        gate.post(Delivery({**given.headers, **change}, given.body))
    with pytest.raises(Unauthorized):
        gate.post(Delivery(given.headers, given.body + b" "))
    assert gate.waiting() == []


def _refused(gate: Gate, given: Delivery, kind: type[DetentError]) -> str:
    with pytest.raises(kind) as raised:
        gate.post(given)
    assert gate.waiting() == []
    return f"{raised.value.message} {raised.value.hint}"


def test_an_unknown_repository_is_named(gate: Gate) -> None:
    given = delivery(SECRET, "issues", {"repository": {"full_name": "other/app"}})
    message = _refused(gate, given, NotFound)
    assert "'other/app' is not configured" in message
    assert "Add other/app=INTENT to github.repositories" in message


def test_a_body_that_is_not_json_and_a_delivery_without_id_are_refused(gate: Gate) -> None:
    given = delivery(SECRET, "issues", {"repository": {"full_name": "acme/app"}})
    without = {**given.headers, "x-github-delivery": "../x"}
    assert "has no id" in _refused(gate, Delivery(without, given.body), Invalid)


def test_without_a_secret_nothing_is_accepted(gate: Gate) -> None:
    given = labelled(gate)
    gate.core.settings = Settings(github_repositories=("acme/app=fix",))
    assert "github.webhook_secret is not set" in _refused(gate, given, NotFound)


def test_a_ping_is_ignored(gate: Gate) -> None:
    assert gate.post(delivery(SECRET, "ping", {"zen": "Keep it simple."})) == "ignored"


@pytest.mark.parametrize(
    ("event", "payload", "named"),
    [
        ("push", {"ref": "refs/heads/main"}, {"branches": ("main",)}),
        ("status", {"branches": [{"name": "x"}, 3]}, {"branches": ("x",)}),
        ("check_run", {"check_run": {"check_suite": {"head_branch": "x"}}}, {"branches": ("x",)}),
        (
            "pull_request",
            {"pull_request": {"number": 3, "head": {"ref": "x"}}},
            {"branches": ("x",), "requests": (3,)},
        ),
        ("issue_comment", {"issue": {"number": 3}}, {"issues": (3,)}),
        ("issue_comment", {"issue": {"number": 3, "pull_request": {}}}, {"requests": (3,)}),
        ("issues", {"issue": {"number": True}}, {}),
        ("issues", {"issue": [], "pull_request": {"head": {"ref": {}}}}, {}),
    ],
)
def test_what_a_delivery_names(
    gate: Gate, event: str, payload: dict[str, object], named: dict[str, Any]
) -> None:
    gate.post(delivery(SECRET, event, {"repository": {"full_name": "acme/app"}, **payload}))
    assert gate.waiting() == [Named("acme/app", **named)]


def test_the_gateway_receives_deliveries_over_http(gate: Gate, tmp_path: Path) -> None:
    settings = gate.core.settings
    chosen = {name: getattr(settings, name) for name in settings.__slots__ if "github_" in name}
    with installed(tmp_path / "gateway", **chosen) as gateway:
        url = f"http://127.0.0.1:{gateway.port}/hooks/github"

        def sent(given: Delivery) -> httpx2.Response:
            headers = {"Content-Type": "application/json", **given.headers}
            return httpx2.post(url, content=given.body, headers=headers)

        given = labelled(gate)
        forged = given._replace(body=given.body.replace(b"b is wrong", b"c is wrong"))
        assert sent(forged).status_code == 401
        assert open_deliveries(gateway.core, "github") == []
        answers = [sent(given) for _ in range(2)]
        assert [each.status_code for each in answers] == [202, 202]
        assert [each.json()["status"] for each in answers] == ["accepted", "repeated"]
        (waiting,) = open_deliveries(gateway.core, "github")
        assert waiting.named.repo == "acme/app"
