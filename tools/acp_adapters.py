"""Installs adapters for the Agent Client Protocol, from npm into `.tools/acp`, for the tests.

The adapters start the command lines that `agent_clis` installs, so their own copies of those, which
are optional dependencies, are left out.
"""

from pathlib import Path

from tools import agent_clis, web

PACKAGES = web.ROOT / "tools" / "acp_packages"
INSTALLED = web.ROOT / ".tools" / "acp"
PROGRAMS = {
    "claude-agent-acp": "@agentclientprotocol/claude-agent-acp/dist/index.js",
    "codex-acp": "@agentclientprotocol/codex-acp/dist/index.js",
}


def install() -> None:
    """Install what the lock file names, and the command lines, unless they are installed."""
    agent_clis.install()
    web.install_copy(PACKAGES, INSTALLED, "adapters for ACP", "--omit=optional")


def argv(name: str) -> list[str]:
    """How an adapter is started: with the Node of the dashboard."""
    return [str(web.node()), str(INSTALLED / "node_modules" / PROGRAMS[name])]


def program(name: str) -> Path:
    """A command line that an adapter starts."""
    return agent_clis.INSTALLED / "bin" / name


if __name__ == "__main__":
    install()
