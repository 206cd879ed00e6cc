"""Traces for OpenTelemetry, made from the log: one for each task, a span for each of its runs.

Ids follow from the ids of tasks and runs, so that a piece of the log that is told twice says the
same twice. Where spans go is said by the standard OTEL_* variables. Needs the extra `otel`.
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
from detent.integrations.leader_service import Errand
from detent.integrations.transitions import OVER, Move, Tracker
from detent.operations.context import Core
from detent.operations.leader_election import Office
from detent.redaction import redact
from detent.store.port import Logged

log = logging.getLogger("detent.traces")

OFFICE = "traces"
CURSOR = "traces_cursor"
MAX_EVENTS = 500
#: Longer than an export takes.
TERM_US = 120_000_000
PAUSE_S = 1.0
SCOPE = InstrumentationScope("detent")
BAD = frozenset({"failed", "timed_out", "timeout", "budget_exceeded"})

Attributes = Mapping[str, str | int]


def exporter_from_environment() -> SpanExporter:
    """What OTEL_TRACES_EXPORTER names: otlp if nothing is said; its own variables say where to."""
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
    """One for each task, or for a job without one."""
    return int.from_bytes(hashlib.sha256(f"trace {root}".encode()).digest()[:16])


def span_id(name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"span {name}".encode()).digest()[:8])


def context(root: str, name: str) -> SpanContext:
    return SpanContext(trace_id(root), span_id(name), False, TraceFlags(TraceFlags.SAMPLED))


# ---- spans -------------------------------------------------------------------------------------


class Spans:
    """Makes spans of moves."""

    def __init__(self, provider: TracerProvider) -> None:
        self._resource = provider.resource
        self._sampler = provider.sampler

    def of(self, moves: Iterable[Move]) -> Iterator[ReadableSpan]:
        for move in moves:
            if move.target is None:
                continue
            if move.level == "run" and move.began is not None:
                yield from self._sampled(_root_of(move), self._run(move))
            elif move.target in OVER.get(move.level, ()) and move.stream.task_id is None:
                yield from self._sampled(move.logged.stream, self._whole(move))

    def _sampled(self, root: str, span: ReadableSpan) -> Iterator[ReadableSpan]:
        """The sampler looks at the trace's id alone, so a trace is told whole or not at all."""
        decided = self._sampler.should_sample(None, trace_id(root), span.name)
        if decided.decision is Decision.RECORD_AND_SAMPLE:
            yield span

    def _run(self, move: Move) -> ReadableSpan:
        assert move.began is not None
        began, root, told = move.began, _root_of(move), move.told
        outcome = told.outcome if told.outcome == "suspended" else str(move.target)
        attributes: Attributes = {
            "detent.run.id": move.subject,
            "detent.job.id": move.logged.stream,
            "detent.attempt": began.attempt,
            "detent.worker": began.worker,
            "detent.outcome": outcome,
            "detent.step": began.step or "",
            "detent.wait": told.wait or "",
            "error.type": told.error_class or "",
        }
        links = []
        if began.previous is not None:
            why = {"detent.link": "retry" if began.attempt > 1 else "goes on"}
            links.append(Link(context(root, began.previous), why))
        return self._span(
            f"run {began.step or move.stream.intent}",
            move,
            context(root, move.subject),
            context(root, root),
            move.since,
            attributes,
            links,
        )

    def _whole(self, move: Move) -> ReadableSpan:
        """The task's or lone job's own span; when it was opened again, one below the first."""
        root = move.logged.stream
        first = move.stream.ends == 1
        attributes = {
            f"detent.{move.level}.id": root,
            "detent.state": str(move.target),
            "detent.lifecycle": move.stream.lifecycle,
        }
        links = []
        if move.stream.parent_id is not None:
            parent = move.stream.parent_id
            links.append(Link(context(parent, parent), {"detent.link": "subtask of"}))
        own = context(root, root if first else f"{root} {move.stream.ends}")
        return self._span(
            f"{move.level} {move.stream.intent}",
            move,
            own,
            None if first else context(root, root),
            move.stream.opened_at,
            attributes,
            links,
        )

    def _span(
        self,
        name: str,
        move: Move,
        own: SpanContext,
        parent: SpanContext | None,
        start: int,
        attributes: Attributes,
        links: Sequence[Link],
    ) -> ReadableSpan:
        said = {key: value for key, value in attributes.items() if value != ""}
        whose = {"detent.intent": move.stream.intent, "detent.project": move.logged.project}
        bad = move.target in BAD
        words = redact(move.told.error or str(move.target)) if bad else None
        return ReadableSpan(
            name,
            own,
            parent,
            self._resource,
            {**said, **whose},
            links=links,
            kind=SpanKind.INTERNAL,
            status=Status(StatusCode.ERROR if bad else StatusCode.OK, words),
            start_time=start * 1_000,
            end_time=move.logged.at * 1_000,
            instrumentation_scope=SCOPE,
        )


def _root_of(move: Move) -> str:
    return move.stream.task_id or move.logged.stream


# ---- as a part of the keeper's process ---------------------------------------------------------


class Traces:
    """Follows the log from its cursor and exports; what could not be exported is told again."""

    def __init__(self, core: Core, name: str, exporter: SpanExporter | None = None) -> None:
        self.core = core
        self._exporter = exporter or exporter_from_environment()
        resource = Resource.create({"service.name": os.environ.get("OTEL_SERVICE_NAME", "detent")})
        self._spans = Spans(TracerProvider(resource=resource, shutdown_on_exit=False))
        self._tracker = Tracker(core.store)
        #: The position up to which the tracker has seen the log; None if that is not known.
        self._tracked: int | None = None
        office = Office(core, OFFICE, name, TERM_US)
        self.errand = Errand(core, office, self.work, pause_s=PAUSE_S)

    def start(self) -> None:
        self.errand.start()

    def stop(self) -> None:
        self.errand.stop()
        self._exporter.shutdown()

    def work(self, _: int) -> bool:
        """One piece of the log; whether there is more. It begins with what is new."""
        with self.core.store.read() as view:
            cursor = view.rows("system_state").get(CURSOR)
        if cursor is None:
            self._keep(feed.head(self.core.store))
            return False
        batch = feed.read(self.core.store, cursor, MAX_EVENTS)
        if batch:
            self._export(batch, cursor)
        return len(batch) == MAX_EVENTS

    def _export(self, batch: Sequence[Logged], cursor: int) -> None:
        """Export the spans of a batch, then move the cursor.

        The tracker is only used if it has seen exactly the events before the batch: not after a
        failure, and not after another process has exported some.
        """
        if self._tracked != cursor:
            self._tracker.forget()
        self._tracked = None
        spans = list(self._spans.of(self._tracker.moves(batch)))
        if spans and self._exporter.export(spans) is not SpanExportResult.SUCCESS:
            raise Unavailable("The traces could not be exported.", retry_after_s=1)
        self._keep(batch[-1].position)
        self._tracked = batch[-1].position

    def _keep(self, position: int) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows("system_state", {CURSOR: position}))
