"""Builds the HTTP request of an operation, and turns a problem document into an exception.

Imports neither an HTTP library nor the operations, so that the command line starts fast.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from detent import errors
from detent.error_codes import CODES


class Route(NamedTuple):
    """The HTTP route of an operation. `whole` is the parameter that is the whole body."""

    method: str
    path: str
    whole: str | None = None


class Request(NamedTuple):
    """A request to a gateway."""

    method: str
    #: The path and the query string.
    target: str
    headers: dict[str, str]
    body: bytes | None


def request_for(route: Route, arguments: Mapping[str, Any]) -> Request:
    """The request of an operation: path parameters, then query or body; None is omitted."""
    named = {name: value for name, value in arguments.items() if f"{{{name}}}" in route.path}
    if empty := [name for name, value in named.items() if value == ""]:
        # It would be the path of something else.
        raise errors.NotFound(f"{empty[0]} is empty.", hint="Give the id or the name.")
    path = route.path.format_map(
        {name: quote(str(value), safe="") for name, value in named.items()}
    )
    rest = {
        name: value for name, value in arguments.items() if name not in named and value is not None
    }
    key = rest.pop("idempotency_key", None)
    headers = {} if key is None else {"Idempotency-Key": str(key)}
    if route.method in ("GET", "DELETE"):
        query = urlencode({name: _in_query(value) for name, value in rest.items()})
        return Request(route.method, f"{path}?{query}" if query else path, headers, None)
    headers["Content-Type"] = "application/json"
    body = rest if route.whole is None else rest[route.whole]
    return Request(route.method, path, headers, json.dumps(body, allow_nan=False).encode())


def _in_query(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


#: The standard fields of a problem document; the others are details of the error.
OWN_FIELDS = frozenset({"type", "title", "status", "detail", "code", "hint"})


def error_from(status: int, content: bytes) -> errors.DetentError:
    """The exception that a problem document describes, with all its details."""
    try:
        problem = json.loads(content)
        code, detail = problem["code"], problem["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return errors.Unavailable(
            f"The gateway returned HTTP status {status} without a problem document.",
            retry_after_s=1,
        )
    details = {name: value for name, value in problem.items() if name not in OWN_FIELDS}
    error = _error(status, str(detail), code if code in CODES else "unavailable", details)
    error.hint = problem.get("hint") or error.hint
    error.details = details
    return error


def _error(status: int, message: str, code: str, details: Mapping[str, Any]) -> errors.DetentError:
    """An exception of the class that fits the HTTP status."""
    if status in (400, 405, 415, 422):
        field, allowed = str(details.get("field")), details.get("allowed") or ()
        given = details.get("given")
        return errors.Invalid(message, field=field, given=given, allowed=allowed, code=code)
    if status == 413:
        return errors.TooLarge(message, limit=details.get("limit", 0), code=code)
    if "retry_after_s" in details:
        kind = errors.TooMany if status == 429 else errors.Unavailable
        return kind(message, retry_after_s=details["retry_after_s"], code=code)
    if status == 404:
        return errors.NotFound(message, known=details.get("known") or (), code=code)
    if status in (409, 412, 429):
        return errors.Refused(message, legal=details.get("legal") or (), code=code)
    plain = {401: errors.Unauthorized, 403: errors.Forbidden}
    return plain.get(status, errors.DetentError)(message, code=code)
