"""Installs the conformance tests of the Model Context Protocol, from npm into `.tools/mcp`."""

from tools import web

PACKAGES = web.ROOT / "tools" / "mcp_packages"
INSTALLED = web.ROOT / ".tools" / "mcp"
PROGRAM = "@modelcontextprotocol/conformance/dist/index.js"


def install() -> None:
    """Install what the lock file names, unless it is installed."""
    web.install_copy(PACKAGES, INSTALLED, "conformance tests of MCP")


def argv(*arguments: str) -> list[str]:
    """How the program is started: with the Node of the dashboard."""
    return [str(web.node()), str(INSTALLED / "node_modules" / PROGRAM), *arguments]


if __name__ == "__main__":
    install()
