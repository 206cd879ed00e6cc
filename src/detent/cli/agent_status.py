"""The agents of an installation: whether each is installed, its version, and how it signs in.

Reads the environment and the agents' configuration directories, never the secrets themselves.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from detent.app.agent_config import Agent, agent_from
from detent.app.agent_presets import CREDENTIALS, PRESETS
from detent.errors import DetentError
from detent.intent_config import agents_from, intents_from
from detent.redaction import resolve
from detent.settings import Loaded

#: How long a program may take to report its version.
VERSION_WITHIN_S = 30.0
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-+.][0-9A-Za-z.]+)?")


class AgentStatus(NamedTuple):
    """One agent. `signed_in` is None if detent does not know how this program signs in."""

    name: str
    preset: str
    program: str
    path: str | None
    version: str | None
    signed_in: bool | None
    credential: str | None
    intents: tuple[str, ...]


def agent_statuses(loaded: Loaded, *, versions: bool = True) -> list[AgentStatus]:
    """The configured agents and all presets with a program, by name."""
    tables = agents_from(loaded.tables)
    named = {each for each in PRESETS if "argv" in PRESETS[each]} | set(tables)
    return [_status(each, tables, loaded, versions=versions) for each in sorted(named)]


def _status(
    name: str, tables: Mapping[str, Mapping[str, Any]], loaded: Loaded, *, versions: bool
) -> AgentStatus:
    agent = agent_from(name, tables)
    preset = str(tables.get(name, {}).get("preset", name if name in PRESETS else "plain"))
    program = str(agent.argv[0])
    path = shutil.which(program)
    known = CREDENTIALS.get(preset) if program == PRESETS[preset].get("argv", [None])[0] else None
    directory = loaded.settings.data_dir / "agents" / name
    credential = None if known is None else _credential(agent, known, directory)
    return AgentStatus(
        name,
        preset,
        program,
        path,
        _version(path) if versions and path is not None else None,
        None if known is None else credential is not None,
        credential,
        tuple(_users(name, loaded)),
    )


def _credential(agent: Agent, known: Mapping[str, Any], directory: Path) -> str | None:
    """What the agent signs in with: a variable that it gets, or a file that it has written."""
    variables: Sequence[str] = known["variables"]
    for variable in variables:
        if variable in agent.secrets:
            return variable if _resolves(agent, variable) else None
        if agent.variables.get(variable):
            return variable
        if variable in agent.environment and os.environ.get(variable):
            return variable
    files = [directory / each for each in known["files"]]
    return next((str(each) for each in files if each.is_file()), None)


def _resolves(agent: Agent, variable: str) -> bool:
    try:
        return bool(resolve(agent.secrets[variable], f"agents.{agent.name}.secrets.{variable}"))
    except (DetentError, OSError):
        return False


def _users(name: str, loaded: Loaded) -> Iterator[str]:
    for intent, row in intents_from(loaded.tables).items():
        if row.get("agent") == name:
            yield intent


def _version(path: str) -> str | None:
    """What the program reports with `--version`; None if it reports nothing in time."""
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    found = VERSION.search(done.stdout)
    return None if found is None or done.returncode else found[0]


def how_to_sign_in(agent: AgentStatus, data_dir: Path) -> str:
    """What a person does so that the agent can sign in."""
    known = CREDENTIALS[agent.preset]
    directory = data_dir / "agents" / agent.name
    variables = {**PRESETS[agent.preset].get("variables", {})}
    shown = " ".join(
        f"{name}={value.replace('{config_dir}', str(directory))}"
        for name, value in variables.items()
        if "{config_dir}" in value
    )
    return (
        f"Sign in: {shown} {known['sign_in']}; or set a secret: [agents.{agent.name}] "
        f'secrets = {{ {known["variables"][0]} = "env:NAME" }}'
    )
