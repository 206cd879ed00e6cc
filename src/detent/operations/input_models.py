"""Builds the pydantic model of an operation's input from the signature of its function.

The same model parses requests, is part of the OpenAPI document and describes the MCP tools. Only
the gateway and MCP import it: a command of the CLI does not wait for pydantic.
"""

import re
from collections.abc import Mapping
from inspect import Parameter
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from detent.errors import Invalid
from detent.operations.parameters import Input, input_for
from detent.operations.registry import OPERATIONS, Operation
from detent.operations.registry import fields_of as request_fields
from detent.submission.request import missing_fields

#: Methods whose parameters are in the query string; the others have them in a JSON body.
IN_QUERY = ("GET", "DELETE")
#: The begin of pydantic's messages, which is replaced by the name of the field.
_SUBJECT = re.compile(r"^\w+ should ")


class Fields:
    """The input of an operation except the parameters in the path."""

    def __init__(self, operation: Operation) -> None:
        self.in_query = operation.method in IN_QUERY
        self.parameters = tuple(
            each for each in operation.parameters if each.name not in operation.in_path
        )
        self.names = tuple(each.name for each in self.parameters)
        self.optional = all(each.default is not Parameter.empty for each in self.parameters)
        self.model = model_for(operation, self.parameters, strict=not self.in_query)

    @property
    def body(self) -> Any:
        """The type of the request's body, None if it has none."""
        return None if self.in_query or not self.parameters else self.model

    def read(self, value: Any) -> dict[str, Any]:
        """The arguments from a query or a body; missing ones keep their defaults."""
        if isinstance(value, list):
            raise Invalid(
                "The body must be one JSON object, not a list.",
                field="body",
                hint="Send one at a time; a list of tasks goes to POST /api/bulk.",
            )
        return self._read(value)

    def _read(self, value: Any) -> dict[str, Any]:
        try:
            found = self.model.model_validate(value)
        except ValidationError as error:
            raise invalid(error, self.names) from None
        return {name: getattr(found, name) for name in found.model_fields_set}


class Requested(Fields):
    """The input of a submission: documented here, checked by `submission.request`."""

    def _read(self, value: Any) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise Invalid("The body must be one JSON object.", field="body", given=value)


class Whole(Fields):
    """A list of submissions as the whole body; `submission.request` checks each."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation)
        assert operation.request is not None
        (parameter,) = self.parameters
        self._name = parameter.name
        item = model_for(OPERATIONS["submit_task"], request_fields(operation.request), strict=True)
        listed = parameter.replace(annotation=list[item])  # type: ignore[valid-type]
        self._type = annotated(listed, input_for(operation.name, parameter.name))
        self.optional = False

    @property
    def body(self) -> Any:
        return self._type

    def read(self, value: Any) -> dict[str, Any]:
        if isinstance(value, list):
            return {self._name: value}
        raise Invalid("The body must be a list of tasks.", field="body", given=value)


def fields_of(operation: Operation) -> Fields:
    if operation.whole is not None:
        return Whole(operation)
    return Fields(operation) if operation.request is None else Requested(operation)


def model_for(
    operation: Operation, parameters: tuple[Parameter, ...], *, strict: bool
) -> type[BaseModel]:
    """A model with these parameters, which refuses unknown ones."""
    fields: dict[str, Any] = {
        each.name: (
            annotated(each, input_for(operation.name, each.name)),
            ... if each.default is Parameter.empty else each.default,
        )
        for each in parameters
    }
    config = ConfigDict(extra="forbid", strict=strict)
    name = "".join(part.capitalize() for part in operation.name.split("_"))
    return create_model(name + "Body", __config__=config, **fields)


def annotated(parameter: Parameter, known: Input) -> Any:
    """The type of a parameter with its description and bounds."""
    return Annotated[parameter.annotation, Field(**bounds(known))]


def bounds(known: Input) -> dict[str, Any]:
    """The arguments of pydantic's `Field` for a parameter."""
    limits: Mapping[str, Any] = {
        "min_length": known.shortest,
        "max_length": known.longest,
        "ge": known.least,
        "le": known.most,
        "pattern": known.pattern,
    }
    found = {name: value for name, value in limits.items() if value is not None}
    found["description"] = known.meaning
    if known.example is not None:
        found["examples"] = [known.example]
    choices = {"enum": list(known.choices)} if known.choices else {}
    if choices or known.schema:
        found["json_schema_extra"] = {**choices, **known.schema}
    return found


# ---- validation errors -----------------------------------------------------------------------


def invalid(error: ValidationError, known: tuple[str, ...]) -> Invalid:
    """The error for an invalid input: every missing field, or else the first wrong field."""
    flaws = error.errors(include_url=False, include_context=False)
    missing = [_place(flaw["loc"]) for flaw in flaws if flaw["type"] == "missing"]
    if missing:
        return missing_fields(missing)
    first = flaws[0]
    field = _place(first["loc"]) or "body"
    kind = first["type"]
    if kind == "extra_forbidden":
        listed = ", ".join(known) or "none"
        return Invalid(
            f"{field} is not a known field; known are: {listed}.", field=field, allowed=known
        )
    wanted = _SUBJECT.sub("must ", first["msg"])
    words = f"{field} {wanted}" if wanted != first["msg"] else f"{field}: {wanted}"
    return Invalid(f"{words}.", field=field, given=first["input"])


def _place(location: tuple[int | str, ...]) -> str:
    place = ""
    for part in location:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += f".{part}" if place else part
    return place
