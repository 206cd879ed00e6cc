"""What an intent executes, as an app declares it: a function, a command or an agent.

A function can run on a Ray cluster. The worker makes a runner for each (`worker/runners`).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from detent.app.agent_config import Agent
from detent.app.arguments import Parameters
from detent.app.program_options import PLAIN, ProgramOptions
from detent.app.ray_options import RayOptions
from detent.errors import Invalid
from detent.submission.prompt_template import PLACEHOLDER
from detent.submission.schema import Schema

#: An element of a command that is replaced by a field of the payload.
PAYLOAD_FIELD = re.compile(r"\{payload(?:\.[A-Za-z_][A-Za-z0-9_]*)+\}")
#: A JSON Schema of the values that can be an argument of a command.
ARGUMENT = {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """A plain function or, if `asynchronous`, a coroutine function."""

    function: Callable[..., Any]
    parameters: Parameters
    asynchronous: bool


@dataclass(frozen=True, slots=True)
class CommandHandler:
    """An argv list that is executed without a shell."""

    argv: tuple[str, ...]
    #: Names of the environment variables that the command gets; None: those of the settings.
    environment: Sequence[str] | None = None
    directory: str | None = None
    #: Variable to reference: `env:NAME` or `file:/path`, resolved when a run starts.
    secrets: Mapping[str, str] = field(default_factory=dict)
    program: ProgramOptions = PLAIN


@dataclass(frozen=True, slots=True)
class AgentHandler:
    """An agent's command line, and the template of its prompt."""

    agent: Agent
    prompt: str
    #: Its hosts are in addition to those of the agent.
    program: ProgramOptions = PLAIN


@dataclass(frozen=True, slots=True)
class RayHandler:
    """A plain function that a Ray cluster executes. Its nodes import it by name."""

    function: Callable[..., Any]
    parameters: Parameters
    #: `module:name`.
    reference: str
    options: RayOptions


Handler = FunctionHandler | CommandHandler | AgentHandler | RayHandler


def checked_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The argv of a command; Invalid if it is not a list of texts, or misplaces a payload field."""
    texts = isinstance(argv, list | tuple) and all(isinstance(each, str) for each in argv)
    if not texts or not argv or not argv[0]:
        raise Invalid(
            f'command must be a list of strings, as in ["pytest", "-q"], not {argv!r:.80}.',
            field="command",
            given=argv,
        )
    if PAYLOAD_FIELD.fullmatch(argv[0]):
        raise Invalid(
            f"the program of a command must be a fixed text, not {argv[0]}: a payload cannot name "
            "the program.",
            field="command",
            given=argv[0],
        )
    for each in argv:
        if "{payload" in each and not PAYLOAD_FIELD.fullmatch(each):
            raise Invalid(
                f"{{payload.field}} must be a whole element of the command, not a part of "
                f"{each!r}.",
                field="command",
                given=each,
            )
    return tuple(argv)


def argv_schema(argv: Sequence[str]) -> dict[str, Any] | None:
    """A JSON Schema of the payload fields that a command requires; None if it requires none.

    The command can read more fields from its payload file.
    """
    return _requiring([each[1:-1] for each in argv if PAYLOAD_FIELD.fullmatch(each)], ARGUMENT)


def prompt_schema(template: str) -> dict[str, Any] | None:
    """A JSON Schema of the payload fields that a prompt requires; None if it requires none.

    A field can have any value, also null.
    """
    named = [found[1] for found in PLACEHOLDER.finditer(template)]
    return _requiring([each for each in named if each.startswith("payload.")], {})


def _requiring(paths: Sequence[str], value: Schema) -> dict[str, Any] | None:
    """A schema that requires all paths, such as `payload.repo.url`, each with such a value."""
    fields: dict[str, Any] = {}
    for path in paths:
        inner = fields
        for name in path.split(".")[1:]:
            inner = inner.setdefault(name, {})
    return _object_schema(fields, value) if fields else None


def _object_schema(fields: Mapping[str, Any], value: Schema) -> dict[str, Any]:
    """The schema of an object that must have these fields, and what each of them must have."""
    schemas = {
        name: _object_schema(inner, value) if inner else value for name, inner in fields.items()
    }
    return {
        "type": "object",
        "properties": schemas,
        "required": list(fields),
        "additionalProperties": True,
    }
