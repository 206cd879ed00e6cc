"""Traces: one for each task, a span for each run, linked across retries and waits."""

import gzip
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import StatusCode

from detent.engine.claims import ClaimRequest
from detent.errors import Misconfigured, Unavailable
from detent.integrations.telemetry.traces import Traces, exporter_from_environment
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.testing.clock import VirtualClock
from tests.integrations.hooks import PERSON, submit
from tests.integrations.receiver import Receiver


class Kept(SpanExporter):
    """Keeps what it is given; refuses it while `broken`."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []
        self.broken = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self.broken:
            return SpanExportResult.FAILURE
        self.spans.extend(spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing to let go of."""


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def traces(core: Core, kept: Kept) -> Traces:
    """Traces that have seen the log so far."""
    made = Traces(core, "here", kept)
    made.service.run_once()
    return made


def claim(core: Core) -> tuple[c.Grant, str]:
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    return claimed.grant, claimed.job.run_id or ""


def named(kept: Kept) -> dict[str, ReadableSpan]:
    """Spans by what they are of."""
    found = {}
    for span in kept.spans:
        of = dict(span.attributes or {})
        found[str(of.get("detent.run.id") or of.get("detent.task.id"))] = span
    return found


def attribute(span: ReadableSpan, name: str) -> Any:
    return dict(span.attributes or {}).get(name)


def test_a_task_is_a_trace_and_its_runs_are_spans(
    core: Core, clock: VirtualClock, kept: Kept, traces: Traces
) -> None:
    submit(core, "t", lifecycle="board", queue=True)
    clock.advance(seconds=2)
    grant, run = claim(core)
    clock.advance(seconds=3)
    core.engine.do(c.CompleteRun(grant, run, None, 0), PERSON)
    traces.service.run_once()
    spans = named(kept)
    whole, one = spans["t"], spans[run]
    assert (whole.name, one.name) == ("task dig", "run dig")
    assert whole.parent is None
    assert one.parent == whole.context
    assert one.context.trace_id == whole.context.trace_id
    assert (one.end_time or 0) - (one.start_time or 0) == 3_000_000_000
    assert (whole.end_time or 0) - (whole.start_time or 0) == 5_000_000_000
    assert attribute(whole, "detent.state") == "done"
    assert attribute(one, "detent.worker") == "w"
    assert attribute(one, "detent.intent") == "dig"
    assert one.status.status_code is StatusCode.OK
    assert one.resource.attributes["service.name"] == "detent"


def test_a_retry_is_linked_to_the_run_before_it(
    core: Core, clock: VirtualClock, kept: Kept, traces: Traces
) -> None:
    submit(core, "t", lifecycle="board", queue=True)
    grant, first = claim(core)
    core.engine.do(c.FailRun(grant, first, "error", "it broke", 1), PERSON)
    clock.advance(seconds=60)
    grant, second = claim(core)
    core.engine.do(c.CompleteRun(grant, second, None, 0), PERSON)
    traces.service.run_once()
    spans = named(kept)
    assert spans[first].links == ()
    (link,) = spans[second].links
    assert link.context == spans[first].context
    assert dict(link.attributes or {}) == {"detent.link": "retry"}
    assert spans[first].status.status_code is StatusCode.ERROR
    assert spans[first].status.description == "it broke"
    assert attribute(spans[first], "error.type") == "error"


def test_a_run_after_a_wait_is_linked_to_the_suspended_run(
    core: Core, kept: Kept, traces: Traces
) -> None:
    submit(core, "t", queue=True)
    grant, first = claim(core)
    asked = c.SuspendRun(grant, first, "ask", "question", detail={"text": "Which?"})
    core.engine.do(asked, PERSON)
    core.engine.do(c.AnswerTask("t", "this"), PERSON)
    grant, second = claim(core)
    core.engine.do(c.CompleteRun(grant, second, None, 0), PERSON)
    traces.service.run_once()
    spans = named(kept)
    assert attribute(spans[first], "detent.outcome") == "suspended"
    assert attribute(spans[first], "detent.wait") == "ask"
    (link,) = spans[second].links
    assert link.context == spans[first].context
    assert dict(link.attributes or {}) == {"detent.link": "goes on"}
    assert "t" not in spans, "a task that waits for review goes on"


