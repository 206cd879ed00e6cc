"""The current W3C trace context: of the request that is served, the run, or the OpenTelemetry span.

OpenTelemetry is used only if the program has loaded it: nothing here imports it first.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

#: The header of HTTP, and the key in the `_meta` of MCP requests.
HEADER = "traceparent"
#: The environment variable of programs.
VARIABLE = "TRACEPARENT"

#: That of the request that is served, or of the run that is executed.
RECEIVED: ContextVar[str | None] = ContextVar("detent_traceparent", default=None)


def current_traceparent() -> str | None:
    """The `traceparent` of what is submitted now; None without a trace context."""
    return _of_span() or RECEIVED.get()


def outgoing_traceparent() -> str | None:
    """The same for a request to a gateway: if there is none, that of the environment."""
    return current_traceparent() or os.environ.get(VARIABLE)


def outgoing_headers() -> dict[str, str]:
    """The headers that pass the trace context on with a request to a gateway."""
    given = outgoing_traceparent()
    # The environment is not trusted: a line break would start another header.
    return {HEADER: given} if given and given.isprintable() and given.isascii() else {}


class received_traceparent:  # noqa: N801
    """Use this `traceparent` for what is submitted inside; None changes nothing."""

    __slots__ = ("_given", "_token")

    def __init__(self, given: str | None) -> None:
        self._given = given

    def __enter__(self) -> None:
        if self._given is not None:
            self._token = RECEIVED.set(self._given)

    def __exit__(self, *error: object) -> None:
        if self._given is not None:
            RECEIVED.reset(self._token)


def run_span(given: str | None) -> AbstractContextManager[None]:
    """Like `received_traceparent`, and spans that a handler starts inside are children of it."""
    if given is None or sys.modules.get("opentelemetry.trace") is None:
        return received_traceparent(given)
    return _remote_span(given)


@contextmanager
def _remote_span(given: str) -> Iterator[None]:
    from opentelemetry import context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    token = context.attach(TraceContextTextMapPropagator().extract({HEADER: given}))
    try:
        with received_traceparent(given):
            yield
    finally:
        context.detach(token)


def _of_span() -> str | None:
    trace: Any = sys.modules.get("opentelemetry.trace")
    if trace is None or not hasattr(trace, "get_current_span"):
        return None
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return None
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
