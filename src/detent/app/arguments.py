"""From a payload to a handler's arguments and back, by the handler's own signature.

A handler with one parameter of a model type (dataclass, msgspec struct, pydantic model) takes the
whole payload; any other takes the payload's fields by name. The parameter `run` takes the run.
"""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, time
from types import CodeType
from typing import Any

import msgspec

from detent.app.values import is_model, restored, storable, unrestorable
from detent.errors import Invalid

RUN = "run"
#: msgspec describes a time that may be without a zone as any text.
TIMES: Mapping[Any, dict[str, Any]] = {
    datetime: {"type": "string", "format": "date-time"},
    time: {"type": "string", "format": "time"},
}
#: The field of errors about a signature.
SIGNATURE = "handler"


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    annotation: Any
    #: `inspect.Parameter.empty` if it must be given.
    default: Any

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def with_default(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Its schema with the default, if that is a number, true or false, or one of a choice.

        Another default may be a secret that the handler has read from its environment.
        """
        known = isinstance(self.default, bool | int | float) or self.default in schema.get(
            "enum", ()
        )
        return {**schema, "default": self.default} if known else schema


class Parameters:
    """The parameters of a handler."""

    def __init__(self, function: Callable[..., Any], run_types: tuple[type, ...] = ()) -> None:
        self.handler = getattr(function, "__qualname__", repr(function))
        self.signature = inspect.signature(function)
        hints = _hints(function, self.handler)
        self.wants_run = False
        self.takes_rest = False
        self.named: list[Parameter] = []
        for parameter in self.signature.parameters.values():
            self._add(parameter, hints.get(parameter.name, Any), run_types)
        self.whole = (
            len(self.named) == 1 and not self.takes_rest and is_model(self.named[0].annotation)
        )

    def _add(self, parameter: inspect.Parameter, annotation: Any, run_types: Any) -> None:
        name = parameter.name
        if name == RUN:
            self._check_run(annotation, run_types)
            self.wants_run = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            self.takes_rest = True
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise self._wrong(f"{name} must be a parameter that can be given by name")
        elif (stranger := unrestorable(annotation)) is not None:
            raise self._wrong(
                f"{name} is annotated with {stranger}, which cannot be made from JSON; use "
                "text, numbers, lists, tables, a dataclass, a msgspec struct or a pydantic model"
            )
        else:
            self.named.append(Parameter(name, annotation, parameter.default))

    def _check_run(self, annotation: Any, run_types: tuple[type, ...]) -> None:
        if annotation is not Any and run_types and annotation not in run_types:
            wanted = " or ".join(each.__name__ for each in run_types)
            raise self._wrong(f"the parameter run takes the run: annotate it with {wanted}")

    def _wrong(self, what: str) -> Invalid:
        return Invalid(f"{self.handler}: {what}.", field=SIGNATURE, given=str(self.signature))

    # -- payload to arguments ------------------------------------------------------------------

    def decode(self, payload: Any, run: Any) -> dict[str, Any]:
        """The arguments of one call; Invalid names the field of the payload that does not fit."""
        arguments = self._whole(payload) if self.whole else self._by_name(payload)
        if self.wants_run:
            arguments[RUN] = run
        return arguments

    def _whole(self, payload: Any) -> dict[str, Any]:
        only = self.named[0]
        if payload is None and not only.required:
            return {}
        return {only.name: restored(payload, only.annotation, "payload")}

    def _by_name(self, payload: Any) -> dict[str, Any]:
        if not self.named and not self.takes_rest:
            return {}
        fields = {} if payload is None else payload
        if type(fields) is not dict and not isinstance(fields, Mapping):
            raise Invalid(
                f"payload must be a table of the arguments of {self.handler}, not {payload!r:.60}.",
                field="payload",
                given=payload,
            )
        found = dict(fields) if self.takes_rest else {}
        for each in self.named:
            where = f"payload.{each.name}"
            if each.name in fields:
                found[each.name] = restored(fields[each.name], each.annotation, where)
            elif each.required:
                raise Invalid(f"{where} is missing: {self.handler} needs it.", field=where)
        return found

    # -- arguments to payload ---------------------------------------------------------------------

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The payload of a typed submission. It is checked when it is submitted."""
        given = self._bound(args, kwargs)
        plain = {name: storable(value, f"payload.{name}") for name, value in given.items()}
        return plain.get(self.named[0].name) if self.whole else plain

    # -- JSON Schema -------------------------------------------------------------

    @property
    def untyped(self) -> bool:
        """Whether no parameter has an annotation."""
        return all(each.annotation is Any for each in self.named)

    def schema(self) -> dict[str, Any] | None:
        """A JSON Schema of the payloads that the handler takes; None if it takes any payload."""
        if self.untyped:
            return None
        found, parts = msgspec.json.schema_components(
            [each.annotation for each in self.named],
            schema_hook=_schema_of_model,
            ref_template="#/$defs/{name}",
        )
        schemas = [
            each.with_default(TIMES.get(each.annotation, schema))
            for each, schema in zip(self.named, found, strict=True)
        ]
        if self.whole:
            made = dict(schemas[0])
        else:
            names = [each.name for each in self.named]
            required = [each.name for each in self.named if each.required]
            made = {"type": "object", "properties": dict(zip(names, schemas, strict=True))}
            made |= {"required": required} if required else {}
        return made | ({"$defs": dict(parts)} if parts else {})

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        own = [each for each in self.signature.parameters.values() if each.name != RUN]
        bare = self.signature.replace(parameters=own)
        try:
            bound = bare.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise Invalid(
                f"these arguments do not fit {self.handler}: {error}.",
                field="payload",
                allowed=[str(bare)],
            ) from None
        rest = next((each.name for each in own if each.kind is each.VAR_KEYWORD), None)
        further = bound.pop(rest, {}) if rest else {}
        return {**bound, **further}


def _schema_of_model(kind: type) -> dict[str, Any]:
    """The schema of a pydantic model, which brings its own definitions."""
    if not hasattr(kind, "model_json_schema"):
        raise NotImplementedError
    made: dict[str, Any] = kind.model_json_schema()
    return made


def _hints(function: Callable[..., Any], handler: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError) as error:
        raise Invalid(
            f"{handler}: an annotation cannot be resolved: {error}. Import the name in the "
            "module of the handler, not only for type checking.",
            field=SIGNATURE,
        ) from None


#: The most return types that are kept: a handler can define new types in every execution.
MAX_RETURN_TYPES = 1_000
#: By what the type depends on, not by function: a function inside a handler is another object in
#: every execution, and functions with the same decorator share the code of its wrapper.
_RETURN_TYPES: dict[tuple[CodeType, str, Any], Any] = {}


def returns_of(function: Callable[..., Any]) -> Any:
    """The return annotation of a function; Any if there is none, or JSON has no form for it."""
    code = getattr(function, "__code__", None)
    if code is None or "return" not in function.__annotations__:
        return Any
    key = (code, function.__module__, function.__annotations__["return"])
    try:
        known = _RETURN_TYPES.get(key)
    except TypeError:  # the annotation has no hash
        return _return_type(function)
    if known is None:
        known = _return_type(function)
        if len(_RETURN_TYPES) >= MAX_RETURN_TYPES:
            _RETURN_TYPES.clear()
        _RETURN_TYPES[key] = known
    return known


def _return_type(function: Callable[..., Any]) -> Any:
    try:
        annotation = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError):
        return Any
    usable = annotation not in (Any, type(None)) and unrestorable(annotation) is None
    return annotation if usable else Any
