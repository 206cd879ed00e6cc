"""The trace context of a submission: from HTTP, MCP, clients and Python to runs and subtasks."""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client as McpClient
from mcp.client.streamable_http import streamable_http_client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import format_span_id, format_trace_id

from detent.app.app import App
from detent.app.run_context import Run
from detent.cli.connection import Direct
from detent.cli.gateway_client import Gateway, live_gateway, read_token
from detent.client import Client
from detent.kernel import commands as c
from detent.kernel.traceparent import TRACEPARENT, parse_traceparent, span_in_trace
from detent.operations.run_tokens import issue_run_token
from detent.service import announce, mcp_tools
from detent.submission.options import OPTIONS
from detent.testing.harness import Harness
from tests.gateway.installation import DEADLINE_S, Installation, installed

TRACE = "0af7651916cd43dd8448eb211c80319c"
GIVEN = f"00-{TRACE}-b7ad6b7169203331-01"
OTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"
TRACER = TracerProvider(shutdown_on_exit=False).get_tracer("tests")


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("traced"), mcp_tools) as installation:
        yield installation


def stored(gateway: Installation, task_id: str) -> Any:
    """The trace context in the options of a task."""
    with gateway.core.store.read() as view:
        ((task, _),) = view.tasks([task_id])
    return task.options.get(TRACEPARENT)


def span_now() -> str:
    """The current span as a `traceparent`."""
    here = trace.get_current_span().get_span_context()
    return f"00-{format_trace_id(here.trace_id)}-{format_span_id(here.span_id)}-01"


# ---- the field -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        None,
        "",
        "nonsense",
        GIVEN.upper(),
        GIVEN.replace("00-", "ff-", 1),
        f"{GIVEN}-more",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-b7ad6b7169203331",
        f"{GIVEN}\n{GIVEN}",
        "0" * 100_000,
    ],
)
def test_an_invalid_context_is_ignored(given: str | None) -> None:
    assert parse_traceparent(given) is None


def test_a_valid_context_is_read_and_written() -> None:
    assert str(parse_traceparent(GIVEN)) == GIVEN
    assert str(parse_traceparent(OTHER)) == OTHER
    later = f"{GIVEN.replace('00-', '01-', 1)}-what-comes"
    assert str(parse_traceparent(later)) == GIVEN, "a later version may add fields"


# ---- over HTTP -------------------------------------------------------------------------------


def test_every_submission_over_http_keeps_the_header(gateway: Installation) -> None:
    client = gateway.client(traceparent=GIVEN)
    task = {"intent": "runQA"}
    board = {**task, "source": "api", "payload": {}}
    made = [
        client.post("/api/tasks", json=task).json()["id"],
        client.post("/api/tasks", json={**task, "run": True}).json()["id"],
        client.post("/add", json=board).json()["taskId"],
        client.post("/enqueue", json={**board, "taskId": "mine", "priority": "P2"}).json()[
            "taskId"
        ],
        *client.post("/api/bulk", json=[task, task]).json()["ids"],
    ]
    assert [stored(gateway, each) for each in made] == [GIVEN] * 6
    job = client.post("/api/jobs", json=task).json()["id"]
    with gateway.core.store.read() as view:
        ((found, _),) = view.jobs([job])
    assert found.options[TRACEPARENT] == GIVEN
    plain = gateway.client().post("/api/tasks", json=task).json()["id"]
    wrong = gateway.client(traceparent="00-wrong").post("/api/tasks", json=task)
    assert wrong.status_code == 201
    assert [stored(gateway, each) for each in (plain, wrong.json()["id"])] == [None, None]


def test_the_context_is_no_option(gateway: Installation) -> None:
    client = gateway.client(traceparent=GIVEN)
    made = client.post("/api/tasks", json={"intent": "runQA", "options": {}}).json()["id"]
    assert client.get(f"/api/tasks/{made}").json()["options"] == {}
    assert TRACEPARENT not in OPTIONS
    changes = {"options": {"run_timeout_ms": 1_000}}
    assert client.patch(f"/api/tasks/{made}", json=changes).status_code == 200
    assert stored(gateway, made) == GIVEN
    given = {"intent": "runQA", "options": {TRACEPARENT: OTHER}}
    assert client.post("/api/tasks", json=given).status_code == 422


def test_an_idempotency_key_does_not_cover_the_context(gateway: Installation) -> None:
    task = {"intent": "runQA", "idempotency_key": "once"}
    first = gateway.client(traceparent=GIVEN).post("/api/tasks", json=task).json()
    again = gateway.client(traceparent=OTHER).post("/api/tasks", json=task).json()
    assert again == {"id": first["id"], "repeated": True}


# ---- MCP -------------------------------------------------------------------------------------


@asynccontextmanager
async def agent(gateway: Installation, token: str, **headers: str) -> AsyncIterator[McpClient]:
    sent = {"Authorization": f"Bearer {token}", **headers}
    async with httpx2.AsyncClient(headers=sent, timeout=DEADLINE_S) as http:
        transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
        async with McpClient(transport) as client:
            yield client


async def called(client: McpClient, tool: str, **more: Any) -> str:
    result: Any = await client.call_tool(tool, {"intent": "runQA"}, **more)
    assert not result.is_error, result.content
    return str(result.structured_content["id"])


@pytest.mark.anyio
async def test_a_tool_call_has_the_context_of_its_metadata_or_of_its_request(
    gateway: Installation,
) -> None:
    async with agent(gateway, gateway.token, traceparent=GIVEN) as client:
        by_header = await called(client, "submit_task")
        by_meta = await called(client, "submit_task", meta={"traceparent": OTHER})
    assert stored(gateway, by_header) == GIVEN
    assert stored(gateway, by_meta) == OTHER


