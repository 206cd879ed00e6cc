"""Errors of operations as results of MCP tools and as errors of the protocol."""

import logging
from collections.abc import Mapping
from typing import Any

from mcp import types
from mcp.shared.exceptions import MCPError

from detent.errors import DetentError, Invalid, NotFound, Refused
from detent.redaction import redact

log = logging.getLogger("detent.mcp")


def problem(error: DetentError) -> dict[str, Any]:
    """The error as values: its code, what is wrong, and what to do."""
    details = {name: _short(value) for name, value in error.details.items()}
    return {"code": error.code, "detail": redact(error.message), "hint": error.hint, **details}


def _short(value: Any) -> Any:
    return value[:200] + "…" if isinstance(value, str) and len(value) > 200 else value


def unexpected(name: str, error: Exception) -> dict[str, Any]:
    """The error for an unexpected exception. The traceback is written to the log only."""
    log.error("the tool %s failed", name, exc_info=error)
    return problem(DetentError(f"{name} failed with an internal error.", code="internal"))


def protocol_error(name: str, error: Exception) -> MCPError:
    """The error of a request that is not a tool call."""
    if isinstance(error, MCPError):
        return error
    if not isinstance(error, DetentError):
        return _refusal(types.INTERNAL_ERROR, unexpected(name, error))
    of_parameters = isinstance(error, NotFound | Invalid | Refused)
    return _refusal(
        types.INVALID_PARAMS if of_parameters else types.INVALID_REQUEST, problem(error)
    )


def _refusal(code: int, about: Mapping[str, Any]) -> MCPError:
    return MCPError(code, about["detail"], about)
