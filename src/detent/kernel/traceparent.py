"""W3C trace contexts: the field `traceparent`, and trace and span ids derived from other ids. Pure.

A task that was submitted with a trace context has it in its options, and so have its jobs. Without
one, the trace id is derived from the id of the task, or of the job if it has no task.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

#: In the options of a task or job: the span that has submitted it. Callers cannot set it there.
TRACEPARENT = "traceparent"
#: Longer ones are not read. Version 00 has 55 characters, and later versions may add fields.
MAX_LENGTH = 512
SAMPLED = 1
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")


class TraceContext(NamedTuple):
    """A span of a trace. `flags` say whether the trace is sampled."""

    trace_id: int
    span_id: int
    flags: int = SAMPLED

    def __str__(self) -> str:
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.flags:02x}"


def parse_traceparent(given: str | None) -> TraceContext | None:
    """Return the context of a `traceparent`; None if it is not valid, as the standard demands."""
    if not given or len(given) > MAX_LENGTH:
        return None
    found = _FORM.fullmatch(given.strip())
    if found is None or found[1] == "ff" or (found[1] == "00" and found[5]):
        return None
    trace, span = int(found[2], 16), int(found[3], 16)
    return TraceContext(trace, span, int(found[4], 16) & SAMPLED) if trace and span else None


def context_in(options: Mapping[str, Any]) -> TraceContext | None:
    """Return the context in the options of a task or job."""
    given = options.get(TRACEPARENT) if options else None
    return parse_traceparent(given) if isinstance(given, str) else None


def derived_trace_id(owner: str) -> int:
    """Return the trace id of a task, or of a job without one, that has no context in its options.

    `owner` is the id of the task or job.
    """
    return int.from_bytes(hashlib.sha256(f"trace {owner}".encode()).digest()[:16])


def derived_span_id(name: str) -> int:
    """Return the span id of a task, job or run."""
    return int.from_bytes(hashlib.sha256(f"span {name}".encode()).digest()[:8])


def span_in_trace(given: TraceContext | None, owner: str, name: str) -> TraceContext:
    """Return the context of a span of a task or job: `given` is the context in its options."""
    if given is None:
        return TraceContext(derived_trace_id(owner), derived_span_id(name))
    return given._replace(span_id=derived_span_id(name))


def run_traceparent(
    options: Mapping[str, Any], owner: str, run_id: str, *, exported: bool
) -> str | None:
    """Return the `traceparent` for what a run starts or submits.

    It names the span of the run if detent exports spans, and else the span that has submitted the
    work: programs that trace themselves then have a parent that exists.
    """
    given = context_in(options)
    if exported:
        return str(span_in_trace(given, owner, run_id))
    return None if given is None else str(given)
