"""Strict JSON at the edge: one media type, UTF-8, limits on size, depth, lengths and numbers.

Duplicate keys, NaN and Infinity are refused. Reading needs one pass; only a text that
could break a limit is walked through again.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple, NoReturn

from starlette.requests import Request

from detent.errors import Invalid, TooLarge
from detent.gateway.problems import body_timed_out
from detent.settings import Settings

JSON = "application/json"
LINES = "application/x-ndjson"
#: The key in a request's scope of the time that the next part of a body may take, and the default:
BODY_TIMEOUT = "detent.body_timeout_s"
BODY_TIMEOUT_S = 30.0
#: The key in a request's scope that is set when the whole body has arrived.
BODY_COMPLETE = "detent.body_complete"
#: At least this many bytes of a body must arrive within that time, unless it ends.
MIN_BODY_BYTES = 1_024
MAX_DIGITS = 100
MAX_INTEGER = 10**MAX_DIGITS - 1
#: What may hide a huge number or a broken character: escapes, long runs of digits, big exponents.
SUSPICIOUS = re.compile(rb"\\u|\d{101}|[eE][+-]?\d{3}")


class Limits(NamedTuple):
    """How large a document may be."""

    size: int = 10_485_760
    depth: int = 64
    text: int = 1_048_576

    @classmethod
    def of(cls, settings: Settings) -> "Limits":
        return cls(
            settings.gateway_body_limit, settings.gateway_depth_limit, settings.gateway_text_limit
        )


# ---- the body --------------------------------------------------------------------------------


def must_be(request: Request, wanted: str) -> None:
    """Refuse a body of another media type, another character set, or a compressed one."""
    given = request.headers.get("content-type", "")
    media_type, _, rest = given.partition(";")
    parameters = rest.replace(" ", "").replace('"', "").lower()
    if media_type.strip().lower() != wanted or parameters not in ("", "charset=utf-8"):
        raise _wrong_media_type("Content-Type", given, wanted)
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _wrong_media_type("Content-Encoding", request.headers["content-encoding"], "identity")


def _wrong_media_type(header: str, given: str, wanted: str) -> Invalid:
    return Invalid(
        f"{header} must be {wanted}, not {given!r}.",
        code="wrong_media_type",
        field=header,
        given=given,
        allowed=(wanted,),
    )


async def read_body(request: Request, limit: int) -> bytes:
    """The whole body, or a refusal as soon as it is too large."""
    declared = request.headers.get("content-length", "0")
    if declared.isdigit() and int(declared) > limit:
        raise _too_large(limit)
    if request.scope.get(BODY_COMPLETE):
        return await _complete_body(request, limit)
    parts, size = [], 0
    async for part in pieces(request):
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


async def _complete_body(request: Request, limit: int) -> bytes:
    """A body that has arrived: there is nothing to wait for."""
    message = await request.receive()
    if message["type"] == "http.disconnect":
        raise body_timed_out()
    body: bytes = message["body"]
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def pieces(request: Request) -> AsyncIterator[bytes]:
    """The body in pieces, as they arrive; a body that stops or is too slow is given up."""
    max_s = float(request.scope.get(BODY_TIMEOUT, BODY_TIMEOUT_S))
    left_s, received, more = max_s, 0, True
    while more:
        begun = time.monotonic()
        try:
            async with asyncio.timeout(left_s):
                message = await request.receive()
        except TimeoutError:
            raise body_timed_out() from None
        if message["type"] == "http.disconnect":
            raise body_timed_out()
        more, body = message.get("more_body", False), message.get("body", b"")
        left_s, received = left_s - (time.monotonic() - begun), received + len(body)
        if received >= MIN_BODY_BYTES:
            left_s, received = max_s, 0
        yield body


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The body is over {limit} bytes.", limit=limit)


# ---- the document ----------------------------------------------------------------------------


async def read_object(request: Request, limits: Limits, max_bytes: int) -> dict[str, Any]:
    """The JSON object that is the body of a request."""
    body = await read_body(request, min(limits.size, max_bytes))
    must_be(request, JSON)
    value = decode(body, limits)
    if not isinstance(value, dict):
        raise Invalid("The body must be one JSON object.", field="body", given=value)
    return value


def decode(body: bytes, limits: Limits) -> Any:
    """The JSON value of a body."""
    try:
        value = DECODER.decode(body.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise unreadable(f"The body is not UTF-8: byte {error.start}.") from None
    except RecursionError:
        raise _too_deep(limits) from None
    except ValueError as error:
        raise unreadable(f"The body is not JSON: {error}.") from None
    if (
        len(body) > limits.text
        or body.count(b"{") + body.count(b"[") > limits.depth
        or SUSPICIOUS.search(body)
    ):
        _walk(value, limits)
    return value


def unreadable(message: str) -> Invalid:
    return Invalid(message, code="unreadable", field="body")


def _too_deep(limits: Limits) -> TooLarge:
    return TooLarge(f"The body is nested deeper than {limits.depth} levels.", limit=limits.depth)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        ((twice, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"the key {twice[:100]!r} is repeated in one object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


DECODER = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant)


def _walk(value: Any, limits: Limits) -> None:
    """Check every value, level by level."""
    level: list[Any] = [value]
    for depth in range(limits.depth + 1):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict | list):
                if depth == limits.depth:
                    raise _too_deep(limits)
                below.extend(_inside(each, limits))
            else:
                _check(each, limits)
        level = below


def _inside(container: dict[str, Any] | list[Any], limits: Limits) -> Iterable[Any]:
    if isinstance(container, list):
        return container
    for key in container:
        _check(key, limits)
    return container.values()


def _check(value: Any, limits: Limits) -> None:
    if isinstance(value, str):
        if len(value) > limits.text:
            raise TooLarge(f"A text is over {limits.text} characters.", limit=limits.text)
        plain(value, "body")
    elif isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise unreadable(f"A whole number has more than {MAX_DIGITS} digits.")
    elif isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise unreadable("A number is too large.")


def plain(value: str, where: str) -> str:
    """The text, if every store can hold it: no NUL and no lone surrogate."""
    if "\0" in value or not _encodable(value):
        raise Invalid(
            f"{where} has a character that cannot be stored: NUL or a lone surrogate.", field=where
        )
    return value


def _encodable(value: str) -> bool:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


# ---- the query -------------------------------------------------------------------------------


def once(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The parameters of a query string, each of which may be given once."""
    found: dict[str, str] = {}
    for name, value in pairs:
        if name in found:
            raise Invalid(f"{name} is given twice in the query string.", field=name, given=value)
        found[name] = plain(value, name)
    return found
