"""The OpenAPI document: what FastAPI makes of the routes, with errors, examples and security."""

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from detent.error_codes import CODES
from detent.gateway.auth import COOKIE
from detent.gateway.problems import EXPLAINED, MEDIA_TYPE, Problem

Json = dict[str, Any]

DESCRIPTION = """\
Every path needs a token in the header `Authorization: Bearer …`, except `/health` and `/ready`.
What a token may do stands in its record on the server; each path names the scope that it asks for.
Errors are problem documents (RFC 9457) whose `code` does not change between versions.

`/api/feed` is a WebSocket: every event of the log from a cursor on, in order. Each frame is a JSON
array of messages with a `type`: `hello` and `cursor` carry where to go on from, `event` is an event
of the log, `task_completed` and `task_question` say what a person waits for, `resync` is the last
word to a reader that was too slow. `/api/events` has the same messages as server-sent events.
"""
#: Errors that a request can meet whatever it asks for, and what else it can meet.
ALWAYS = ("unauthorized", "forbidden", "wrong_host", "internal", "unavailable")
WITH_BODY = ("unreadable", "body_timeout", "too_large", "wrong_media_type")

#: Where an answer holds an id: its status, the parameter that asks for it, the place.
LINKS: Mapping[str, tuple[str, str, str]] = {
    "submit_task": ("201", "task_id", "/id"),
    "submit_job": ("201", "job_id", "/id"),
}

#: Examples of answers by the name of the field; anything else gets one by its type.
EXAMPLES: Mapping[str, Any] = {
    "id": "019a8b7cz4f8h2m5n9q1r3t6vw",
    "taskId": "019a8b7cz4f8h2m5n9q1r3t6vw",
    "task_id": "019a8b7cz4f8h2m5n9q1r3t6vw",
    "root_id": "019a8b7cz4f8h2m5n9q1r3t6vw",
    "stream": "019a8b7cz4f8h2m5n9q1r3t6vw",
    "job_id": "019a8b7cz4f8h2m5n9q1r3t6vw-j1",
    "run_id": "019a8b7cz4f8h2m5n9q1r3t6vw-j1-r1",
    "project": "demo",
    "lifecycle": "review",
    "state": "ready",
    "status": "todo",
    "intent": "runQA",
    "source": "api",
    "priority": "P2",
    "title": "Check the release",
    "actor": "owner",
    "created_by": "owner",
    "worker": "host:4711",
    "verdict": "ok",
    "name": "demo",
    "scopes": ["read", "submit"],
    "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "file": "QA-DECISION.md",
    "kind": "qa_report",
    "media_type": "text/markdown",
    "token": "detent_…",
    "code": "detent_…",
}


def responses(codes: tuple[str, ...]) -> dict[int | str, Json]:
    """The error answers of a route, by status; each status stands for its commonest code."""
    return {CODES[code].status: {"description": CODES[code].meaning} for code in codes}


def _share_problems(document: Json) -> None:
    """Error answers are the same everywhere: each stands once among the components."""
    shared: Json = {}
    for path in document["paths"].values():
        for operation in path.values():
            for status in operation["responses"]:
                if status >= "4":
                    shared[status] = _problem_response(operation["responses"][status])
                    operation["responses"][status] = {"$ref": f"#/components/responses/{status}"}
    document["components"]["responses"] = shared


def _problem_response(known: Json) -> Json:
    (code,) = (code for code, row in CODES.items() if row.meaning == known["description"])
    schema = {"$ref": "#/components/schemas/Problem"}
    content = {MEDIA_TYPE: {"schema": schema, "example": _problem(code)}}
    return {"description": known["description"], "content": content}


def _problem(code: str) -> Json:
    row = CODES[code]
    return {
        "type": EXPLAINED + code,
        "title": row.meaning,
        "status": row.status,
        "detail": row.why,
        "code": code,
        "hint": row.remedy,
        "request_id": "019a8b7d01kq4x7y9z2b5c8d0e",
    }


def openapi(app: FastAPI, version: str) -> Json:
    """The whole document."""
    document: Json = get_openapi(
        title="detent",
        version=version,
        summary="Durable tasks, jobs and runs whose every change of state is an event in one log.",
        description=DESCRIPTION,
        routes=app.routes,
    )
    schemas = document["components"]["schemas"]
    problem = TypeAdapter(Problem).json_schema()
    problem["required"] = ["type", "title", "status", "detail", "code", "request_id"]
    problem["additionalProperties"] = True
    schemas["Problem"] = problem
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
    }
    document["security"] = [{"token": []}, {"session": []}]
    for path in document["paths"].values():
        for operation in path.values():
            _say_absent(operation)
            _add_examples(operation, schemas)
    _share_problems(document)
    _link(document)
    return document


def _link(document: Json) -> None:
    """Say which answers hold the ids that other paths ask for."""
    by_name = {
        operation["operationId"]: operation
        for path in document["paths"].values()
        for operation in path.values()
    }
    for name, (status, parameter, place) in LINKS.items():
        wanting = [
            each
            for each, operation in by_name.items()
            if any(
                given["in"] == "path" and given["name"] == parameter
                for given in operation.get("parameters", ())
            )
        ]
        by_name[name]["responses"][status]["links"] = {
            each: {"operationId": each, "parameters": {parameter: f"$response.body#{place}"}}
            for each in wanting
        }


def _say_absent(operation: Json) -> None:
    """A parameter that is not given is absent, never null."""
    for parameter in operation.get("parameters", ()):
        schema = parameter["schema"]
        kinds = [each for each in schema.pop("anyOf", ()) if each != {"type": "null"}]
        if len(kinds) == 1:
            schema.update(kinds[0])
        elif kinds:
            schema["anyOf"] = kinds


def _add_examples(operation: Json, schemas: Json) -> None:
    """One example for each body that goes in or out well."""
    body = operation.get("requestBody", {}).get("content", {})
    for media in body.values():
        media.setdefault("example", example(media["schema"], schemas, required_only=True))
    for status, response in operation["responses"].items():
        for media in response.get("content", {}).values():
            if status.startswith("2") and media.get("schema"):
                media.setdefault("example", example(media["schema"], schemas))


def example(schema: Json, schemas: Json, *, name: str = "", required_only: bool = False) -> Any:
    """A value that fits a schema."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "examples" in schema:
        return schema["examples"][0]
    if name in EXAMPLES and "properties" not in schema and "items" not in schema:
        return EXAMPLES[name]
    if "anyOf" in schema:
        return example(schema["anyOf"][-1], schemas)
    return _by_type(schema, schemas, name, required_only)


def _by_type(schema: Json, schemas: Json, name: str, required_only: bool) -> Any:
    kind = schema.get("type")
    if "properties" in schema:
        wanted = list(schema["properties"])
        if required_only:
            wanted = schema.get("required") or wanted[:1]
        return {each: example(schema["properties"][each], schemas, name=each) for each in wanted}
    if kind == "array":
        if name in EXAMPLES:
            return EXAMPLES[name]
        return [example(schema["items"], schemas, required_only=required_only)]
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if kind == "string":
        return "2030-01-01T12:00:00.000Z" if name.endswith(("_at", "_before")) else "text"
    values: Mapping[Any, Any] = {"integer": 1, "number": 0.5, "boolean": False, "object": {}}
    return values.get(kind)
