"""Completes documents of GitLab by the declarations of @gitbeaker/core, and checks them.

A test gives the fields that matter. Every other required field gets a value of its type, so that a
document always has the whole shape that the real server sends.
"""

import copy
import functools
import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema_rs

from tools import gitlab_schemas

Json = dict[str, Any]
NULLABLE: Json = {"type": ["string", "null"]}
#: Where the declarations differ from what GitLab documents and sends, by document and field. None
#: removes a field.
CORRECTIONS: Mapping[str, Mapping[str, Json | None]] = {
    # Null without a value.
    "issue": {"description": NULLABLE, "due_date": NULLABLE},
    # The address is for administrators, the identity for groups with SAML.
    "member": {"expires_at": NULLABLE, "email": None, "group_saml_identity": None},
    # Null without a value, and the states of jobs that wait or are being cancelled.
    "status": {
        "target_url": NULLABLE,
        "description": NULLABLE,
        "status": {
            "enum": [
                *("pending", "running", "success", "failed", "canceled", "created", "skipped"),
                *("waiting_for_resource", "preparing", "manual", "scheduled", "canceling"),
            ]
        },
    },
}
#: A cause that the declarations do not have.
CAUSES = ("conflict",)


@functools.cache
def schemas() -> Mapping[str, Json]:
    """The schema of each document."""
    found: dict[str, Json] = json.loads(gitlab_schemas.install().read_text())["definitions"][
        "Documents"
    ]["properties"]
    for kind, fields in CORRECTIONS.items():
        for name, schema in fields.items():
            if schema is None:
                del found[kind]["properties"][name]
                found[kind]["required"].remove(name)
            else:
                found[kind]["properties"][name] = schema
    for kind in ("request", "listed_request"):
        found[kind]["properties"]["detailed_merge_status"]["enum"] += CAUSES
    return found


def document(kind: str, given: Mapping[str, Any]) -> Json:
    """The given fields with all other required ones; refused if a value has the wrong type."""
    made = _completed(schemas()[kind], given, kind)
    assert isinstance(made, dict)
    check(kind, made)
    return made


def check(kind: str, value: Any) -> None:
    """Raises an error if this is no document of the kind."""
    try:
        _validator(kind).validate(value)
    except jsonschema_rs.ValidationError as error:
        raise AssertionError(f"no {kind} of GitLab: {error}") from None


@functools.cache
def _validator(kind: str) -> Any:
    return jsonschema_rs.Draft7Validator(schemas()[kind])


def options(kind: str) -> frozenset[str]:
    """The names of options; the declarations write them otherwise than the interface."""
    return frozenset(
        re.sub(r"[A-Z]", lambda it: f"_{it[0].lower()}", each) for each in _fields(kind)
    )


def check_options(kind: str, given: Mapping[str, Any]) -> None:
    """Raises an error if an option has a value of the wrong type."""
    named = {re.sub(r"_([a-z])", lambda it: it[1].upper(), name): given[name] for name in given}
    check(kind, named)


def _fields(kind: str) -> Mapping[str, Json]:
    found: Mapping[str, Json] = schemas()[kind]["properties"]
    return found


# ---- completion --------------------------------------------------------------------------------


def _completed(schema: Json, value: Any, where: str) -> Any:
    if isinstance(value, list):
        items = _part(schema, "items")
        return (
            value if items is None else [_completed(items["items"], each, where) for each in value]
        )
    if not isinstance(value, Mapping):
        return value
    chosen = _part(schema, "properties")
    if chosen is None:
        return dict(value)
    made = _template(json.dumps(chosen))
    for name, given in value.items():
        if name not in chosen["properties"]:
            raise KeyError(f"{where} has no field {name}")
        made[name] = _completed(chosen["properties"][name], given, f"{where}.{name}")
    return made


def _part(schema: Json, keyword: str) -> Json | None:
    """The first of the alternatives of a schema that has a keyword."""
    if keyword in schema:
        return schema
    found = (_part(each, keyword) for each in schema.get("anyOf", ()))
    return next(filter(None, found), None)


def _template(schema: str) -> Json:
    return copy.deepcopy(_made(schema))


@functools.cache
def _made(schema: str) -> Json:
    found = json.loads(schema)
    return {name: _value(found["properties"][name]) for name in found.get("required", ())}


def _value(schema: Json) -> Any:
    kinds = schema.get("type", ())
    kinds = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if "anyOf" in schema:
        choices = [_value(each) for each in schema["anyOf"]]
        return None if None in choices else choices[0]
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if "null" in kinds or not kinds:
        return None
    if kinds[0] == "object":
        return _template(json.dumps(schema)) if "properties" in schema else {}
    return {"string": "", "number": 0, "boolean": False, "array": []}[kinds[0]]
