"""Intents that are offered to other agents: as tools over MCP and as skills over A2A."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from detent.errors import Invalid
from detent.kernel import document_fields
from detent.submission.context import Intents
from detent.submission.payload import ARGUMENTS
from detent.submission.schema import Schema

#: In the row of an intent: how it is offered, and what it does.
TOOL, DESCRIPTION = "tool", "description"
#: The names that both protocols allow.
NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
LONGEST_DESCRIPTION = 2_000
ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


class TaskSupport(StrEnum):
    """Whether a call of the tool becomes a task of the protocol, which the client polls."""

    #: If the client supports tasks; otherwise the call returns when the work has ended.
    OPTIONAL = "optional"
    #: Always: a client without tasks is refused.
    REQUIRED = "required"
    #: Never: the call returns when the work has ended.
    FORBIDDEN = "forbidden"


class OfferedIntent(NamedTuple):
    """An intent that other agents can call."""

    name: str
    description: str
    #: A JSON Schema of the payload.
    arguments: Mapping[str, Any]
    tasks: TaskSupport


def offered_intents(intents: Intents) -> list[OfferedIntent]:
    """The intents whose rows say that they are offered, by name."""
    return [
        OfferedIntent(
            name,
            row.get(DESCRIPTION) or name,
            row.get(ARGUMENTS, ANY_OBJECT),
            TaskSupport(row[TOOL]),
        )
        for name, row in sorted(intents.items())
        if row.get(TOOL) is not None
    ]


def check_offer(
    intent: str, tool: Any, description: Any = None, arguments: Schema | None = None
) -> None:
    """Refuse an offer that the protocols cannot express."""
    where = f"intent {intent}"
    if description is not None:
        document_fields.text(description, f"{where}: {DESCRIPTION}", LONGEST_DESCRIPTION)
    if tool is None:
        return
    document_fields.choice(tool, f"{where}: {TOOL}", TaskSupport)
    if not NAME.fullmatch(intent):
        raise Invalid(
            f"{where} cannot be offered as a tool: the name of a tool has at most 128 letters, "
            "digits and the characters _ . - only.",
            field=TOOL,
            given=intent,
        )
    if (arguments or ANY_OBJECT).get("type") != "object":
        raise Invalid(
            f"{where} cannot be offered as a tool: its payload must be an object with named "
            "fields. Give the handler a parameter for each field.",
            field=TOOL,
            given=intent,
        )
