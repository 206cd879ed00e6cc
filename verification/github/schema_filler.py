"""Completes documents of GitHub by githubkit's models of the published schemas, and checks them.

A test gives the fields that matter. Every other required field gets a value of its type, so that a
document always has the whole shape that the real server sends.
"""

import copy
import functools
import types
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

Json = dict[str, Any]
NOW = "2026-11-17T12:00:00Z"


def document(model: type[BaseModel], given: Mapping[str, Any]) -> Json:
    """The given fields with all other required ones; refused if a value has the wrong type."""
    made = completed(model, given)
    model.model_validate(made)
    return made


def completed(model: type[BaseModel], given: Mapping[str, Any]) -> Json:
    made = copy.deepcopy(_template(model))
    for name, value in given.items():
        made[name] = _completed_value(_field(model, name), value)
    return made


def _completed_value(annotation: Any, value: Any) -> Any:
    inner = _model_in(annotation)
    if inner is not None and isinstance(value, Mapping):
        return completed(inner, value)
    if inner is not None and isinstance(value, list):
        return [completed(inner, each) if isinstance(each, Mapping) else each for each in value]
    return value


def _field(model: type[BaseModel], name: str) -> Any:
    for field_name, field in model.model_fields.items():
        if name in (field.alias, field_name):
            return field.annotation
    raise KeyError(f"{model.__name__} has no field {name}")


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The first model in a type, such as that of the items of a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)


@functools.cache
def _template(model: type[BaseModel]) -> Json:
    return {
        field.alias or name: _value(field.annotation)
        for name, field in model.model_fields.items()
        if field.is_required()
    }


def _value(annotation: Any) -> Any:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _value(inner[0])
    if origin in (Union, types.UnionType):
        return None if type(None) in inner else _value(inner[0])
    if origin is Literal:
        return inner[0]
    if origin is list or annotation is list:
        return []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return copy.deepcopy(_template(annotation))
    simple = {str: "", int: 0, float: 0.0, bool: False, datetime: NOW}
    return simple.get(annotation, {})
