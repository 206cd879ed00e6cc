"""Real ACP agents: how a test configures them, and how their model calls their tools."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agent_clis.cli_profile import KEY, Table, Wanted
from tools import acp_adapters
from verification.model_apis.anthropic_messages import AnthropicMessages
from verification.model_apis.model_script import Call, ModelApi
from verification.model_apis.openai_responses import OpenaiResponses


@dataclass(frozen=True)
class AcpAgent:
    """One agent. Its model needs permission to write a file."""

    name: str
    argv: Callable[[], list[str]]
    variables: Callable[[Wanted], Mapping[str, str]]
    api: Callable[[], ModelApi]
    write: Callable[[Path, str], Call]
    secrets: Mapping[str, str] = field(default_factory=dict)
    mode: str | None = None

    def agent(self, wanted: Wanted) -> Table:
        return {
            "preset": "acp",
            "argv": self.argv(),
            "variables": dict(self.variables(wanted)),
            "secrets": dict(self.secrets),
            **({"mode": self.mode} if self.mode is not None else {}),
        }


def _claude(wanted: Wanted) -> Mapping[str, str]:
    return {
        "ANTHROPIC_BASE_URL": wanted.url,
        "CLAUDE_CODE_EXECUTABLE": str(acp_adapters.program("claude")),
        "CLAUDE_CONFIG_DIR": "{config_dir}",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION": "false",
        "DISABLE_AUTOUPDATER": "1",
    }


def _codex(wanted: Wanted) -> Mapping[str, str]:
    provider = {
        "name": "local",
        "base_url": f"{wanted.url}/v1",
        "env_key": "CODEX_API_KEY",
        "wire_api": "responses",
    }
    config: dict[str, Any] = {
        "model": "gpt-local",
        "model_provider": "local",
        "model_providers": {"local": provider},
        "approval_policy": "on-request",
        "analytics": {"enabled": False},
    }
    return {
        "CODEX_PATH": str(acp_adapters.program("codex")),
        "CODEX_HOME": "{config_dir}",
        "CODEX_CONFIG": json.dumps(config),
        "MODEL_PROVIDER": "local",
    }


def _codex_write(path: Path, text: str) -> Call:
    """A command that asks to run outside of the sandbox of Codex, for which it needs permission."""
    asked = {"sandbox_permissions": "require_escalated", "justification": f"Write {path.name}?"}
    return Call("exec_command", {"cmd": f"printf '{text}' > {path}", **asked})


def _opencode(wanted: Wanted) -> Mapping[str, str]:
    options = {"baseURL": f"{wanted.url}/v1", "apiKey": KEY}
    config: dict[str, Any] = {
        "model": "anthropic/claude-sonnet-4-5",
        "small_model": "anthropic/claude-sonnet-4-5",
        "provider": {"anthropic": {"options": options}},
        "permission": {"edit": "ask"},
        "autoupdate": False,
        "share": "disabled",
    }
    return {
        "OPENCODE_CONFIG_CONTENT": json.dumps(config),
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        "XDG_DATA_HOME": "{config_dir}",
    }


AGENTS = (
    AcpAgent(
        "claude-acp",
        lambda: acp_adapters.argv("claude-agent-acp"),
        _claude,
        lambda: AnthropicMessages(KEY),
        lambda path, text: Call("Write", {"file_path": str(path), "content": text}),
        {"ANTHROPIC_API_KEY": "env:LOCAL_KEY"},
    ),
    AcpAgent(
        "codex-acp",
        lambda: acp_adapters.argv("codex-acp"),
        _codex,
        lambda: OpenaiResponses(KEY),
        _codex_write,
        {"CODEX_API_KEY": "env:LOCAL_KEY"},
        "workspace-write",
    ),
    AcpAgent(
        "opencode-acp",
        lambda: [str(acp_adapters.program("opencode")), "acp"],
        _opencode,
        lambda: AnthropicMessages(KEY),
        lambda path, text: Call("write", {"filePath": str(path), "content": text}),
    ),
)
