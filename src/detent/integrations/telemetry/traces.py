"""OpenTelemetry traces from the log: a span for each task, for each run and for each tool call.

A task is in the trace in which it was submitted, else it has a trace of its own. Span ids are
derived from the ids of tasks and runs, so that exporting a batch twice gives the same spans. The
standard OTEL_* variables configure the exporter. Needs the extra `otel`.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from detent import feed
from detent.errors import Misconfigured, Unavailable
from detent.integrations.leader_service import LeaderService
from detent.integrations.telemetry.agent_spans import (
    Attributes,
    ToolCall,
    agent_attributes,
    tool_calls,
)
from detent.integrations.telemetry.state_changes import Stream, Transition, TransitionTracker
from detent.kernel.retention import Ending
from detent.kernel.traceparent import TraceContext, derived_trace_id, span_in_trace
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection
from detent.redaction import redact
from detent.store.types import LoggedEvent

log = logging.getLogger("detent.traces")

ROLE = "traces"
CURSOR = "traces_cursor"
MAX_EVENTS = 500
#: Longer than the duration of an export.
TERM_US = 120_000_000
PAUSE_S = 1.0
SCOPE = InstrumentationScope("detent")
BAD_RUN = frozenset({"failed", "timeout"})


def exporter_from_environment() -> SpanExporter:
    """The exporter that OTEL_TRACES_EXPORTER names: console, or otlp, which is the default."""
    name = os.environ.get("OTEL_TRACES_EXPORTER", "otlp")
    if name == "console":
        return ConsoleSpanExporter()
    if name == "otlp":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    raise Misconfigured(
        f"OTEL_TRACES_EXPORTER must be otlp or console, not {name!r}.",
        setting="OTEL_TRACES_EXPORTER",
    )


# ---- ids ---------------------------------------------------------------------------------------


def span_context(given: TraceContext, *, remote: bool = False) -> SpanContext:
    return SpanContext(given.trace_id, given.span_id, remote, TraceFlags(given.flags))


def context(stream: Stream, owner: str, name: str) -> SpanContext:
    """The context of a span of a task or job; `owner` is the id of the task or job."""
    return span_context(span_in_trace(stream.trace, owner, name))


def owner_of(transition: Transition) -> str:
    """The id of its task, or of its job if there is no task."""
    return transition.stream.task_id or transition.logged.stream


# ---- spans -------------------------------------------------------------------------------------


class SpanParts(NamedTuple):
    """What differs between the spans of tasks, jobs, runs and tool calls. Times in microseconds."""

    name: str
    own: SpanContext
    parent: SpanContext | None
    start: int
    end: int
    attributes: Attributes
    links: Sequence[Link] = ()
    #: The text of the error; None if there is none.
    error: str | None = None


class Spans:
    """Creates spans from transitions."""

    def __init__(self, provider: TracerProvider, core: Core) -> None:
        self._resource = provider.resource
        self._sampler = provider.sampler
        self._core = core

    def of(self, transitions: Iterable[Transition]) -> Iterator[ReadableSpan]:
        for transition in transitions:
            if transition.target is None:
                continue
            if transition.level == "run" and transition.began is not None:
                if self._is_sampled(transition):
                    yield self._span(transition, self._run(transition))
                    for call in self._tool_calls(transition):
                        yield self._span(transition, _tool(transition, call))
            elif (
                transition.ending is not None
                and transition.stream.task_id is None
                and self._is_sampled(transition)
            ):
                yield self._span(transition, _whole(transition))

    def _is_sampled(self, transition: Transition) -> bool:
        """Whether the trace is sampled: all its spans are, or none.

        If detent has begun the trace, the sampler decides by the trace id. Otherwise it is also
        given the context of the submission, which says whether the submitter has sampled it.
        """
        trace = context(transition.stream, owner_of(transition), "").trace_id
        given, parent = transition.stream.trace, Context()
        if given is not None and trace != derived_trace_id(transition.stream.root_id):
            parent = set_span_in_context(NonRecordingSpan(span_context(given, remote=True)))
        decided = self._sampler.should_sample(parent, trace, transition.stream.intent)
        return decided.decision is Decision.RECORD_AND_SAMPLE

    def _run(self, transition: Transition) -> SpanParts:
        assert transition.began is not None
        began, stream, fields = transition.began, transition.stream, transition.fields
        outcome = fields.outcome if fields.outcome == "suspended" else str(transition.target)
        attributes: Attributes = {
            "detent.run.id": transition.subject,
            "detent.job.id": transition.logged.stream,
            "detent.attempt": began.attempt,
            "detent.worker": began.worker,
            "detent.outcome": outcome,
            "detent.step": began.step or "",
            "detent.wait": fields.wait or "",
            "error.type": fields.error_class or "",
            **agent_attributes(self._core, stream.intent, began, transition.usage),
        }
        owner, links = owner_of(transition), []
        if began.previous is not None:
            kind = {"detent.link": "retry" if began.attempt > 1 else "goes on"}
            links.append(Link(context(stream, owner, began.previous), kind))
        return SpanParts(
            f"run {began.step or stream.intent}",
            context(stream, owner, transition.subject),
            context(stream, owner, owner),
            transition.since,
            transition.logged.at,
            attributes,
            links,
            _error(transition) if transition.target in BAD_RUN else None,
        )

    def _tool_calls(self, transition: Transition) -> Iterator[ToolCall]:
        """The tool calls of an agent's run; other runs have none."""
        assert transition.began is not None
        if transition.began.session is None:
            return iter(())
        times = (transition.since, transition.logged.at)
        return tool_calls(self._core, transition.subject, transition.stream.intent, *times)

    def _span(self, transition: Transition, parts: SpanParts) -> ReadableSpan:
        owner = {
            "detent.intent": transition.stream.intent,
            "detent.project": transition.logged.project,
        }
        present = {key: value for key, value in parts.attributes.items() if value != ""}
        bad = parts.error is not None
        return ReadableSpan(
            parts.name,
            parts.own,
            parts.parent,
            self._resource,
            {**present, **owner},
            links=parts.links,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if bad else StatusCode.OK, parts.error),
            start_time=parts.start * 1_000,
            end_time=parts.end * 1_000,
            instrumentation_scope=SCOPE,
        )


