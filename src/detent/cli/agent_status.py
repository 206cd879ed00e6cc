"""The agents of an installation: whether each is installed, its version, and how it signs in.

Reads the environment and the agents' configuration directories, never the secrets themselves.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from detent.app.agent_config import Agent, agent_from
from detent.app.agent_presets import CREDENTIALS, PRESETS
from detent.errors import DetentError
from detent.intent_config import agents_from, intents_from
from detent.provider_config import Account, Provider, providers_from
from detent.redaction import resolve
from detent.settings import Loaded

#: How long a program may take to report its version.
VERSION_WITHIN_S = 5.0
VERSION = re.compile(r"\d+\.\d+(?:\.\d+)?(?:[-+.][0-9A-Za-z.]+)?")


class AgentStatus(NamedTuple):
    """One agent. `signed_in` is None if detent does not know how this program signs in."""

    name: str
    preset: str
    program: str
    path: str | None
    version: str | None
    #: Why the program has reported no version.
    version_error: str | None
    signed_in: bool | None
    credential: str | None
    intents: tuple[str, ...]


class Version(NamedTuple):
    """The version that a program reports, or why it reports none."""

    number: str | None = None
    problem: str | None = None


def agent_statuses(loaded: Loaded, *, versions: bool = True) -> list[AgentStatus]:
    """The configured agents and all presets with a program, by name."""
    tables = agents_from(loaded.tables)
    named = {each for each in PRESETS if "argv" in PRESETS[each]} | set(tables)
    found = [_status(each, tables, loaded) for each in sorted(named)]
    paths = sorted({each.path for each in found if each.path is not None}) if versions else []
    if not paths:
        return found
    with ThreadPoolExecutor(len(paths)) as threads:
        reported = dict(zip(paths, threads.map(_version, paths), strict=True))
    return [_with_version(each, reported) for each in found]


def _with_version(status: AgentStatus, reported: Mapping[str, Version]) -> AgentStatus:
    if status.path is None:
        return status
    version = reported[status.path]
    return status._replace(version=version.number, version_error=version.problem)


def _status(name: str, tables: Mapping[str, Mapping[str, Any]], loaded: Loaded) -> AgentStatus:
    agent = agent_from(name, tables)
    preset = str(tables.get(name, {}).get("preset", name if name in PRESETS else "plain"))
    program = str(agent.argv[0])
    path = shutil.which(program)
    known = CREDENTIALS.get(preset) if program == PRESETS[preset].get("argv", [None])[0] else None
    directory = loaded.settings.data_dir / "agents" / name
    credential = None
    if known is not None:
        credential = _credential(agent, known, directory) or _of_providers(name, loaded)
    return AgentStatus(
        name,
        preset,
        program,
        path,
        None,
        None,
        None if known is None else credential is not None,
        credential,
        tuple(_rows(name, loaded)),
    )


def _credential(agent: Agent, known: Mapping[str, Any], directory: Path) -> str | None:
    """What the agent signs in with: a variable that it gets, or a file that it has written."""
    variables: Sequence[str] = known["variables"]
    for variable in variables:
        if variable in agent.secrets:
            where = f"agents.{agent.name}.secrets.{variable}"
            return variable if unresolved(agent.secrets[variable], where) is None else None
        if agent.variables.get(variable):
            return variable
        if variable in agent.environment and os.environ.get(variable):
            return variable
    files = [directory / each for each in known["files"]]
    return next((str(each) for each in files if each.is_file()), None)


def _of_providers(name: str, loaded: Loaded) -> str | None:
    """The providers that give the agent its key, if each of its intents has one that can."""
    providers = providers_from(loaded.tables)
    found: dict[str, None] = {}
    for row in _rows(name, loaded).values():
        named = [providers[each] for each in row.get("providers", ()) if each in providers]
        able = [each.name for each in named if _gives_key(each)]
        if not able:
            return None
        found |= dict.fromkeys(able)
    return f"provider {', '.join(found)}" if found else None


def _gives_key(provider: Provider) -> bool:
    """Whether an agent needs nothing else: with a personal account it signs in itself."""
    return provider.account is not Account.PERSONAL and not key_problems(provider)


def key_problems(provider: Provider) -> list[str]:
    """Why secrets of a provider cannot be resolved here."""
    where = f"providers.{provider.name}.secrets"
    found = (unresolved(text, f"{where}.{name}") for name, text in provider.secrets.items())
    return [each for each in found if each is not None]


def unresolved(reference: str, where: str) -> str | None:
    """Why a reference to a secret cannot be resolved; None if it can."""
    try:
        resolve(reference, where)
    except DetentError as error:
        return error.message
    return None


def _rows(name: str, loaded: Loaded) -> dict[str, Mapping[str, Any]]:
    """The intents of an agent."""
    found = intents_from(loaded.tables).items()
    return {intent: row for intent, row in found if row.get("agent") == name}


def _version(path: str) -> Version:
    """What the program reports with `--version`, or why it reports none."""
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
    except subprocess.TimeoutExpired:
        return Version(problem=f"no answer within {VERSION_WITHIN_S:g} s")
    except OSError as error:
        return Version(problem=f"not started: {error.strerror}")
    if done.returncode:
        return Version(problem=f"exit code {done.returncode}")
    found = VERSION.search(done.stdout)
    return Version(problem="no number in its output") if found is None else Version(found[0])


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
