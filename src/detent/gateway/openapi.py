"""Generates the OpenAPI document from the documentation that every route carries."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from inspect import cleandoc
from typing import Any, Protocol

import msgspec

from detent.error_codes import CODES
from detent.gateway.auth import COOKIE
from detent.gateway.problems import EXPLAINED, MEDIA_TYPE, Problem
from detent.operations import schemas as response_schemas
from detent.operations.input_models import Field, InputModel, schema_of

Json = dict[str, Any]

DESCRIPTION = """\
Every path needs a token in the header `Authorization: Bearer …`, except `/health` and `/ready`.
The token's record on the server holds its scopes; each path names the scope that it needs.
Errors are problem documents (RFC 9457) whose `code` does not change between versions.

`/api/feed` is a WebSocket that sends every event of the log after a cursor, in order. Each frame is
a JSON array of messages with a `type`: `hello` and `cursor` carry the cursor to resume from,
`event` is an event of the log, `task_completed` says that a task has ended or stopped,
`task_question` that it has a question, and `resync` is the last message to a reader that was too
slow. `/api/events` has the same messages as server-sent events.
"""
#: Errors that any request can get, and those that any request with a body can get.
ALWAYS = ("unauthorized", "forbidden", "wrong_host", "internal", "unavailable")
WITH_BODY = ("unreadable", "body_timeout", "too_large", "wrong_media_type")

#: Operations whose response holds an id: its status, the parameter that takes the id, its pointer.
LINKS: Mapping[str, tuple[str, str, str]] = {
    "submit_task": ("201", "task_id", "/id"),
    "submit_job": ("201", "job_id", "/id"),
}

#: Examples by the name of the field; any other field gets one by its type.
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


REFERENCE = "#/components/schemas/{name}"
ERROR = "#/components/responses/"
JSON_MEDIA_TYPE = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Documentation:
    """What the document says about one route."""

    operation_id: str
    summary: str
    tag: str
    description: str = ""
    parameters: tuple[Json, ...] = ()
    #: The JSON body as a model, or any other body as an OpenAPI object.
    body: "JsonBody | Json | None" = None
    status: int = 200
    #: The type of the JSON response; other responses are in `responses`.
    response_type: Any = None
    response_description: str = "Successful Response"
    responses: Mapping[int, Json] = field(default_factory=dict)
    errors: tuple[str, ...] = ALWAYS
    #: Whether the route needs no credentials.
    public: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonBody:
    """A JSON body: one object of the model, or a list of them as `listed` describes it."""

    model: InputModel
    required: bool = True
    listed: Field | None = None


def parameter(place: str, name: str, schema: Json, *, required: bool = False) -> Json:
    """A parameter of the path, the query string or the headers. An absent one is never null."""
    kinds = [each for each in schema.get("anyOf", ()) if each != {"type": "null"}]
    if kinds:
        (kind,) = kinds
        schema = {**kind, **{key: value for key, value in schema.items() if key != "anyOf"}}
    description = schema.get("description", "")
    return {
        "name": name,
        "in": place,
        "required": required,
        "schema": schema,
        "description": description,
    }


def field_parameter(place: str, field: Field, name: str | None = None) -> Json:
    """The parameter of a field of an operation's input."""
    required = place == "path" or (place == "query" and field.required)
    return parameter(place, name or field.name, schema_of(field), required=required)


class DocumentedRoute(Protocol):
    """A route that the document describes."""

    method: str
    #: The path without the types of its parameters.
    path_format: str
    documentation: Documentation | None


def document(routes: Iterable[DocumentedRoute], version: str) -> Json:
    """The whole document."""
    shown = [(each, each.documentation) for each in routes if each.documentation is not None]
    types = [doc.response_type for _, doc in shown if doc.response_type is not None]
    (_, *found), schemas = msgspec.json.schema_components([Problem, *types], ref_template=REFERENCE)
    for name, schema in schemas.items():
        _restore_declared_form(name, schema)
    schemas["Problem"]["required"] = ["type", "title", "status", "detail", "code", "request_id"]
    schemas["Problem"]["additionalProperties"] = True
    schemas |= {
        doc.body.model.name: doc.body.model.schema()
        for _, doc in shown
        if isinstance(doc.body, JsonBody)
    }
    responses = iter(found)
    paths: dict[str, Json] = {}
    for route, doc in shown:
        schema = None if doc.response_type is None else next(responses)
        operation = paths.setdefault(route.path_format, {})[route.method.lower()] = _operation(
            doc, schema
        )
        _add_examples(operation, schemas)
    _add_links([each for path in paths.values() for each in path.values()])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "detent",
            "summary": "Durable tasks, jobs and runs. Every change of state is an event in a log.",
            "description": DESCRIPTION,
            "version": version,
        },
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "responses": _error_responses(doc for _, doc in shown),
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "session": {"type": "apiKey", "in": "cookie", "name": COOKIE},
            },
        },
        "security": [{"token": []}, {"session": []}],
    }


