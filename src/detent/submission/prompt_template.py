"""Prompt templates of agents: `{title}`, `{payload}` and `{payload.field}` in a text."""

import json
import re
from collections.abc import Mapping
from typing import Any

from detent.errors import Invalid

DEFAULT_PROMPT = "{title}\n\n{payload}"
PLACEHOLDER = re.compile(r"\{(title|payload(?:\.[A-Za-z_][A-Za-z0-9_-]*)*)\}")


def check_template(template: object, where: str) -> str:
    """The template; Invalid if it is not a text or has an unknown placeholder."""
    if not isinstance(template, str) or not template.strip():
        raise Invalid(
            f"{where} must be a string, not {template!r:.80}.", field=where, given=template
        )
    for found in re.finditer(r"\{((?:payload|title)\b[^{}]*)\}", template):
        if PLACEHOLDER.fullmatch(found[0]) is None:
            raise Invalid(
                f"{where}: {found[0]} is not a placeholder. Use {{payload}}, {{payload.field}} or "
                "{title}.",
                field=where,
                given=found[0],
            )
    return template


def fields_schema(template: str) -> dict[str, Any] | None:
    """A JSON Schema of the fields of the payload that the template names.

    None if it names none, or takes the whole payload: then the payload may be anything.
    """
    named = [found[1].split(".") for found in PLACEHOLDER.finditer(template)]
    fields = [path[1:] for path in named if path[0] == "payload"]
    if not all(fields):
        return None
    names = dict.fromkeys(path[0] for path in fields)
    nested = {path[0] for path in fields if len(path) > 1}
    kinds = {name: {"type": "object"} if name in nested else {"type": "string"} for name in names}
    return {"type": "object", "properties": kinds, "required": list(names)} if names else None


def fill_template(template: str, payload: Any, title: str) -> str:
    """The template with the payload and the title in place of its placeholders."""
    return PLACEHOLDER.sub(lambda found: _value(found[1], payload, title), template).strip()


def _value(path: str, payload: Any, title: str) -> str:
    if path == "title":
        return title
    value = payload
    for name in path.split(".")[1:]:
        if not isinstance(value, Mapping) or name not in value:
            raise Invalid(f"{path} is missing, and the prompt needs it.", field=path)
        value = value[name]
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
