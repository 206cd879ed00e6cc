"""Writes the dashboard's types: every shape and operation of the OpenAPI document as TypeScript.

Builds the gateway's application on an empty store in memory; `tools.generate` writes the text.
"""

import json
from collections.abc import Mapping
from typing import Any

from detent.engine import Engine
from detent.gateway.application import make_app
from detent.gateway.openapi import openapi
from detent.operations import OPERATIONS
from detent.operations.context import Core
from detent.store.store_url import open_store

Json = Mapping[str, Any]
FILE = "web/src/api/schema.ts"
HEADER = """\
// Every shape and operation that the gateway's OpenAPI document has. Written by ./dev generate.

"""
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean"}


def text() -> str:
    """The whole module."""
    document = _document()
    shapes = document["components"]["schemas"]
    parts = [HEADER]
    parts += [_shape(name, shapes[name]) for name in sorted(shapes)]
    parts.append(_operations(document))
    return "\n".join(parts)


def _document() -> dict[str, Any]:
    store = open_store("memory:")
    try:
        application, gateway = make_app(Core(store, Engine(store)), [])
        gateway.bridge.close()
        return openapi(application.app, "0")  # type: ignore[attr-defined]
    finally:
        store.close()


def _shape(name: str, schema: Json) -> str:
    note = schema.get("description", "")
    comment = f"/** {' '.join(note.split())} */\n" if note else ""
    return f"{comment}export type {name} = {_type(schema)};\n"


def _type(schema: Json) -> str:
    """A schema as a TypeScript type."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " | ".join(json.dumps(each) for each in schema["enum"])
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type(each) for each in schema["anyOf"]))
    kind = schema.get("type")
    if kind == "array":
        return f"Array<{_type(schema.get('items', {}))}>"
    if kind == "object" or "properties" in schema:
        return _object(schema)
    return "null" if kind == "null" else PLAIN.get(str(kind), "unknown")


def _object(schema: Json) -> str:
    if "properties" not in schema:
        values = schema.get("additionalProperties")
        return f"Record<string, {_type(values) if isinstance(values, Mapping) else 'unknown'}>"
    wanted = schema.get("required", ())
    fields = [
        f"  {name}{'' if name in wanted else '?'}: {_type(each)};"
        for name, each in schema["properties"].items()
    ]
    return "\n".join(["{", *fields, "}"])


# ---- operations ------------------------------------------------------------------------------


def _operations(document: Json) -> str:
    """What each takes and answers as types, and where HTTP finds it as a table."""
    known = {
        operation["operationId"]: (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if operation["operationId"] in OPERATIONS
    }
    types = [f"  {name}: {_ends(known[name][2])};" for name in sorted(known)]
    routes = [
        f'  {name}: ["{known[name][1].upper()}", "{known[name][0]}"],' for name in sorted(known)
    ]
    return "\n".join(
        [
            "/** By operation: what it takes and what it answers. */",
            "export interface Operations {",
            *types,
            "}\n",
            "/** By operation: its method and its path. */",
            "export const ROUTES: Record<keyof Operations, readonly [string, string]> = {",
            *routes,
            "};\n",
        ]
    )


def _ends(operation: Json) -> str:
    takes = [
        f"{each['name']}{'' if each.get('required') else '?'}: {_type(each['schema'])}"
        for each in operation.get("parameters", ())
        if each["in"] in ("path", "query")
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json")
    given = "{ " + "; ".join(takes) + " }" if takes else "object"
    if body is not None:
        given += f" & ({_type(body['schema'])})"
    return f"{{ takes: {given}; answers: {_answer(operation)} }}"


def _answer(operation: Json) -> str:
    for status, response in operation["responses"].items():
        media = response.get("content", {}).get("application/json")
        if status.startswith("2") and media is not None:
            return _type(media["schema"])
    return "unknown"


PAGES = {FILE: text}
