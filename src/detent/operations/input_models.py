"""The input of an operation: reads it from JSON or a query string, and describes it as JSON Schema.

Both are made from the parameters of the operation's function and from the table of `Input`s. The
gateway reads requests with it and writes its OpenAPI document; MCP describes its tools with it.
"""

from collections.abc import Iterable, Mapping
from functools import cached_property
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from detent.errors import Invalid
from detent.operations.parameters import Input, input_for
from detent.operations.registry import OPERATIONS, Operation
from detent.operations.registry import fields_of as request_fields
from detent.submission.request import convert

Schema = dict[str, Any]

#: Methods whose parameters are in the query string; the others have them in a JSON body.
IN_QUERY = ("GET", "DELETE")
#: The bounds of an `Input` as keywords of JSON Schema, by the type that they apply to.
KEYWORDS: Mapping[str, Mapping[str, str]] = {
    "string": {"minLength": "shortest", "maxLength": "longest", "pattern": "pattern"},
    "array": {"minItems": "shortest", "maxItems": "longest"},
    "integer": {"minimum": "least", "maximum": "most"},
    "number": {"minimum": "least", "maximum": "most"},
}


class Field(NamedTuple):
    """One parameter: its type and default, and its meaning and bounds."""

    parameter: Parameter
    known: Input

    @property
    def name(self) -> str:
        return self.parameter.name

    @property
    def required(self) -> bool:
        return self.parameter.default is Parameter.empty


def fields_for(operation: Operation, parameters: Iterable[Parameter]) -> tuple[Field, ...]:
    return tuple(Field(each, input_for(operation.name, each.name)) for each in parameters)


class InputModel:
    """Fields by name. `read` refuses a missing, an unknown or a wrong one."""

    def __init__(self, name: str, fields: Iterable[Field]) -> None:
        self.name = name
        self.fields = tuple(fields)

    @cached_property
    def struct(self) -> type[Struct]:
        """A msgspec type with these fields; made when the first input is read."""
        fields: list[Any] = [
            (each.name, _bounded(each), *(() if each.required else (each.parameter.default,)))
            for each in self.fields
        ]
        return msgspec.defstruct(self.name, fields, kw_only=True, forbid_unknown_fields=True)

    def read(self, given: Mapping[str, Any], *, strict: bool = True) -> dict[str, Any]:
        """The arguments that were given. If not `strict`, text is read as numbers and booleans."""
        if not strict:
            self._refuse_null(given)
        found = convert(self.struct, given, strict=strict)
        return {name: getattr(found, name) for name in given}

    def _refuse_null(self, given: Mapping[str, Any]) -> None:
        """In a query string, `null` is a text: only a parameter that takes texts may have it."""
        for each in self.fields:
            value = given.get(each.name)
            if not isinstance(value, str) or value.lower() != "null":
                continue
            if str not in (each.parameter.annotation, *get_args(each.parameter.annotation)):
                raise Invalid(
                    f"{each.name} must not be null. Leave it out instead.",
                    field=each.name,
                    given=value,
                )

    def schema(self) -> Schema:
        made: Schema = {
            "title": self.name,
            "type": "object",
            "properties": {each.name: schema_of(each) for each in self.fields},
            "additionalProperties": False,
        }
        required = [each.name for each in self.fields if each.required]
        return made | ({"required": required} if required else {})


class OperationInput:
    """Every parameter of an operation that is not in its path."""

    def __init__(self, operation: Operation) -> None:
        self.in_query = operation.method in IN_QUERY
        self.fields = fields_for(
            operation, (each for each in operation.parameters if each.name not in operation.in_path)
        )
        self.names = tuple(each.name for each in self.fields)
        self.optional = not any(each.required for each in self.fields)
        self.model = InputModel(model_name(operation), self.fields)

    @property
    def body(self) -> InputModel | None:
        """The model of the request's body, None if the operation has no body."""
        return None if self.in_query or not self.fields else self.model

    def read(self, value: Any) -> dict[str, Any]:
        """The arguments that a query or a body gives; what was not given keeps its default."""
        if isinstance(value, list):
            raise Invalid(
                "The body must be one JSON object, not a list.",
                field="body",
                hint="Send one object in each request; for a list of tasks, use POST /api/bulk.",
            )
        if not isinstance(value, dict):
            raise Invalid("The body must be one JSON object.", field="body", given=value)
        return self._read(value)

    def _read(self, value: dict[str, Any]) -> dict[str, Any]:
        return self.model.read(value, strict=not self.in_query)


class SubmissionInput(OperationInput):
    """The input of a submission: described here, its shape is checked by `submission.request`."""

    def _read(self, value: dict[str, Any]) -> dict[str, Any]:
        return value


class BulkInput(OperationInput):
    """A list of submissions as the whole body; `submission.request` checks each of them."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation)
        assert operation.request is not None
        (self.listed,) = self.fields
        task = OPERATIONS["submit_task"]
        self.model = InputModel(
            model_name(task), fields_for(task, request_fields(operation.request))
        )
        self.optional = False

    def read(self, value: Any) -> dict[str, Any]:
        if isinstance(value, list):
            return {self.listed.name: value}
        raise Invalid("The body must be a list of tasks.", field="body", given=value)


def input_of(operation: Operation) -> OperationInput:
    """The input of an operation."""
    if operation.whole is not None:
        return BulkInput(operation)
    return OperationInput(operation) if operation.request is None else SubmissionInput(operation)


def model_name(operation: Operation) -> str:
    return "".join(part.capitalize() for part in operation.name.split("_")) + "Body"


# ---- types with bounds -----------------------------------------------------------------------


def _bounded(field: Field) -> Any:
    """The parameter's type with its bounds; those of an optional one are of what it may be."""
    known = field.known
    bounds = {
        "min_length": known.shortest,
        "max_length": known.longest,
        "ge": known.least,
        "le": known.most,
        "pattern": known.pattern,
    }
    found: dict[str, Any] = {name: value for name, value in bounds.items() if value is not None}
    annotation = field.parameter.annotation
    if not found:
        return annotation
    if get_origin(annotation) not in (Union, UnionType):
        return Annotated[annotation, Meta(**found)]
    (kind,) = (each for each in get_args(annotation) if each is not NoneType)
    return Annotated[kind, Meta(**found)] | None


# ---- JSON Schema -----------------------------------------------------------------------------


def schema_of(field: Field) -> Schema:
    """The JSON Schema of a parameter, with its meaning, example, bounds and default."""
    schema = msgspec.json.schema(field.parameter.annotation)
    for branch in (schema, *schema.get("anyOf", ())):
        _add_bounds(branch, field.known)
    schema["description"] = field.known.meaning
    if field.known.example is not None:
        schema["examples"] = [field.known.example]
    if field.known.choices:
        schema["enum"] = list(field.known.choices)
    schema |= field.known.schema
    if not field.required and field.parameter.default is not None:
        schema["default"] = field.parameter.default
    return schema


def _add_bounds(schema: Schema, known: Input) -> None:
    if schema.get("type") == "array":
        schema.setdefault("items", {})
    for keyword, bound in KEYWORDS.get(str(schema.get("type")), {}).items():
        value = getattr(known, bound)
        if value is not None:
            schema[keyword] = value
