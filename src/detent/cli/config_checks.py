"""What the doctor finds in the configuration: mistakes in it, and what it names and is not there.

Looks only: files and programs are looked for, none is opened or started.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

from detent.app.agent_config import agent_from
from detent.app.app import App
from detent.cli.doctor_checks import Finding
from detent.errors import DetentError, Misconfigured
from detent.intent_config import agents_from, intents_from
from detent.operations.limits import limits_from
from detent.operations.thresholds import check
from detent.settings import Loaded, Settings, load, name
from detent.worker import sandbox

#: Sections whose variables nobody else uses; `DETENT_RUN_ID` and its like are a run's own.
OWN_SECTIONS = {name(each.name).split(".")[0] for each in fields(Settings)} - {"run"}


def configured() -> tuple[Loaded | None, list[Finding]]:
    """The settings, if they can be read, and what is to be said about them."""
    try:
        loaded = load()
        checks: tuple[Callable[[], object], ...] = (
            lambda: check(loaded.settings),
            lambda: App.from_config(_unstarted(loaded), agents_from(loaded.tables)),
            lambda: limits_from(loaded.tables),
        )
        for each in checks:
            each()
    except Misconfigured as error:
        return None, [Finding("configuration", False, error.message, error.hint)]
    where = loaded.file or "no detent.toml here or in a directory above: defaults"
    return loaded, [
        Finding("configuration", True, str(where)),
        *variables(os.environ),
        *programs(loaded),
        *extras(loaded.settings),
        *reachable(loaded.settings),
    ]


def _unstarted(loaded: Loaded) -> dict[str, Mapping[str, Any]]:
    """The intents, without those whose code would have to be imported."""
    rows = intents_from(loaded.tables)
    return {intent: row for intent, row in rows.items() if "app" not in row}


def variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """A misspelt variable is ignored by everything else, and its author never hears of it."""
    known = {f"DETENT_{each.name.upper()}" for each in fields(Settings)}
    for variable in sorted(environment.keys() - known):
        section = variable.removeprefix("DETENT_").split("_")[0].lower()
        if variable.startswith("DETENT_") and section in OWN_SECTIONS:
            what = f"{variable} is set, and there is no such setting"
            yield Finding("variables", False, what, "Look for its name in: detent config show")


def programs(loaded: Loaded) -> Iterator[Finding]:
    """Programs that intents of the file start; the starter's agents are there to be chosen from."""
    wanted: dict[str, list[str]] = defaultdict(list)
    agents = agents_from(loaded.tables)
    for intent, row in intents_from(loaded.tables).items() if "intents" in loaded.tables else ():
        for program in _started(row, agents):
            wanted[program].append(intent)
    for program, intents in sorted(wanted.items()):
        found = shutil.which(program)
        what = f"{program} is at {found}" if found else f"{program} is not found on PATH"
        remedy = f"Install it, or change {', '.join(f'[intents.{each}]' for each in intents)}."
        yield Finding("programs", found is not None, what, remedy)
    try:
        sandbox.check(loaded.settings)
    except DetentError as error:
        yield Finding("programs", False, error.message, error.hint)


def _started(row: Mapping[str, Any], agents: Mapping[str, Any]) -> Iterator[str]:
    """What an intent starts, as far as its first word is no placeholder."""
    argv = agent_from(row["agent"], agents).argv if "agent" in row else row.get("command", ())
    if argv and isinstance(argv[0], str) and "{" not in argv[0]:
        yield argv[0]
    if row.get("workspace") == "worktree":
        yield "git"


def extras(settings: Settings) -> Iterator[Finding]:
    """Packages that a setting asks for. The store's own driver is missed when it is opened."""
    if settings.traces_enabled and find_spec("opentelemetry") is None:
        what = "traces.enabled is true, and OpenTelemetry is not installed"
        yield Finding("extras", False, what, "pip install 'detent[otel]'")


def reachable(settings: Settings) -> Iterator[Finding]:
    """A gateway that others may reach answers only to the names that it was given."""
    if settings.gateway_public and not settings.gateway_hosts:
        what = "gateway.public is true, and gateway.hosts names no host that others would ask for"
        yield Finding("hosts", False, what, 'Set gateway.hosts, like ["detent.example.com"].')
