"""Traces of a whole story: `detent up` exports them to a receiver of OTLP over HTTP."""

import gzip
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as gen_ai

from detent.integrations.telemetry.traces import CURSOR
from detent.store.store_url import open_store
from detent.testing import stand_in_agent
from tests.e2e.installation import Installation, wait_until
from tests.integrations.receiver import Receiver, receiving

TRACE = "0af7651916cd43dd8448eb211c80319c"
HTTP = f"00-{TRACE}-b7ad6b7169203331-01"
SHELL = f"00-{'5' * 32}-{'6' * 16}-01"
DROPPED = f"00-{'7' * 32}-{'8' * 16}-00"
CONFIG = """
[traces]
enabled = true

[agents.claude]
argv = {argv}
variables = {{ STAND_IN_SCRIPT = {script} }}

[intents.fixBug]
agent = "claude"
prompt = "Fix it."
subtask_intents = ["record"]

[intents.record]
command = ["sh", "-c", 'echo "\\"$TRACEPARENT\\"" > "$DETENT_RESULT_FILE"']
"""
ARGV: list[Any] = [
    *(sys.executable, stand_in_agent.__file__, "-p", "{prompt}", "--model", "claude-opus-9"),
    ["--session-id", "{session_id}"],
]
SCRIPT = [
    {"echo": ["TRACEPARENT"]},
    {"tool": "Bash"},
    {"tokens": [1_200, 34]},
    {"cost": 0.25},
    {"cost": 0.25},
    {"post": ["/api/run/subtasks", {"intent": "record"}]},
    {"tool": "Edit"},
]


class Traced(Installation):
    """An installation whose processes export to a receiver."""

    endpoint = ""
    traceparent: str | None = None

    @property
    def environment(self) -> dict[str, str]:
        own = {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint}
        return super().environment | own | ({"TRACEPARENT": self.traceparent or ""})


@pytest.fixture(scope="module")
def otlp() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory, otlp: Receiver) -> Iterator[Traced]:
    installation = Traced(tmp_path_factory.mktemp("traced"))
    installation.data = installation.project / ".detent"
    installation.endpoint = otlp.url
    script = installation.project / "script.json"
    script.write_text(json.dumps({"runs": [SCRIPT]}))
    text = CONFIG.format(argv=json.dumps(ARGV), script=json.dumps(str(script)))
    (installation.project / "detent.toml").write_text(text)
    installation.start()
    try:
        # The exporter begins at the end of the log: it must have begun before the first task.
        wait_until(lambda: has_begun(installation), "the exporter begins")
        yield installation
    finally:
        installation.stop()


def has_begun(detent: Traced) -> bool:
    store = open_store(str(detent.data / "detent.db"))
    try:
        with store.read() as view:
            return CURSOR in view.rows("system_state")
    finally:
        store.close()


def spans(otlp: Receiver) -> list[Span]:
    found = []
    for each in list(otlp.received):
        assert each.headers["content-type"] == "application/x-protobuf"
        body = gzip.decompress(each.body) if each.headers.get("content-encoding") else each.body
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            found += [span for scope in resource.scope_spans for span in scope.spans]
    return found


def attributes(span: Span) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, str(each.value.WhichOneof("value")))
        for each in span.attributes
    }


def about(otlp: Receiver, trace: str, *names: str) -> list[Span]:
    """The spans of a trace, once all of these are there; the first of each name."""

    def look() -> list[Span] | None:
        found = {span.name: span for span in spans(otlp) if span.trace_id.hex() == trace}
        return [found[name] for name in names] if set(names) <= set(found) else None

    return wait_until(look, f"spans {names}")


def context(span: Span) -> str:
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01"


def test_from_the_submission_to_the_agent_its_tools_and_its_subtask(
    detent: Traced, otlp: Receiver
) -> None:
    body = {"intent": "fixBug", "lifecycle": "board", "run": True, "project": "shop"}
    made = detent.post("/api/tasks", body, traceparent=HTTP).json()["id"]
    detent.wait_for(made, "done")
    task, run, bash, edit, below, command = about(
        otlp,
        TRACE,
        "task fixBug",
        "run fixBug",
        "execute_tool Bash",
        "execute_tool Edit",
        "task record",
        "run record",
    )
    assert task.parent_span_id.hex() == "b7ad6b7169203331"
    assert run.parent_span_id == task.span_id
    assert bash.parent_span_id == edit.parent_span_id == run.span_id
    assert below.parent_span_id == run.span_id
    assert command.parent_span_id == below.span_id
    assert run.start_time_unix_nano <= bash.start_time_unix_nano <= run.end_time_unix_nano
    # What the programs were given is the span of their run.
    assert f'"TRACEPARENT": "{context(run)}"' in detent.run("logs", made).stdout
    subtask = attributes(below)["detent.task.id"]
    (job,) = detent.get(f"/api/tasks/{subtask}/jobs")["items"]
    assert job["result"] == context(command)


def test_the_run_of_an_agent_has_the_attributes_of_the_conventions(
    detent: Traced, otlp: Receiver
) -> None:
    run, bash = about(otlp, TRACE, "run fixBug", "execute_tool Bash")
    found = attributes(run)
    assert found[gen_ai.GEN_AI_OPERATION_NAME] == "invoke_agent"
    assert found[gen_ai.GEN_AI_PROVIDER_NAME] == gen_ai.GenAiProviderNameValues.ANTHROPIC.value
    assert found[gen_ai.GEN_AI_AGENT_NAME] == "claude"
    assert found[gen_ai.GEN_AI_REQUEST_MODEL] == "claude-opus-9"
    assert found[gen_ai.GEN_AI_USAGE_INPUT_TOKENS] == 1_200
    assert found[gen_ai.GEN_AI_USAGE_OUTPUT_TOKENS] == 34
    assert len(found[gen_ai.GEN_AI_CONVERSATION_ID]) == 36
    assert found["detent.cost_usd"] == 0.5
    assert found["detent.project"] == "shop"
    tool = attributes(bash)
    assert tool[gen_ai.GEN_AI_OPERATION_NAME] == "execute_tool"
    assert tool[gen_ai.GEN_AI_TOOL_NAME] == "Bash"
    known = {value for name, value in vars(gen_ai).items() if name.startswith("GEN_AI_")}
    used = {name for name in {*found, *tool} if name.startswith("gen_ai.")}
    assert used <= known


def test_the_command_line_passes_its_environment_on(detent: Traced, otlp: Receiver) -> None:
    for given in (DROPPED, SHELL):  # in this order: both are in the log when the second is seen
        detent.traceparent = given
        submitted = detent.run("submit", "record", "--lifecycle", "board", "--wait")
        assert submitted.returncode == 0, submitted.stderr
    task, run = about(otlp, "5" * 32, "task record", "run record")
    assert task.parent_span_id.hex() == "6" * 16
    assert run.parent_span_id == task.span_id
    assert not [span for span in spans(otlp) if span.trace_id.hex() == "7" * 32], "not sampled"
