"""`detent webhooks` from making one to deleting it, for people and for programs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from detent.cli.main import cli


@pytest.fixture(autouse=True)
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETENT_STORE_DATA_DIR", str(tmp_path))


def run(*words: str) -> Result:
    return CliRunner().invoke(cli, ["webhooks", *words])


def answer(*words: str) -> dict[str, Any]:
    done = run(*words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_webhook_from_making_to_deleting() -> None:
    assert "No webhooks." in run().output
    made = run("put", "chat", "https://example.org/hook", "--shape", "slack", "--people")
    assert "Key: whsec_" in made.output
    again = run("put", "chat", "https://example.org/other", "--people")
    assert "Key:" not in again.output
    listed = run().output
    assert "https://example.org/other" in listed
    assert "for people" in listed
    assert "chat has no pending deliveries" in run("deliveries", "chat").output
    assert str(answer("test", "chat")["id"]).count("-test-") == 1
    (waiting,) = answer("deliveries", "chat")["items"]
    assert waiting["state"] == "pending"
    assert run("deliveries", "chat").output.splitlines()[1].split()[1:3] == ["pending", "0"]
    assert "Key: whsec_" in run("rotate", "chat", "--overlap-s", "60").output
    assert answer("replay", "chat", "--after", "0")["position"] == 0
    assert "is deleted" in run("delete", "chat").output
    assert answer() == {"items": []}


def test_what_is_wrong_is_reported() -> None:
    assert run("put", "chat", "gopher://x").exit_code == 2
    missing = run("test", "unknown")
    assert missing.exit_code == 3
    assert "unknown_webhook" in missing.output
