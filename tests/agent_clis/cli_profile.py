"""What differs between the agent command lines: how a test configures them, and their tools."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from verification.model_apis.anthropic_messages import AnthropicMessages
from verification.model_apis.gemini_generate import GeminiGenerate
from verification.model_apis.model_script import Call, ModelApi
from verification.model_apis.openai_responses import OpenaiResponses

KEY = "sk-local-key-for-tests"
#: Two providers, by name: the key of each.
PROVIDER_KEYS = {"first": "sk-first-key-for-tests", "second": "sk-second-key-for-tests"}
KEYS = (KEY, *PROVIDER_KEYS.values())
DETENT_MCP = [sys.executable, "-m", "detent", "mcp"]
Table = dict[str, Any]
FILES = "files"


@dataclass(frozen=True)
class Wanted:
    """What a case needs of the configuration of an agent."""

    #: The address of the script.
    url: str
    #: Whether the agent may write files and execute commands.
    allowed: bool = True
    max_turns: int | None = None


class Cli(Protocol):
    """One agent command line."""

    name: str
    title: str
    #: By case, why the command line cannot do it.
    unsupported: Mapping[str, str]
    reports_cost: bool
    #: When a tool is refused, it asks a person by detent, goes on, or ends; or the tool is
    #: not offered.
    when_refused: str
    #: Whether its output says when a rate limit ends.
    reports_reset: bool
    #: A text of the API's refusal of each resumed session, if it cannot resume one with tool calls.
    resume_problem: str | None
    #: By case, a remark for the table.
    remarks: Mapping[str, str]

    def api(self) -> ModelApi:
        """The API that its model speaks."""

    def agent(self, wanted: Wanted) -> Table:
        """The table `[agents.NAME]`; `FILES` are those of its configuration directory, by path."""

    def write(self, path: Path, text: str) -> Call:
        """Write a file with the tool for that."""

    def shell(self, command: str) -> Call:
        """Execute a command."""

    def ask(self, text: str, options: list[str]) -> Sequence[Call]:
        """Ask a person with the tool `own_question` of detent."""


@dataclass
class ClaudeCode:
    """Claude Code, with the Messages API."""

    name: str = "claude"
    title: str = "Claude Code"
    unsupported: Mapping[str, str] = field(default_factory=dict)
    reports_cost: bool = True
    when_refused: str = "asks"
    reports_reset: bool = True
    resume_problem: str | None = None
    remarks: Mapping[str, str] = field(default_factory=dict)

    def api(self) -> ModelApi:
        return AnthropicMessages(*KEYS)

    def agent(self, wanted: Wanted) -> Table:
        server = {"command": DETENT_MCP[0], "args": DETENT_MCP[1:]}
        allowed = ["mcp__detent", *(["Write", "Edit", "Bash"] if wanted.allowed else [])]
        return {
            "args": [
                *("--mcp-config", json.dumps({"mcpServers": {"detent": server}})),
                "--strict-mcp-config",
                *("--allowedTools", ",".join(allowed)),
            ],
            "variables": {"ANTHROPIC_BASE_URL": wanted.url},
            "secrets": {"ANTHROPIC_API_KEY": "env:LOCAL_KEY"},
        }

    def write(self, path: Path, text: str) -> Call:
        return Call("Write", {"file_path": str(path), "content": text})

    def shell(self, command: str) -> Call:
        return Call("Bash", {"command": command, "description": "test"})

    def ask(self, text: str, options: list[str]) -> Sequence[Call]:
        tool = "mcp__detent__own_question"
        # Tools of MCP servers are not offered before they are searched for.
        found = Call("ToolSearch", {"query": f"select:{tool}", "max_results": 1})
        return found, Call(tool, {"text": text, "options": options})


NO_COST = "it reports tokens and no cost, so a budget of its task is not enforced while it runs."
NO_TURN_LIMIT = "it has no option for a maximum number of turns; set `timeout_s` instead."
RESET = "status 429 with a reset time"
SILENT = (
    "it reports the refusal and not when the limit ends: detent stops it after "
    "`longest_silent_retry_s` and retries after its own delay."
)
ENDS = "it ends immediately, without asking its model again: the run fails with class `needs_user`."
WHOLE_STORY = "whole story: question, two comments, 429, second provider, merge"
KILLED_STORY = "whole story with SIGKILL of every process, four times"
RESUMING = (
    "question through the MCP tool",
    "SIGKILL in mid-turn, then resume",
    "rejected with two line comments, then resume",
    "cost and tokens of a resumed session counted once",
    WHOLE_STORY,
    KILLED_STORY,
)
NEW_SESSION = (
    "it sends the result of a tool twice when it resumes a session, which the API refuses: detent "
    "continues in a new session, whose prompt has the answer, the comments and what happened."
)
NOT_OFFERED = (
    "it does not offer its model the tools that need an approval: the file is unchanged, and the "
    "task is ready with what the agent writes about it."
)
NOT_REPORTED = (
    "it reports no refusal to detent, only to its model: the file is unchanged, and the task is "
    "ready with what the agent writes about it."
)


@dataclass
class Codex:
    """Codex, with the Responses API."""

    name: str = "codex"
    title: str = "Codex"
    unsupported: Mapping[str, str] = field(
        default_factory=lambda: {"budget": NO_COST, "turn limit": NO_TURN_LIMIT}
    )
    reports_cost: bool = False
    when_refused: str = "goes on"
    reports_reset: bool = True
    resume_problem: str | None = None
    remarks: Mapping[str, str] = field(default_factory=lambda: {"permission refused": NOT_REPORTED})

    def api(self) -> ModelApi:
        return OpenaiResponses(*KEYS)

    def agent(self, wanted: Wanted) -> Table:
        provider = {
            "name": "local",
            "base_url": f"{wanted.url}/v1",
            "env_key": "CODEX_API_KEY",
            "wire_api": "responses",
        }
        settings = {
            "model_provider": '"local"',
            "model_providers.local": _inline(provider),
            "mcp_servers.detent.command": json.dumps(DETENT_MCP[0]),
            "mcp_servers.detent.args": json.dumps(DETENT_MCP[1:]),
            "mcp_servers.detent.env_vars": '["DETENT_URL", "DETENT_TOKEN"]',
            "mcp_servers.detent.required": "true",
            "mcp_servers.detent.startup_timeout_sec": "60",
            "sandbox_mode": '"danger-full-access"' if wanted.allowed else '"read-only"',
            "analytics.enabled": "false",
        }
        return {
            "model": "gpt-local",
            "args": [part for each in settings.items() for part in ("-c", "=".join(each))],
            "secrets": {"CODEX_API_KEY": "env:LOCAL_KEY"},
        }

    def write(self, path: Path, text: str) -> Call:
        lines = "".join(f"+{each}\n" for each in text.splitlines())
        patch = f"*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch"
        return self.shell(f"apply_patch <<'EOF'\n{patch}\nEOF")

    def shell(self, command: str) -> Call:
        return Call("exec_command", {"cmd": command})

    def ask(self, text: str, options: list[str]) -> Sequence[Call]:
        return (Call("mcp__detent.own_question", {"text": text, "options": options}),)


@dataclass
class Opencode:
    """opencode, with the Messages API."""

    name: str = "opencode"
    title: str = "opencode"
    unsupported: Mapping[str, str] = field(default_factory=lambda: {"turn limit": NO_TURN_LIMIT})
    reports_cost: bool = True
    when_refused: str = "ends"
    reports_reset: bool = False
    resume_problem: str | None = None
    remarks: Mapping[str, str] = field(
        default_factory=lambda: {"permission refused": ENDS, RESET: SILENT}
    )

    def api(self) -> ModelApi:
        return AnthropicMessages(*KEYS)

    def agent(self, wanted: Wanted) -> Table:
        model = {
            "name": "model",
            "cost": {"input": 5, "output": 25},
            "limit": {"context": 200_000, "output": 8_000},
            "tool_call": True,
        }
        provider = {
            "npm": "@ai-sdk/anthropic",
            "name": "Local",
            "options": {"baseURL": f"{wanted.url}/v1", "apiKey": "{env:ANTHROPIC_API_KEY}"},
            "models": {"model": model},
        }
        server = {"type": "local", "command": DETENT_MCP, "timeout": 60_000}
        access = "allow" if wanted.allowed else "ask"
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"local": provider},
            "mcp": {"detent": server},
            "permission": {"edit": access, "bash": access, "external_directory": access},
        }
        return {
            "model": "local/model",
            "variables": {
                "OPENCODE_CONFIG_CONTENT": json.dumps(settings),
                "OPENCODE_DISABLE_MODELS_FETCH": "1",
                "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
                "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            },
            "secrets": {"ANTHROPIC_API_KEY": "env:LOCAL_KEY"},
        }

    def write(self, path: Path, text: str) -> Call:
        return Call("write", {"filePath": str(path), "content": text})

    def shell(self, command: str) -> Call:
        return Call("bash", {"command": command, "description": "test"})

    def ask(self, text: str, options: list[str]) -> Sequence[Call]:
        return (Call("detent_own_question", {"text": text, "options": options}),)


@dataclass
class GeminiCli:
    """Gemini CLI, with the Gemini API."""

    name: str = "gemini"
    title: str = "Gemini CLI"
    unsupported: Mapping[str, str] = field(default_factory=lambda: {"budget": NO_COST})
    reports_cost: bool = False
    when_refused: str = "is not offered"
    reports_reset: bool = True
    resume_problem: str | None = "function response parts"
    remarks: Mapping[str, str] = field(
        default_factory=lambda: {
            "permission refused": NOT_OFFERED,
            **dict.fromkeys(RESUMING, NEW_SESSION),
        }
    )

    def api(self) -> ModelApi:
        return GeminiGenerate(*KEYS)

    def agent(self, wanted: Wanted) -> Table:
        server = {"command": DETENT_MCP[0], "args": DETENT_MCP[1:], "trust": True}
        server["env"] = {"DETENT_URL": "$DETENT_URL", "DETENT_TOKEN": "$DETENT_TOKEN"}
        settings: Table = {
            "general": {
                "enableAutoUpdate": False,
                "enableAutoUpdateNotification": False,
                "maxAttempts": 3,
            },
            "privacy": {"usageStatisticsEnabled": False},
            "telemetry": {"enabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "mcpServers": {"detent": server},
        }
        if wanted.max_turns is not None:
            settings["model"] = {"maxSessionTurns": wanted.max_turns}
        return {
            FILES: {".gemini/settings.json": json.dumps(settings)},
            "model": "gemini-2.5-flash",
            "args": ["--approval-mode", "yolo" if wanted.allowed else "default"],
            "variables": {"GOOGLE_GEMINI_BASE_URL": wanted.url},
            "secrets": {"GEMINI_API_KEY": "env:LOCAL_KEY"},
        }

    def write(self, path: Path, text: str) -> Call:
        return Call("write_file", {"file_path": str(path), "content": text})

    def shell(self, command: str) -> Call:
        return Call("run_shell_command", {"command": command})

    def ask(self, text: str, options: list[str]) -> Sequence[Call]:
        return (Call("mcp_detent_own_question", {"text": text, "options": options}),)


def _inline(table: Mapping[str, str]) -> str:
    """An inline table of TOML."""
    return "{" + ", ".join(f"{key} = {json.dumps(value)}" for key, value in table.items()) + "}"


CLIS: tuple[Cli, ...] = (ClaudeCode(), Codex(), Opencode(), GeminiCli())
