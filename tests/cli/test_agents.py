"""`detent agents`: programs, versions and credentials, never the secrets; the doctor uses it."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from detent.cli import agent_status
from tests import ports

Run = Callable[..., Result]
SECRET = "sk-a-secret-of-this-test"
CONFIG = """
[intents.fix]
agent = "careful"
prompt = "Fix it."

[agents.careful]
preset = "codex"
secrets = { CODEX_API_KEY = "env:OUR_KEY" }

[agents.own]
argv = ["/opt/own/agent", "{prompt}"]
"""


def program(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    program(folder, "claude", "echo '2.1.326 (Claude Code)'")
    program(folder, "codex", "echo 'codex-cli 0.169.0'")
    program(folder, "gemini", "echo broken >&2; exit 3")
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    for name in ("ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "GEMINI_API_KEY", "OUR_KEY"):
        monkeypatch.delenv(name, raising=False)
    Path("detent.toml").write_text(CONFIG)
    return folder


def listed(run: Run) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in json.loads(run("agents", "--json").stdout)["items"]}


def test_what_is_installed_and_signed_in(
    run: Run, data: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = listed(run)
    assert sorted(found) == ["careful", "claude", "codex", "gemini", "opencode", "own"]
    claude, careful = found["claude"], found["careful"]
    assert (claude["version"], claude["signed_in"]) == ("2.1.326", False)
    assert claude["path"] == str(programs / "claude")
    assert (careful["version"], careful["intents"]) == ("0.169.0", ["fix"])
    assert (careful["signed_in"], careful["credential"]) == (False, None)
    assert (found["gemini"]["version"], found["opencode"]["path"]) == (None, None)
    assert found["gemini"]["version_error"] == "exit code 3"
    assert claude["version_error"] is None
    assert (found["own"]["signed_in"], found["own"]["path"]) == (None, None)

    monkeypatch.setenv("OUR_KEY", SECRET)
    file = data / "agents" / "claude" / ".credentials.json"
    file.parent.mkdir(parents=True)
    file.write_text(SECRET)
    found = listed(run)
    assert found["careful"]["credential"] == "CODEX_API_KEY"
    assert found["claude"]["credential"] == str(file)
    shown = run("agents").stdout
    assert re.search(r"careful +yes +0\.169\.0 +yes", shown)
    assert SECRET not in shown + json.dumps(found)


def test_programs_that_do_not_answer_are_asked_at_the_same_time(
    run: Run, data: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits until the other has begun."""
    monkeypatch.setattr(agent_status, "VERSION_WITHIN_S", 2.0)
    for name, other in (("claude", "codex"), ("codex", "claude")):
        met = f"touch {programs}/began-{name}; until [ -e {programs}/began-{other} ]; do :; done"
        program(programs, name, f"{met}; touch {programs}/met-{name}; exec sleep 600")
    assert "no answer within 2 s" in run("agents").stdout
    assert sorted(each.name for each in programs.glob("met-*")) == ["met-claude", "met-codex"]


def test_the_doctor_says_how_to_sign_in(
    run: Run, data: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finding(code: int) -> dict[str, Any]:
        shown = json.loads(run("doctor", "--json", code=code).stdout)["findings"]
        [found] = [each for each in shown if each["name"] == "agents"]
        return dict(found)

    monkeypatch.setenv("DETENT_GATEWAY_PORT", str(ports.free_port()))
    wrong = finding(1)
    assert (wrong["well"], wrong["what"]) == (False, "careful is not signed in")
    assert f"CODEX_HOME={data / 'agents' / 'careful'} codex login" in wrong["remedy"]
    monkeypatch.setenv("OUR_KEY", SECRET)
    assert finding(0)["what"] == "careful signs in with CODEX_API_KEY"


PROVIDERS = """
[providers.team]
secrets = { ANTHROPIC_API_KEY = "env:TEAM_KEY" }

[providers.person]
account = "personal"

[intents.fix]
agent = "claude"
prompt = "Fix it."
providers = ["team", "person"]
"""


def test_providers_sign_an_agent_in(
    run: Run, data: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def findings(code: int) -> dict[str, bool]:
        shown = json.loads(run("doctor", "--json", code=code).stdout)["findings"]
        named = ("agents", "providers")
        return {each["what"]: each["well"] for each in shown if each["name"] in named}

    monkeypatch.setenv("DETENT_GATEWAY_PORT", str(ports.free_port()))
    Path("detent.toml").write_text(PROVIDERS)
    missing = "The environment variable TEAM_KEY, which providers.team.secrets.ANTHROPIC_API_KEY"
    assert findings(1) == {
        "claude is not signed in": False,
        f"{missing} names, is not set.": False,
        "person has what it needs": True,
    }
    monkeypatch.setenv("TEAM_KEY", SECRET)
    assert findings(0) == {
        "claude signs in with provider team": True,
        "team has what it needs": True,
        "person has what it needs": True,
    }
    assert listed(run)["claude"]["credential"] == "provider team"
    more = '[intents.plain]\nagent = "claude"\nprompt = "Fix it."\n'
    Path("detent.toml").write_text(PROVIDERS + more)
    assert not listed(run)["claude"]["signed_in"], "an intent without providers has no key"


def test_the_doctor_reports_secrets_that_cannot_be_read(
    run: Run, data: Path, programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(code: int) -> list[str]:
        shown = json.loads(run("doctor", "--json", code=code).stdout)["findings"]
        return [each["what"] for each in shown if each["name"] == "secrets"]

    monkeypatch.setenv("DETENT_GATEWAY_PORT", str(ports.free_port()))
    key = tmp_path / "key"
    sign = f'[intents.sign]\ncommand = ["codex"]\nsecrets = {{ SIGNING = "file:{key}" }}\n'
    Path("detent.toml").write_text(CONFIG + sign)
    of_command, of_agent = missing(1)
    assert of_command.startswith(f"{key}, which intents.sign.secrets.SIGNING names, cannot be read")
    assert of_agent == (
        "The environment variable OUR_KEY, which agents.careful.secrets.CODEX_API_KEY names, "
        "is not set."
    )
    monkeypatch.setenv("OUR_KEY", SECRET)
    key.write_text(SECRET)
    assert missing(0) == []