def _error(transition: Transition) -> str:
    return redact(transition.fields.error or str(transition.target))


def _tool(transition: Transition, call: ToolCall) -> SpanParts:
    stream, owner, run = transition.stream, owner_of(transition), transition.subject
    return SpanParts(
        f"execute_tool {call.tool}",
        context(stream, owner, f"{run} tool {call.number}"),
        context(stream, owner, run),
        call.start,
        call.end,
        call.attributes,
        error="the tool failed" if call.failed else None,
    )


def _whole(transition: Transition) -> SpanParts:
    """The span of a task or of a job without one; after a reopening, a child of the first."""
    stream, own = transition.stream, transition.logged.stream
    first = stream.ends == 1
    submitted_by = None if stream.trace is None else span_context(stream.trace, remote=True)
    links = []
    if stream.parent_id is not None and stream.trace is None:
        parent = span_context(span_in_trace(None, stream.parent_id, stream.parent_id))
        links.append(Link(parent, {"detent.link": "subtask of"}))
    return SpanParts(
        f"{transition.level} {stream.intent}",
        context(stream, own, own if first else f"{own} {stream.ends}"),
        submitted_by if first else context(stream, own, own),
        stream.opened_at,
        transition.logged.at,
        {
            f"detent.{transition.level}.id": own,
            "detent.state": str(transition.target),
            "detent.lifecycle": stream.lifecycle,
        },
        links,
        _error(transition) if transition.ending is Ending.FAILED else None,
    )


# ---- the service in the keeper's process -------------------------------------------------------


class Traces:
    """Follows the log from its cursor and exports spans; a failed export is retried."""

    def __init__(self, core: Core, name: str, exporter: SpanExporter | None = None) -> None:
        self.core = core
        self._exporter = exporter or exporter_from_environment()
        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "detent")})
        self._spans = Spans(TracerProvider(resource=resource, shutdown_on_exit=False), core)
        self._tracker = TransitionTracker(core.store)
        #: The position up to which the tracker has read the log; None if it is not known.
        self._tracked: int | None = None
        election = LeaderElection(core, ROLE, name, TERM_US)
        self.service = LeaderService(core, election, self.work, pause_s=PAUSE_S)

    def start(self) -> None:
        self.service.start()

    def stop(self) -> None:
        self.service.stop()
        self._exporter.shutdown()

    def work(self, _: int) -> bool:
        """Export one batch of the log, at first from its end; returns whether there is more."""
        with self.core.store.read() as view:
            cursor = view.rows("system_state").get(CURSOR)
        if cursor is None:
            self._save(feed.head(self.core.store))
            return False
        batch = feed.read(self.core.store, cursor, MAX_EVENTS)
        if batch:
            self._export(batch, cursor)
        return len(batch) == MAX_EVENTS

    def _export(self, batch: Sequence[LoggedEvent], cursor: int) -> None:
        """Export the spans of a batch, then move the cursor.

        The tracker is reset unless it has read exactly the events before the batch, as after an
        error or after another process was the leader.
        """
        if self._tracked != cursor:
            self._tracker.forget()
        self._tracked = None
        spans = list(self._spans.of(self._tracker.transitions(batch)))
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise Unavailable("The trace exporter failed to export spans.", retry_after_s=1)
        self._save(batch[-1].position)
        self._tracked = batch[-1].position

    def _save(self, position: int) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows("system_state", {CURSOR: position}))
