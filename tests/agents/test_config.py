"""Agents as configured: `[agents.NAME]`, argv with places, prompts; slips are named by place."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from detent.app.agent_config import agent_from, filled
from detent.app.agent_presets import PRESETS
from detent.app.app import App
from detent.app.handlers import AgentHandler
from detent.errors import Invalid, Misconfigured
from detent.intent_config import STARTER, agents_from, intents_from
from detent.submission.prompt_template import fields_schema, fill_template
from detent.worker.runners.agent.exit_status import end_of
from detent.worker.runners.agent.output_parser import Reader
from detent.worker.runners.agent.prompt import (
    LONGEST_ARGUMENT,
    as_argument,
    opening,
    too_long,
)
from detent.worker.runners.agent.session_history import Moment, Past
from tests.agents.scene import Scene

VALUES: dict[str, Any] = {
    "prompt": "do it",
    "session_id": "s-1",
    "args": ("--allowedTools", "Bash"),
}


def test_claudes_argv_for_a_new_session_and_for_one_that_goes_on() -> None:
    argv = agent_from("claude", {}).argv
    begun = ["claude", "-p", "do it", "--output-format", "stream-json", "--verbose"]
    tools = ["--allowedTools", "Bash"]
    assert filled(argv, VALUES) == [*begun, "--session-id", "s-1", *tools]
    resumed = {**VALUES, "session_id": None, "resume_id": "s-1", "budget": "1.50", "model": "m"}
    money = ["--max-budget-usd", "1.50", "--model", "m"]
    assert filled(argv, resumed) == [*begun, "--resume", "s-1", *money, *tools]


def test_another_command_line_is_configuration() -> None:
    argv = agent_from("codex", {}).argv
    resumed = {**VALUES, "resume_id": "t-9"}
    assert filled(argv, resumed) == [
        *("codex", "exec", "resume", "t-9", "--json", "--skip-git-repo-check"),
        *("--allowedTools", "Bash", "do it"),
    ]
    own = {"preset": "claude", "argv": ["my-agent", "{prompt}"], "model": "small"}
    mine = agent_from("mine", {"mine": own})
    assert (mine.name, mine.model, mine.cost_counts) == ("mine", "small", "run")
    assert mine.variables["DISABLE_AUTOUPDATER"] == "1"


@pytest.mark.parametrize("name", [name for name in PRESETS if name not in ("plain", "acp")])
def test_every_preset_can_be_used_as_it_is(name: str) -> None:
    assert agent_from(name, {}).argv[0] == name


@pytest.mark.parametrize(
    ("table", "text"),
    [
        ({"argv": "claude -p"}, "agents.x.argv must be a list"),
        ({"argv": []}, "agents.x.argv must be a list"),
        ({"argv": ["{prompt}"]}, r"agents.x.argv\[0\] must be the program"),
        (
            {"argv": ["a", "--p={prompt}"]},
            r"agents.x.argv\[1\] must be a placeholder as an element",
        ),
        ({"argv": ["a", "{payload}"]}, r"agents.x.argv\[1\] must be one of prompt"),
        ({"argv": ["a", ["b", 3]]}, r"agents.x.argv\[1\] must be a string"),
        ({"argv": ["a"], "retries": 3}, "agents.x.retries is not known"),
        ({"argv": ["a"], "preset": "best"}, "agents.x.preset must be one of acp, claude"),
        ({"argv": ["a"], "denials": "allow"}, "agents.x.denials must be one of fail, ask"),
        ({"argv": ["a"], "permissions": "yes"}, "agents.x.permissions must be one of allow"),
        ({"argv": ["a"], "permission_timeout_s": 0}, "permission_timeout_s must be a number"),
        ({"preset": "acp"}, "agents.x.argv must be a list"),
        ({"argv": ["a"], "quota_mb": -1}, "agents.x.quota_mb must be a whole number"),
        ({"argv": ["a"], "lines": [{"take": "x"}]}, r"agents.x.lines\[0\].take must be one of"),
        ({"argv": ["a"], "lines": [{"take": "cost", "counts": "x"}]}, "counts must be one of"),
        ({"argv": ["a"], "ends": [{"class": "x"}]}, r"agents.x.ends\[0\].class must be one of"),
        ({"argv": ["a"], "ends": [{"when": {"x": 1}}]}, "agents.x.ends"),
        ({"argv": ["a"], "reset_pattern": "("}, "missing \\)"),
        (
            {"argv": ["a"], "reset_pattern": "limit"},
            "agents.x.reset_pattern must be a pattern with",
        ),
        ({"argv": ["a"], "retry_pattern": 5}, "agents.x.retry_pattern must be a string"),
        ({"argv": ["a"], "linger_s": "60"}, "agents.x.linger_s must be a number of seconds"),
        ({"argv": ["a"], "longest_retry_s": True}, "agents.x.longest_retry_s must be a number"),
        ({"argv": ["a"], "longest_silent_retry_s": -1}, "longest_silent_retry_s must be a number"),
        ({"argv": ["a"], "model": 5}, "agents.x.model must be a string"),
        ({"argv": ["a"], "max_turns": "2"}, "agents.x.max_turns must be a whole number"),
        ({"argv": ["a"], "base": 5}, "agents.x.base must be a string"),
        ({"argv": ["a"], "root_is_sandboxed": "yes"}, "root_is_sandboxed must be true or false"),
        ({"argv": ["a"], "lines": [{"take": "text", "joined": 1}]}, "joined must be true or false"),
        ({"argv": ["a"], "environment": "HOME"}, "agents.x.environment must be a list"),
        ({"argv": ["a"], "variables": {"A": 1}}, "agents.x.variables.A must be a string"),
        ({"argv": ["a"], "secrets": {"A": "sk-1234"}}, "never the secret itself"),
    ],
)
def test_a_slip_is_named_by_its_place(table: dict[str, Any], text: str) -> None:
    with pytest.raises(Misconfigured, match=text) as raised:
        agent_from("x", {"x": table})
    assert "sk-1234" not in str(raised.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"model": 5}, "intents.fix.model must be a string"),
        ({"max_turns": 0}, "intents.fix.max_turns must be a whole number"),
        ({"args": "--verbose"}, "intents.fix.args must be a list of strings"),
    ],
)
def test_a_wrong_option_that_an_intent_overrides_is_refused(
    options: dict[str, Any], text: str
) -> None:
    with pytest.raises(Invalid, match=text):
        App().agent("fix", "claude", **options)


@pytest.mark.parametrize(
    ("stated", "reset_at"), [("1700000000", 1_700_000_000_000_000), ("3pm", None)]
)
def test_a_reset_that_is_not_a_unix_time_is_ignored(stated: str, reset_at: int | None) -> None:
    ends = [{"when": {"text": "*limit*"}, "class": "rate_limit"}]
    lines = [{"take": "text", "field": "text"}]
    own = {"argv": ["a"], "reset_pattern": "resets (.+)", "ends": ends, "lines": lines}
    reader = Reader(agent_from("x", {"x": own}))
    reader.read(json.dumps({"text": f"limit reached, resets {stated}"}).encode())
    end = end_of(reader.agent, reader, 1, resumed=False, now=0)
    assert (end.kind, end.reset_at) == ("rate_limit", reset_at)


def test_an_unknown_agent_names_the_known_ones() -> None:
    with pytest.raises(Misconfigured, match="there is no agent 'cluade'") as raised:
        App.from_config({"fix": {"agent": "cluade"}}, {"mine": {"argv": ["a"]}})
    assert "claude, codex, gemini, mine, opencode, plain" in raised.value.hint


def test_the_intents_to_start_with_have_their_agents() -> None:
    app = App.from_config(intents_from({}), agents_from({}))
    assert set(STARTER) <= set(app.intents)
    agents = [name for name, row in STARTER.items() if "agent" in row]
    assert all(isinstance(app.intents[name].handler, AgentHandler) for name in agents)


def test_agents_must_be_tables() -> None:
    with pytest.raises(Misconfigured, match="agents must be tables"):
        agents_from({"agents": ["claude"]})


# ---- prompts ---------------------------------------------------------------------------------


def test_a_prompt_has_the_payload_and_its_fields() -> None:
    payload = {"file": "a.py", "lines": [1, 2], "deep": {"er": "x"}}
    template = "{title}: fix {payload.file} {payload.lines} {payload.deep.er} {curly} {payload}"
    text = fill_template(template, payload, "Title")
    assert text.startswith("Title: fix a.py [\n 1,\n 2\n] x {curly} {")
    assert '"file": "a.py"' in text
    assert fill_template("Do: {payload}", "as I say", "") == "Do: as I say"
    assert fill_template("{title}\n\n{payload}", None, "only a title") == "only a title"


def test_the_fields_that_a_prompt_names_are_a_form() -> None:
    found = fields_schema(
        "{title}: {payload.bug} in {payload.file}, {payload.deep.er} {payload.bug}"
    )
    assert found == {
        "type": "object",
        "properties": {
            "bug": {"type": "string"},
            "file": {"type": "string"},
            "deep": {"type": "object"},
        },
        "required": ["bug", "file", "deep"],
    }
    for anything in ("{title}", "Do: {payload}", "{payload.bug}: {payload}"):
        assert fields_schema(anything) is None


@pytest.mark.parametrize("template", ["", 3, "{payload.}", "{payload[0]}", "{title.x}"])
def test_a_prompt_that_is_none_is_refused_at_the_start(template: Any) -> None:
    with pytest.raises(Invalid, match=r"intents\.fix\.prompt"):
        App().agent("fix", prompt=template)


def test_braces_in_a_payload_are_only_text() -> None:
    assert fill_template("{payload}", "{title} {payload.x}", "T") == "{title} {payload.x}"


def test_an_argument_is_never_an_option_and_never_too_long() -> None:
    assert as_argument("--help") == " --help"
    assert "\0" not in as_argument("a\0b")
    assert as_argument("\ud800") == "?"
    assert too_long("\u00e9" * (LONGEST_ARGUMENT // 2 + 1))
    assert not too_long("x" * LONGEST_ARGUMENT)


def test_a_new_session_gets_what_went_before() -> None:
    moments = (
        Moment("question", "Which?", {"outcome": "answered", "answer": "this"}),
        Moment("failure", "no disk"),
        Moment("rejection", "Too slow."),
    )
    past = Past("s-1", 0, moments[2:], moments, reviews=moments[2:])
    text = opening("Fix it.", past, resumed=False)
    assert text.startswith("Too slow.\n")
    assert text.count("Too slow.") == 1
    alone = Past(None, 0, moments[2:], moments[2:], reviews=moments[2:])
    assert "in a session that is gone.\n\n" in opening("Fix it.", alone, resumed=False)
    assert text.index("Fix it.") < text.index("You asked: Which?") < text.index("no disk")
    assert opening("Fix it.", past, resumed=True).startswith("Too slow.\n")
    assert "Fix it." not in opening("Fix it.", past, resumed=True)


def test_a_very_long_prompt_is_given_as_a_file(s: Scene) -> None:
    s.script([])
    s.submit({"text": "x" * 300_000})
    with s.working():
        s.rests("ready")
    [prompt] = s.prompts()
    file = prompt.removeprefix("Read the file ").removesuffix(" and do what it says.")
    assert Path(file).read_text().startswith("Fix this: {")


def test_the_error_of_missing_tools_names_the_missing_gateway(s: Scene) -> None:
    s.script([{"stderr": "required MCP servers failed to initialize: detent\n"}, {"exit": 1}])
    s.intent(retry={"retries": 0})
    s.submit()
    with s.working():
        s.rests("failed")
    error = s.run()["error"]
    assert "required MCP servers failed" in error
    assert error.endswith("Start one (`detent up` or `detent serve`), then retry.")


def test_the_environment_is_an_allowlist(s: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DETENT_STORE_URL", "postgresql://u:p@h/d")
    monkeypatch.setenv("SECRET_OF_OTHERS", "x")
    monkeypatch.setenv("MY_FLAG", "on")
    names = ["DETENT_STORE_URL", "SECRET_OF_OTHERS", "MY_FLAG", "IS_SANDBOX", "CONFIG", "TMPDIR"]
    s.script([{"echo": names}], environment=["MY_FLAG"], variables={"CONFIG": "{config_dir}/x"})
    s.submit()
    with s.working():
        s.rests("ready")
    data = s.core.settings.data_dir
    for shown in (
        '"DETENT_STORE_URL": null',
        '"SECRET_OF_OTHERS": null',
        '"IS_SANDBOX": null',
        '"MY_FLAG": "on"',
        f'"CONFIG": "{data}/agents/stand-in/x"',
        f'"TMPDIR": "{data}/runs/{s.run()["id"]}/tmp"',
    ):
        assert shown in s.output()


def test_an_agent_has_no_descriptor_of_the_workers(s: Scene) -> None:
    inherited, other = os.pipe()
    os.set_inheritable(inherited, True)
    s.script([{"look": [f"/proc/self/fd/{inherited}", "/proc/self/fd/1"]}])
    s.submit()
    try:
        with s.working():
            s.rests("ready")
    finally:
        os.close(inherited)
        os.close(other)
    assert f'"/proc/self/fd/{inherited}": false, "/proc/self/fd/1": true' in s.output()


def test_root_is_a_sandbox_only_if_it_says_so(s: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    s.script([{"echo": ["IS_SANDBOX"]}], root_is_sandboxed=True)
    s.submit()
    with s.working():
        s.rests("ready")
    assert '"IS_SANDBOX": "1"' in s.output()
