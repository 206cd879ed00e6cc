"""Checks of `detent doctor` on the configuration: mistakes, and missing programs and packages.

The checks do not change anything and do not start any program.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from detent.app import configured_intents
from detent.app.agent_config import agent_from
from detent.cli.agent_status import agent_statuses, how_to_sign_in, key_problems, unresolved
from detent.cli.finding import Finding
from detent.errors import DetentError, Misconfigured
from detent.intent_config import agents_from, intents_from
from detent.lifecycle_config import lifecycle_files
from detent.limit_config import limits_from
from detent.provider_config import providers_from
from detent.settings import Loaded, Settings, name
from detent.settings_loader import load
from detent.submission.workspace_options import has_branch
from detent.thresholds import check
from detent.worker import sandbox

#: Sections whose environment variables are settings; `DETENT_RUN_…` variables belong to a run.
OWN_SECTIONS = {name(each.name).split(".")[0] for each in fields(Settings)} - {"run"}
SET_SECRET = "Set it for the worker, which resolves it when a run starts."


def check_configuration() -> tuple[Loaded | None, list[Finding]]:
    """Load the settings and check them; the settings are None if they are invalid."""
    try:
        loaded = load()
        checks: tuple[Callable[[], object], ...] = (
            lambda: check(loaded.settings),
            lambda: configured_intents.check(
                intents_from(loaded.tables), agents_from(loaded.tables)
            ),
            lambda: providers_from(loaded.tables),
            lambda: limits_from(loaded.tables),
            lambda: lifecycle_files(loaded.tables, loaded.file),
        )
        for each in checks:
            each()
    except Misconfigured as error:
        return None, [Finding("configuration", False, error.message, error.hint)]
    where = loaded.file or "no detent.toml in this directory or above it; the defaults apply"
    return loaded, [
        Finding("configuration", True, str(where)),
        *variables(os.environ),
        *programs(loaded),
        *agents(loaded),
        *providers(loaded),
        *secrets(loaded),
        *extras(loaded),
        *reachable(loaded.settings),
    ]


def variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Report DETENT_ variables that are no settings; they are misspelt and have no effect."""
    known = {f"DETENT_{each.name.upper()}" for each in fields(Settings)}
    for variable in sorted(environment.keys() - known):
        section = variable.removeprefix("DETENT_").split("_")[0].lower()
        if variable.startswith("DETENT_") and section in OWN_SECTIONS:
            what = f"the environment variable {variable} is set, but no setting has this name"
            yield Finding(
                "variables",
                False,
                what,
                "Correct its name, or unset it. All settings: detent config show",
            )


def programs(loaded: Loaded) -> Iterator[Finding]:
    """Check that the programs of the configured intents, and of the sandbox, are installed."""
    wanted: dict[str, list[str]] = defaultdict(list)
    agents = agents_from(loaded.tables)
    for intent, row in intents_from(loaded.tables).items() if "intents" in loaded.tables else ():
        for program in _started(row, agents):
            wanted[program].append(intent)
    for program, intents in sorted(wanted.items()):
        found = shutil.which(program)
        what = f"{program} is at {found}" if found else f"{program} was not found on PATH"
        verb = "Install it"
        if found is None and Path(program).is_file():
            what, verb = f"{program} is not executable", f"Run chmod +x {program}"
        remedy = f"{verb}, or change {', '.join(f'[intents.{each}]' for each in intents)}."
        yield Finding("programs", found is not None, what, remedy)
    try:
        sandbox.check(loaded.settings)
    except DetentError as error:
        yield Finding("programs", False, error.message, error.hint)


def agents(loaded: Loaded) -> Iterator[Finding]:
    """Check that the agents of the configured intents are signed in; `programs` finds the rest."""
    used = agent_statuses(loaded, versions=False) if "intents" in loaded.tables else ()
    for each in used:
        if not each.intents or each.path is None or each.signed_in is None:
            continue
        what = f"{each.name} signs in with {each.credential}"
        if not each.signed_in:
            what = f"{each.name} is not signed in"
        remedy = how_to_sign_in(each, loaded.settings.data_dir)
        yield Finding("agents", each.signed_in, what, remedy)


def providers(loaded: Loaded) -> Iterator[Finding]:
    """Check that the keys of the providers can be read."""
    for each in providers_from(loaded.tables).values():
        problems = key_problems(each)
        what = " ".join(problems) or f"{each.name} has what it needs"
        yield Finding("providers", not problems, what, SET_SECRET)


def secrets(loaded: Loaded) -> Iterator[Finding]:
    """Report the secrets of commands, and of the agents of intents, that cannot be read."""
    rows = intents_from(loaded.tables) if "intents" in loaded.tables else {}
    tables = agents_from(loaded.tables)
    owners = {f"intents.{intent}": row.get("secrets", {}) for intent, row in rows.items()}
    for agent in sorted({row["agent"] for row in rows.values() if "agent" in row}):
        owners[f"agents.{agent}"] = agent_from(agent, tables).secrets
    for owner, references in owners.items():
        for variable, reference in references.items():
            problem = unresolved(reference, f"{owner}.secrets.{variable}")
            if problem is not None:
                yield Finding("secrets", False, problem, SET_SECRET)


def _started(row: Mapping[str, Any], agents: Mapping[str, Any]) -> Iterator[str]:
    """The programs that an intent starts, unless the program is a placeholder."""
    argv = agent_from(row["agent"], agents).argv if "agent" in row else row.get("command", ())
    if "image" in row:
        yield sandbox.PODMAN  # the program itself is in the image
    elif argv and isinstance(argv[0], str) and "{" not in argv[0]:
        yield argv[0]
    if has_branch(row):
        yield "git"


def extras(loaded: Loaded) -> Iterator[Finding]:
    """Check the optional packages that are needed; opening the store checks its driver."""
    if loaded.settings.traces_enabled and find_spec("opentelemetry") is None:
        what = "traces.enabled is true, but OpenTelemetry is not installed"
        yield Finding("extras", False, what, "Install it: pip install 'detent[otel]'")
    for agent in _acp_agents(loaded) if find_spec("acp") is None else ():
        what = f"the agent {agent} speaks ACP, but agent-client-protocol is not installed"
        yield Finding("extras", False, what, "Install it: pip install 'detent[acp]'")


def _acp_agents(loaded: Loaded) -> list[str]:
    """The agents of intents that speak the Agent Client Protocol."""
    rows = intents_from(loaded.tables).values() if "intents" in loaded.tables else ()
    used, tables = {row["agent"] for row in rows if "agent" in row}, agents_from(loaded.tables)
    return [each for each in sorted(used) if agent_from(each, tables).protocol == "acp"]


def reachable(settings: Settings) -> Iterator[Finding]:
    """Check that a public gateway has host names; it refuses requests for other names."""
    if settings.gateway_public and not settings.gateway_hosts:
        what = "gateway.public is true, but gateway.hosts is empty, so requests by name are refused"
        yield Finding("hosts", False, what, 'Set gateway.hosts, like ["detent.example.com"].')
