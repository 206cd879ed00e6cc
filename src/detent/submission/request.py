"""The requests of submissions: their fields, types and lengths, checked once on arrival.

`read` turns the caller's fields into one of the requests below, or raises an error with every
missing field, the first unknown field, or the first field with a wrong value.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from detent.errors import Invalid
from detent.ids import OWN_ID

MAX_NAME = 200
MAX_TITLE = 500
MAX_TAGS = 50
MAX_DEPENDENCIES = 100
MAX_TIME = 40

Name = Annotated[str, Meta(min_length=1, max_length=MAX_NAME)]
Title = Annotated[str, Meta(max_length=MAX_TITLE)]
Tags = Annotated[list[Name], Meta(max_length=MAX_TAGS)]
Dependencies = Annotated[list[Name], Meta(max_length=MAX_DEPENDENCIES)]
Time = Annotated[str, Meta(min_length=1, max_length=MAX_TIME)]
Options = dict[str, Any]

#: By msgspec's name of a type, the words for people.
WORDS = {
    "str": "text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
OWN_ID_FORM = "1 to 100 letters, digits or . _ : -, and must not end like -j1 or -r1"
_PROBLEM = re.compile(r"^(?P<text>.*?)(?: - at `\$(?P<path>.*)`)?$", re.DOTALL)
_PART = re.compile(r"\[\d+\]|[^.\[\]]+")
_TYPES = re.compile(r"`(?P<types>[^`]*)`")


class Request(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of every submission. A missing field keeps its default."""

    intent: Name
    payload: Any = UNSET
    not_before: Time | None = None


class TaskRequest(Request, kw_only=True, forbid_unknown_fields=True):
    """A task. It is queued if `run` is true; otherwise it stays pending."""

    id: str | None = None
    project: Name | None = None
    lifecycle: str | None = None
    source: Name = "api"
    title: Title = ""
    priority: str = "P2"
    tags: Tags = []
    depends_on: Dependencies = []
    parent_id: Name | None = None
    max_budget_usd: float | None = None
    options: Options | None = None
    run: bool = False
    idempotency_key: Name | None = None


class JobRequest(Request, kw_only=True, forbid_unknown_fields=True):
    """A job without a task."""

    id: str | None = None
    project: Name | None = None
    priority: str = "P2"
    concurrency_key: Name | None = None
    options: Options | None = None
    idempotency_key: Name | None = None


class BoardRequest(Request, kw_only=True, forbid_unknown_fields=True):
    """`POST /add`: a board task, which is queued; `payload.project` is its project."""

    source: Name
    priority: str = "P2"
    payload: dict[str, Any] | UnsetType = UNSET
    idempotency_key: Name | None = None


class EnqueueRequest(Request, kw_only=True, forbid_unknown_fields=True):
    """`POST /enqueue`: a board task with an id chosen by the caller; every field is required."""

    taskId: str  # noqa: N815 - the wire's own spelling
    source: Name
    priority: str
    payload: dict[str, Any]


class SubtaskRequest(Request, kw_only=True, forbid_unknown_fields=True):
    """A subtask that a run submits with its token; its default priority is that of the task."""

    title: Title = ""
    priority: str | None = None
    tags: Tags = []
    depends_on: Dependencies = []
    max_budget_usd: float | None = None
    idempotency_key: Name | None = None


R = TypeVar("R", bound=Struct)


def read(kind: type[R], given: Mapping[str, Any]) -> R:
    """The request with the given fields, if their names and types are right."""
    _check_required(kind, given)
    if given.get("payload", UNSET) is None:
        raise null_payload()
    return convert(kind, given)


def convert(kind: type[R], given: Mapping[str, Any], *, strict: bool = True) -> R:
    """A struct from its fields. If not `strict`, text is read as numbers and booleans."""
    _check_required(kind, given)
    try:
        return msgspec.convert(given, kind, strict=strict)
    except msgspec.ValidationError as error:
        raise _wrong(str(error), kind, given) from None


def _check_required(kind: type[Struct], given: Mapping[str, Any]) -> None:
    missing = [name for name in _required(kind) if name not in given]
    if missing:
        raise missing_fields(missing)


@cache
def _required(kind: type[Struct]) -> tuple[str, ...]:
    """The names of the required fields; msgspec evaluates all annotations to find them."""
    return tuple(each.encode_name for each in msgspec.structs.fields(kind) if each.required)


def null_payload() -> Invalid:
    """The error for a payload that is null."""
    return Invalid(
        "payload must not be null. Leave it out, or give another JSON value; the default is {}.",
        field="payload",
        allowed=("any JSON value except null",),
    )


def missing_fields(names: list[str], why: str = "") -> Invalid:
    """One error for all missing fields; `field` is the first of them."""
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    reason = f": {why} {them}" if why else ""
    error = Invalid(f"{', '.join(names)} {verb} missing{reason}.", field=names[0])
    error.details["missing"] = names
    return error


def checked_id(given: str, where: str) -> str:
    """The id chosen by the caller, if it has the right form."""
    if OWN_ID.fullmatch(given):
        return given
    raise Invalid(
        f"{where} must be {OWN_ID_FORM}, not {given[:100]!r}.",
        field=where,
        given=given,
        allowed=(OWN_ID_FORM,),
    )


# ---- errors from msgspec ---------------------------------------------------------------------


def _wrong(text: str, kind: type[Struct], given: Mapping[str, Any]) -> Invalid:
    found = _PROBLEM.match(text)
    path = (found["path"] or "") if found else ""
    problem = found["text"] if found else text
    if problem.startswith("Object contains unknown field"):
        return _unknown(problem, kind)
    field = path.removeprefix(".") or "body"
    value, wanted = _at(given, field), _words(problem)
    return Invalid(
        f"{field} must be {wanted}, not {_short(value)}.",
        field=field,
        given=value,
        allowed=(wanted,),
    )


def _unknown(problem: str, kind: type[Struct]) -> Invalid:
    named = _TYPES.search(problem)
    field = named["types"] if named else "body"
    known = tuple(kind.__struct_encode_fields__)
    return Invalid(
        f"{field} is not a known field. Known fields: {', '.join(known)}.",
        field=field,
        given=field,
        allowed=known,
    )


def _at(given: Any, path: str) -> Any:
    """The value at a path such as `tags[1]`; None if there is none."""
    for part in _PART.findall(path):
        try:
            given = given[int(part[1:-1]) if part.startswith("[") else part]
        except (KeyError, IndexError, TypeError, ValueError):
            return None
    return given


def _words(problem: str) -> str:
    """msgspec's message in plain words: `Expected `str` …` becomes `text …`."""
    expected = problem.removeprefix("Expected ").partition(", got")[0]
    return _TYPES.sub(lambda found: type_words(found["types"]), expected)


def type_words(types: str) -> str:
    """The words for msgspec's types, which are separated by ` | `."""
    return " or ".join(WORDS.get(each, each) for each in types.split(" | "))


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