@pytest.mark.anyio
async def test_a_subtask_of_an_agent_is_below_its_run(gateway: Installation) -> None:
    client = gateway.client(traceparent=GIVEN)
    parent = client.post("/api/tasks", json={"intent": "runQA", "run": True}).json()["id"]
    claimed = gateway.claim(parent)
    run_id = str(claimed.job.run_id)
    token = issue_run_token(gateway.core, claimed.grant, run_id)
    own = gateway.client(token).post("/api/run/subtasks", json={"intent": "runQA"}).json()["id"]
    assert stored(gateway, own) == GIVEN, "without traces, the run has no span of its own"
    gateway.core.settings = replace(gateway.core.settings, traces_enabled=True)
    try:
        async with agent(gateway, token) as caller:
            traced = await called(caller, "own_subtask")
            named = await called(caller, "own_subtask", meta={"traceparent": OTHER})
    finally:
        gateway.core.settings = replace(gateway.core.settings, traces_enabled=False)
    run = span_in_trace(parse_traceparent(GIVEN), parent, run_id)
    assert stored(gateway, traced) == str(run)
    assert stored(gateway, named) == OTHER


def test_a_subtask_of_a_person_is_in_the_trace_of_its_task(gateway: Installation) -> None:
    client = gateway.client(traceparent=GIVEN)
    parent = client.post("/api/tasks", json={"intent": "runQA"}).json()["id"]
    below = {"intent": "runQA", "parent_id": parent}
    child = gateway.client().post("/api/tasks", json=below).json()["id"]
    task = span_in_trace(parse_traceparent(GIVEN), parent, parent)
    assert stored(gateway, child) == str(task)


# ---- clients ---------------------------------------------------------------------------------


def submit(connection: Any) -> str:
    return str(connection.call("submit_task", intent="runQA")["id"])


def test_the_clients_send_the_current_span_or_the_environment(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = gateway.core.settings.data_dir
    announce(data_dir, gateway.url, gateway.core.settings.url)
    server = live_gateway(data_dir)
    assert server is not None
    with Client(gateway.url, gateway.token) as client:
        connections = (client, Gateway(server, read_token(data_dir)), Direct(gateway.core))
        for each in connections:
            assert stored(gateway, submit(each)) is None
        monkeypatch.setenv("TRACEPARENT", GIVEN)
        for each in connections:
            assert stored(gateway, submit(each)) == GIVEN
            with TRACER.start_as_current_span("submit"):
                assert stored(gateway, submit(each)) == span_now()
        monkeypatch.setenv("TRACEPARENT", f"{GIVEN}\r\nIf-Match: 1")
        for each in connections:
            assert stored(gateway, submit(each)) is None


# ---- Python ----------------------------------------------------------------------------------


def options_of(harness: Harness, job_id: str) -> Mapping[str, Any]:
    with harness.store.read() as view:
        ((job, _),) = view.jobs([job_id])
    return job.options


def test_a_handler_and_what_it_submits_are_in_the_trace_of_the_submission() -> None:
    app, seen = App(), dict[str, Any]()

    @app.intent("leaf")
    def leaf(run: Run) -> None:
        seen["leaf"] = run.traceparent

    @app.intent("top")
    def top(run: Run) -> None:
        seen["span"], seen["run"] = span_now(), run.traceparent
        seen["other"] = leaf.submit().job_id
        child = run.subtask(leaf)
        seen["child"] = child.id
        run.gather([child])

    @app.intent("waits")
    async def waits() -> None:
        seen["async"] = span_now()

    harness = Harness(app)
    with TRACER.start_as_current_span("request"):
        here = span_now()
        handle, awaited = top.submit(), waits.submit()
    harness.drain()
    assert options_of(harness, handle.job_id)[TRACEPARENT] == here
    assert seen["span"] == seen["run"] == here
    assert seen["async"] == here
    for name in ("other", "child"):
        assert options_of(harness, seen[name])[TRACEPARENT] == here, name
    assert seen["leaf"] == here
    assert awaited.state() == "completed"
    untraced = top.submit()
    harness.drain()
    assert TRACEPARENT not in options_of(harness, untraced.job_id)
    assert seen["run"] is None


def test_a_run_names_its_own_span_if_spans_are_exported() -> None:
    app, seen = App(), list[str | None]()

    @app.intent("dig")
    def dig(run: Run) -> None:
        seen.append(run.traceparent)

    harness = Harness(app)
    core = app.installation()
    core.settings = replace(core.settings, traces_enabled=True)
    handle = dig.submit()
    harness.drain()
    assert seen == [str(span_in_trace(None, handle.job_id, f"{handle.job_id}-r1"))]


def test_an_accepted_task_keeps_its_trace(gateway: Installation) -> None:
    client = gateway.client(traceparent=GIVEN)
    options = {"on_accept": "merge", "workspace": "worktree"}
    task = {"intent": "review", "run": True, "options": options}
    made = client.post("/api/tasks", json=task).json()["id"]
    gateway.complete(made)
    assert client.post(f"/api/tasks/{made}/accept").status_code == 200
    with gateway.core.store.read() as view:
        ((job, _),) = view.jobs([f"{made}-j2"])
    assert job.options[TRACEPARENT] == GIVEN
    gateway.core.engine.do(c.CancelTask(made), c.Actor("person"))