def _restore_declared_form(name: str, schema: Json) -> None:
    """Put the fields in their declared order, which msgspec sorts, and unindent the docstring."""
    declared = getattr(response_schemas, name, Problem).__annotations__
    properties = schema["properties"]
    schema["properties"] = {each: properties[each] for each in declared}
    schema["required"] = [each for each in declared if each in schema.get("required", ())]
    if "description" in schema:
        schema["description"] = cleandoc(schema["description"])


def _operation(doc: Documentation, response_schema: Json | None) -> Json:
    content = {} if response_schema is None else {JSON_MEDIA_TYPE: {"schema": response_schema}}
    success = {"description": doc.response_description, **({"content": content} if content else {})}
    made: Json = {
        "tags": [doc.tag],
        "summary": doc.summary,
        "description": doc.description,
        "operationId": doc.operation_id,
        "parameters": list(doc.parameters),
        "requestBody": _request_body(doc.body),
        "responses": {
            str(doc.status): success,
            **{str(status): response for status, response in doc.responses.items()},
            **{str(status): {"$ref": ERROR + str(status)} for status in _statuses(doc)},
        },
    }
    made = {name: value for name, value in made.items() if value}
    return made | ({"security": []} if doc.public else {})


def _request_body(body: JsonBody | Json | None) -> Json | None:
    if not isinstance(body, JsonBody):
        return body
    schema: Json = {"$ref": REFERENCE.format(name=body.model.name)}
    if body.listed is not None:
        schema = {**schema_of(body.listed), "items": schema}
    content = {JSON_MEDIA_TYPE: {"schema": schema}}
    return {"content": content, **({"required": True} if body.required else {})}


# ---- errors ----------------------------------------------------------------------------------


def _statuses(doc: Documentation) -> list[int]:
    return list(dict.fromkeys(CODES[code].status for code in doc.errors))


def _error_responses(documented: Iterable[Documentation]) -> Json:
    """Error responses are the same for every operation: one for each status, by its main code."""
    codes = {str(CODES[code].status): code for doc in documented for code in doc.errors}
    schema = {"$ref": REFERENCE.format(name="Problem")}
    return {
        status: {
            "description": CODES[code].meaning,
            "content": {MEDIA_TYPE: {"schema": schema, "example": _problem(code)}},
        }
        for status, code in codes.items()
    }


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


# ---- links and examples ----------------------------------------------------------------------


def _add_links(operations: Iterable[Json]) -> None:
    """Say which responses hold the ids that other operations take in their path."""
    by_name = {each["operationId"]: each for each in operations}
    for name, (status, parameter_name, pointer) in LINKS.items():
        takers = [
            each
            for each, operation in by_name.items()
            if any(
                (given["in"], given["name"]) == ("path", parameter_name)
                for given in operation.get("parameters", ())
            )
        ]
        by_name[name]["responses"][status]["links"] = {
            each: {"operationId": each, "parameters": {parameter_name: f"$response.body#{pointer}"}}
            for each in takers
        }


def _add_examples(operation: Json, schemas: Json) -> None:
    """One example for each request body and each response that is not an error."""
    body = operation.get("requestBody", {}).get("content", {})
    for media in body.values():
        if "example" not in media:
            media["example"] = example(media["schema"], schemas, required_only=True)
    for status, response in operation["responses"].items():
        for media in response.get("content", {}).values():
            if status.startswith("2") and media.get("schema") and "example" not in media:
                media["example"] = example(media["schema"], schemas)


def example(schema: Json, schemas: Json, *, name: str = "", required_only: bool = False) -> Any:
    """A value that fits a schema."""
    if "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    if "examples" in schema:
        return schema["examples"][0]
    if name in EXAMPLES and not {"properties", "items", "enum"} & schema.keys():
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
