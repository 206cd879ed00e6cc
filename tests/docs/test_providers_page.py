"""The configuration of the page about providers works: a second provider takes over."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from detent.app.app import App
from detent.intent_config import intents_from
from detent.operations.registry import Caller, Scope, call
from detent.provider_config import providers_from
from tests.agents.scene import Scene, Step, scene

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "providers.md"
OPERATOR = Caller("operator", frozenset({Scope.ADMIN}))
LIMIT: list[Step] = [
    {"retry": {"retry_delay_ms": 3_600_000, "error_status": 429}},
    {"api_error": 429},
]
SHOWN = {"echo": ["ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"]}


def tables() -> dict[str, Any]:
    """All tables of the page, as one file."""
    blocks = PAGE.read_text("utf-8").split("```toml\n")[1:]
    return tomllib.loads("\n".join(block.split("```")[0] for block in blocks))


def configured(s: Scene, key: Path) -> None:
    """The providers and intents of the page, with the stand-in for the agent."""
    given = tables()
    given["providers"]["cloud"]["secrets"]["ANTHROPIC_AUTH_TOKEN"] = f"file:{key}"
    s.core.providers = providers_from(given)
    agents = dict.fromkeys(("claude", "stand-in"), s.agent)
    s.app = App.from_config(intents_from(given), agents)


def test_the_second_provider_of_the_page_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEAM_KEY", "the key of the team")
    key = tmp_path / "cloud-key"
    key.write_text("the key of the cloud\n")
    with scene(tmp_path) as s:
        s.script(LIMIT, [SHOWN])
        configured(s, key)
        with s.working():
            s.submit(intent="fixBug")
            s.rests("ready")
            assert [run["error_class"] for run in s.runs()] == ["rate_limit", None]
            assert len({run["session_id"] for run in s.runs()}) == 1
            assert '"ANTHROPIC_BASE_URL": "https://models.example.com"' in s.output()
            assert '"ANTHROPIC_API_KEY": null' in s.output()
            call("reset_resource", s.core, OPERATOR, name="team")
            s.submit(intent="review")
            task = s.rests("blocked")
            assert task.blocked_by == "rate_limit"
            (reason,) = [each for each in s.why() if each["reason"] == "rate_limit"]
            team, cloud = reason["detail"]["providers"]
            assert (team["state"], cloud["state"]) == ("limited", "available")
            assert "detent resources reset team" in reason["how"]
            call("reset_resource", s.core, OPERATOR, name="team")
            s.rests("ready")
        items = call("list_resources", s.core, OPERATOR)["items"]
        states = {each["id"]: each["provider"]["state"] for each in items if each["provider"]}
    assert states == {"cloud": "available", "mine": "available", "team": "available"}
