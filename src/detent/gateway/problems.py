"""Errors as problem documents (RFC 9457); they never hold a traceback."""

import logging
from typing import Any

import msgspec
from starlette.responses import Response
from typing_extensions import TypedDict

from detent.error_codes import CODES
from detent.errors import DetentError, Invalid, Misconfigured, StoreUnavailable, Unavailable
from detent.redaction import redact

log = logging.getLogger("detent.gateway")

MEDIA_TYPE = "application/problem+json"
#: The page that explains each code.
EXPLAINED = "/docs/reference/errors.html#"
#: A wrong value is shown up to this many characters.
MAX_SHOWN = 200


class Problem(TypedDict, total=False):
    """What went wrong, for people and for programs; `code` does not change between versions."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    request_id: str
    field: str
    given: Any
    allowed: list[str]
    legal: list[str]


def document(error: DetentError, request_id: str) -> dict[str, Any]:
    """The problem document of an error."""
    details = dict(error.details)
    if "given" in details:
        details["given"] = _short(details["given"])
    return {
        "type": EXPLAINED + error.code,
        "title": CODES[error.code].meaning,
        "status": error.status,
        "detail": redact(error.message),
        "code": error.code,
        "hint": error.hint,
        "request_id": request_id,
        **details,
    }


def encode(error: DetentError, request_id: str) -> bytes:
    return msgspec.json.encode(document(error, request_id), enc_hook=str)


def headers_for(error: DetentError) -> dict[str, str]:
    """The HTTP headers that belong to an error."""
    found: dict[str, str] = {}
    if error.status == 401:
        found["WWW-Authenticate"] = 'Bearer realm="detent"'
    if error.code == "method_not_allowed" and isinstance(error, Invalid):
        found["Allow"] = ", ".join(error.allowed)
    if "retry_after_s" in error.details:
        found["Retry-After"] = str(error.details["retry_after_s"])
    return found


def answer(error: DetentError, request_id: str) -> Response:
    return Response(
        encode(error, request_id), error.status, headers_for(error), media_type=MEDIA_TYPE
    )


def explained(error: Exception, request_id: str) -> DetentError:
    """The error that a client gets for an exception; an unexpected exception is logged.

    A client, which may not have shown a valid token yet, does not see the address of the store.
    """
    if isinstance(error, StoreUnavailable):
        log.warning("request %s: %s", request_id, error)
        return Unavailable(
            "The store is unavailable. The log of the gateway has the reason.",
            retry_after_s=error.retry_after_s,
        )
    if isinstance(error, Misconfigured) and error.setting == "store":
        log.error("request %s: %s", request_id, error)
        return Misconfigured(
            "The store is not configured correctly. The log of the gateway has the reason.",
            setting="store",
            hint="Run `detent doctor` on the machine of the gateway.",
        )
    if isinstance(error, DetentError):
        return error
    log.error("request %s failed", request_id, exc_info=error)
    return DetentError(
        f"The request {request_id} failed because of an internal error.", code="internal"
    )


def _short(value: Any) -> Any:
    text = value if isinstance(value, str) else msgspec.json.encode(value, enc_hook=str).decode()
    return value if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def stopping() -> Unavailable:
    return Unavailable(
        "The gateway is stopping and did not wait for the end of the request, which may have taken "
        "effect.",
        retry_after_s=1,
    )


def body_timed_out() -> Unavailable:
    return Unavailable("The body did not arrive in time.", code="body_timeout", retry_after_s=1)
