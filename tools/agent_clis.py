"""Installs the agent command lines that the tests run, from npm into `.tools/agents`.

The lock file pins their versions. Only the packages with the programs themselves are installed, not
those that choose one for the platform and start it, and no script of a package is executed. Node is
that of the dashboard.
"""

import json
from pathlib import Path

from tools import web

PACKAGES = web.ROOT / "tools" / "agent_packages"
INSTALLED = web.ROOT / ".tools" / "agents"
#: By command line, the files that start it, one for each platform.
PROGRAMS = {
    "claude": (
        "@anthropic-ai/claude-code-linux-x64/claude",
        "@anthropic-ai/claude-code-linux-arm64/claude",
    ),
    "codex": (
        "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex-linux-arm64/vendor/aarch64-unknown-linux-musl/bin/codex",
    ),
    "opencode": ("opencode-linux-x64-baseline/bin/opencode", "opencode-linux-arm64/bin/opencode"),
    "gemini": ("@google/gemini-cli/bundle/gemini.js",),
}


def install() -> Path:
    """Install what the lock file names, unless it is installed; the directory of the programs."""
    web.install_copy(PACKAGES, INSTALLED, "agent command lines")
    programs = INSTALLED / "bin"
    programs.mkdir(exist_ok=True)
    for name in PROGRAMS:
        _link(programs / name, _file(name))
    return programs


def version(name: str) -> str:
    """The installed version of a command line."""
    folder = _file(name).parent
    while not (folder / "package.json").exists():
        folder = folder.parent
    found = str(json.loads((folder / "package.json").read_text())["version"])
    return found.partition("-linux")[0]


def _file(name: str) -> Path:
    modules = INSTALLED / "node_modules"
    for each in PROGRAMS[name]:
        if (modules / each).exists():
            return modules / each
    raise SystemExit(f"dev: there is no {name} for this platform: it needs Linux on x64 or arm64")


def _link(link: Path, program: Path) -> None:
    """A program of this name: a link, or a script that starts Node."""
    if program.suffix == ".js":
        text = f'#!/bin/sh\nexec "{web.node()}" "{program}" "$@"\n'
        if not link.exists() or link.read_text() != text:
            link.write_text(text)
            link.chmod(0o755)
    elif not link.is_symlink() or link.readlink() != program:
        link.unlink(missing_ok=True)
        link.symlink_to(program)


if __name__ == "__main__":
    install()