def test_a_reopened_task_has_another_span_in_the_same_trace(
    core: Core, clock: VirtualClock, kept: Kept, traces: Traces
) -> None:
    submit(core, "t", queue=True, options={"retry": {"retries": 0}})
    core.engine.do(c.FailRun(*claim(core), "error", "it broke", 1), PERSON)
    clock.advance(seconds=100)
    core.engine.do(c.RetryTask("t"), PERSON)
    clock.advance(seconds=1)
    core.engine.do(c.FailRun(*claim(core), "error", "it broke", 1), PERSON)
    traces.service.run_once()
    first, again = [span for span in kept.spans if span.name == "task dig"]
    assert again.parent == first.context
    assert again.context.span_id != first.context.span_id
    assert (again.end_time or 0) - (again.start_time or 0) == 1_000_000_000


def test_a_subtask_is_a_trace_of_its_own_with_a_link(
    core: Core, kept: Kept, traces: Traces
) -> None:
    submit(core, "parent")
    submit(core, "child", parent_id="parent")
    for task in ("child", "parent"):
        core.engine.do(c.CancelTask(task, "enough"), PERSON)
    traces.service.run_once()
    spans = named(kept)
    (link,) = spans["child"].links
    assert link.context == spans["parent"].context
    assert spans["child"].context.trace_id != spans["parent"].context.trace_id


def test_a_job_without_a_task_is_a_trace(core: Core, kept: Kept, traces: Traces) -> None:
    core.engine.do(c.SubmitJob("j", "p", "dig"), PERSON)
    core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)
    traces.service.run_once()
    run, job = kept.spans
    assert run.parent == job.context
    assert job.name == "job dig"


def test_it_starts_at_the_end_of_the_log_and_continues_after_a_restart(
    core: Core, kept: Kept
) -> None:
    submit(core, "old", lifecycle="board", queue=True)
    core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)
    Traces(core, "here", kept).service.run_once()
    submit(core, "new", lifecycle="board", queue=True)
    grant, run = claim(core)
    Traces(core, "here", kept).service.run_once()
    core.engine.do(c.CompleteRun(grant, run, None, 0), PERSON)
    Traces(core, "here", kept).service.run_once()
    assert sorted(named(kept)) == sorted(["new", run])


def test_a_failed_export_is_retried(core: Core, kept: Kept, traces: Traces) -> None:
    submit(core, "t", lifecycle="board", queue=True)
    core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)
    kept.broken = True
    with pytest.raises(Unavailable):
        traces.service.run_once()
    kept.broken = False
    traces.service.run_once()
    assert len(kept.spans) == 2
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in kept.spans)


# ---- the environment ---------------------------------------------------------------------------


def test_the_environment_configures_the_exporter(
    core: Core, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "detent-here")
    traces = Traces(core, "here")
    traces.service.run_once()
    submit(core, "t", lifecycle="board", queue=True)
    core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)
    traces.service.run_once()
    traces._exporter.shutdown()
    (came,) = receiver.received
    assert came.path == "/hook/v1/traces"
    body = gzip.decompress(came.body) if came.headers.get("content-encoding") else came.body
    (found,) = ExportTraceServiceRequest.FromString(body).resource_spans
    named = {each.key: each.value.string_value for each in found.resource.attributes}
    assert named["service.name"] == "detent-here"
    assert sorted(span.name for span in found.scope_spans[0].spans) == ["run dig", "task dig"]


def test_a_sampler_of_the_environment_decides_for_whole_traces(
    core: Core, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0.5")
    traces = Traces(core, "here", kept)
    traces.service.run_once()
    for number in range(40):
        submit(core, f"t{number}", lifecycle="board", queue=True)
        core.engine.do(c.CompleteRun(*claim(core), None, 0), PERSON)
    traces.service.run_once()
    counts: dict[int, int] = {}
    for span in kept.spans:
        counts[span.context.trace_id] = counts.get(span.context.trace_id, 0) + 1
    assert 5 < len(counts) < 35
    assert set(counts.values()) == {2}


def test_an_unknown_exporter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "pigeon")
    with pytest.raises(Misconfigured, match="pigeon"):
        exporter_from_environment()
