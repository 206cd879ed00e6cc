"""OpenTelemetry traces from the log: one trace for each task, with a span for each of its runs.

Span ids are derived from the ids of tasks and runs, so that exporting a batch twice gives the same
spans. The standard OTEL_* variables configure the exporter. Needs the extra `otel`.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from detent import feed
from detent.errors import Misconfigured, Unavailable
from detent.integrations.leader_service import LeaderService
from detent.integrations.state_changes import Transition, TransitionTracker
from detent.kernel.retention import Ending
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

Attributes = Mapping[str, str | int]


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


def trace_id(root: str) -> int:
    """The trace id of a task, or of a job without a task."""
    return int.from_bytes(hashlib.sha256(f"trace {root}".encode()).digest()[:16])


def span_id(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"span {name}".encode()).digest()[:8])


def context(root: str, name: str) -> SpanContext:
    return SpanContext(trace_id(root), span_id(name), False, TraceFlags(TraceFlags.SAMPLED))


# ---- spans -------------------------------------------------------------------------------------


class Spans:
    """Creates spans from transitions."""

    def __init__(self, provider: TracerProvider) -> None:
        self._resource = provider.resource
        self._sampler = provider.sampler

    def of(self, transitions: Iterable[Transition]) -> Iterator[ReadableSpan]:
        for transition in transitions:
            if transition.target is None:
                continue
            if transition.level == "run" and transition.began is not None:
                yield from self._sampled(_root_of(transition), self._run(transition))
            elif transition.ending is not None and transition.stream.task_id is None:
                yield from self._sampled(transition.logged.stream, self._whole(transition))

    def _sampled(self, root: str, span: ReadableSpan) -> Iterator[ReadableSpan]:
        """The span, if its trace is sampled. The sampler decides by trace id: all spans or none."""
        decided = self._sampler.should_sample(None, trace_id(root), span.name)
        if decided.decision is Decision.RECORD_AND_SAMPLE:
            yield span

    def _run(self, transition: Transition) -> ReadableSpan:
        assert transition.began is not None
        began, root, fields = transition.began, _root_of(transition), transition.fields
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
        }
        links = []
        if began.previous is not None:
            kind = {"detent.link": "retry" if began.attempt > 1 else "goes on"}
            links.append(Link(context(root, began.previous), kind))
        return self._span(
            f"run {began.step or transition.stream.intent}",
            transition,
            context(root, transition.subject),
            context(root, root),
            transition.since,
            attributes,
            links,
        )

    def _whole(self, transition: Transition) -> ReadableSpan:
        """The span of a task or of a job without one; after a reopening, a child of the first."""
        root = transition.logged.stream
        first = transition.stream.ends == 1
        attributes = {
            f"detent.{transition.level}.id": root,
            "detent.state": str(transition.target),
            "detent.lifecycle": transition.stream.lifecycle,
        }
        links = []
        if transition.stream.parent_id is not None:
            parent = transition.stream.parent_id
            links.append(Link(context(parent, parent), {"detent.link": "subtask of"}))
        own = context(root, root if first else f"{root} {transition.stream.ends}")
        return self._span(
            f"{transition.level} {transition.stream.intent}",
            transition,
            own,
            None if first else context(root, root),
            transition.stream.opened_at,
            attributes,
            links,
        )

    def _span(
        self,
        name: str,
        transition: Transition,
        own: SpanContext,
        parent: SpanContext | None,
        start: int,
        attributes: Attributes,
        links: Sequence[Link],
    ) -> ReadableSpan:
        present = {key: value for key, value in attributes.items() if value != ""}
        owner = {
            "detent.intent": transition.stream.intent,
            "detent.project": transition.logged.project,
        }
        bad = transition.ending is Ending.FAILED or (
            transition.level == "run" and transition.target in BAD_RUN
        )
        words = redact(transition.fields.error or str(transition.target)) if bad else None
        return ReadableSpan(
            name,
            own,
            parent,
            self._resource,
            {**present, **owner},
            links=links,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if bad else StatusCode.OK, words),
            start_time=start * 1_000,
            end_time=transition.logged.at * 1_000,
            instrumentation_scope=SCOPE,
        )


def _root_of(transition: Transition) -> str:
    return transition.stream.task_id or transition.logged.stream


# ---- the service in the keeper's process -------------------------------------------------------


class Traces:
    """Follows the log from its cursor and exports spans; a failed export is retried."""

    def __init__(self, core: Core, name: str, exporter: SpanExporter | None = None) -> None:
        self.core = core
        self._exporter = exporter or exporter_from_environment()
        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "detent")})
        self._spans = Spans(TracerProvider(resource=resource, shutdown_on_exit=False))
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
        """Export the spans of a batch, then transition the cursor.

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
