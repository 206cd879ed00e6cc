"""Intents (task types) of a configuration file: `[intents.NAME]` with a command or an agent."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from detent.app.agent_config import agent_from, check_reference, overridden
from detent.app.handlers import AgentHandler, CommandHandler, checked_argv
from detent.app.intent_options import OPTION_NAMES, PLAN, declared_options, registered_already
from detent.app.program_options import (
    LONGEST,
    PROGRAM_OPTIONS,
    ProgramOptions,
    program_options,
)
from detent.errors import Invalid, Misconfigured
from detent.intent_config import KINDS
from detent.kernel import document_fields
from detent.kernel.retry import RULE_FIELDS
from detent.submission.options import OPTIONS
from detent.submission.prompt_template import DEFAULT_PROMPT, check_template
from detent.suggestions import did_you_mean

Table = Mapping[str, Any]

#: Options of an agent that an intent can override.
AGENT_OPTIONS = ("model", "max_turns", "args")
COMMAND_OPTIONS = ("environment", "directory", "secrets")
#: By kind, the keys of a configured intent besides the options of every intent.
KEYS_OF_KIND = {
    "command": (*COMMAND_OPTIONS, *PROGRAM_OPTIONS),
    "agent": ("prompt", *AGENT_OPTIONS, *PROGRAM_OPTIONS),
    "app": (),
}
TASK_KEYS = ("subtask_intents",)


class Configured(NamedTuple):
    """A handler, and the options that every intent can have, not yet checked."""

    handler: CommandHandler | AgentHandler
    options: Table


def command(argv: Any, options: Table) -> Configured:
    """A command with its own options and those of every intent."""
    own, rest = _split(options, COMMAND_OPTIONS)
    if "environment" in own:
        document_fields.texts(own["environment"], "environment", LONGEST)
    if "directory" in own:
        document_fields.text(own["directory"], "directory", LONGEST)
    for name, reference in document_fields.table(own.get("secrets", {}), "secrets").items():
        check_reference(reference, f"secrets.{name}")
    program, rest = _program(rest)
    return Configured(CommandHandler(checked_argv(argv), **own, program=program), rest)


def agent(name: str, agent: str, options: Table, agents: Mapping[str, Table]) -> Configured:
    """An agent with its prompt, the overridden options of the agent, and those of every intent."""
    own, rest = _split(options, AGENT_OPTIONS)
    found = overridden(agent_from(agent, agents), own, f"intents.{name}")
    program, rest = _program(rest)
    template, rest = _split(rest, ("prompt",))
    prompt = check_template(template.get("prompt", DEFAULT_PROMPT), f"intents.{name}.prompt")
    return Configured(AgentHandler(found, prompt, program), rest)


def _program(options: Table) -> tuple[ProgramOptions, dict[str, Any]]:
    """The checked options of a program, and the other options."""
    own, rest = _split(options, PROGRAM_OPTIONS)
    return program_options(**own), rest


def _split(options: Table, names: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options with these names, and the others."""
    own = {name: options[name] for name in names if name in options}
    return own, {name: options[name] for name in options if name not in own}


def from_row(name: str, row: Table, agents: Mapping[str, Table]) -> Configured | str:
    """The intent of `[intents.NAME]`; for one of a Python app, the reference to that app."""
    kind = next(each for each in KINDS if each in row)
    known = {kind, *KEYS_OF_KIND[kind], *OPTION_NAMES, *OPTIONS, *TASK_KEYS}
    if unknown := sorted(row.keys() - known):
        raise Misconfigured(
            f"intents.{name}.{unknown[0]} is not known",
            setting=f"intents.{name}.{unknown[0]}",
            hint=f"{_meant(unknown[0], known)}Known: {', '.join(sorted(known))}.",
        )
    for key in OPTIONS.keys() & row.keys() - {*OPTION_NAMES}:
        OPTIONS[key].check(row[key], f"intent {name}: {key}")
    options = {key: row[key] for key in row if key in {*OPTION_NAMES, *KEYS_OF_KIND[kind]}}
    if kind == "command":
        return command(row["command"], options)
    if kind == "agent":
        named = document_fields.text(row["agent"], f"intent {name}: agent", LONGEST)
        return agent(name, named, options, agents)
    return str(row["app"])


def _meant(key: str, known: Iterable[str]) -> str:
    if key in RULE_FIELDS:  # `max_retries`, the closest name, is for plan steps
        return f"Write retry = {{ {key} = … }}. "
    return did_you_mean(key, known)


def check(intents: Mapping[str, Table], agents: Mapping[str, Table]) -> None:
    """Refuse a configured intent that an app could not register. Imports no Python app."""
    for name, row in intents.items():
        try:
            if name == PLAN:
                raise registered_already(name)
            found = from_row(name, row, agents)
            if isinstance(found, Configured):
                declared_options(name, found.options)
        except Invalid as error:
            raise Misconfigured(error.message, setting=f"intents.{name}") from None
