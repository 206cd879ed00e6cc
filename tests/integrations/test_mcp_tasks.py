"""Intents as MCP tools whose calls become tasks, with the protocol's public client library."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError

from detent import App
from detent.gateway.server import Server
from detent.integrations.mcp_tasks import DurableTasks
from detent.operations.registry import Scope
from detent.service import mcp_tools
from detent.worker.worker import Worker
from tests.docs.pages import ROOT, blocks, imported
from tests.e2e.installation import Installation as Processes
from tests.gateway.installation import Installation
from tests.integrations.task_tools import (
    Tasks,
    connected,
    created,
    request,
    serving,
    task,
    working,
)
from tests.integrations.task_tools_app import app

pytestmark = pytest.mark.anyio
PAGE = ROOT / "docs" / "howto" / "mcp.md"
CONFIGURATION = """
[store]
data_dir = "{}"

[intents.say]
command = ["echo", "{{payload.what}}"]
tool = "required"
"""
ALL = (Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.REVIEW)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with working(tmp_path_factory.mktemp("tasks")) as installation:
        yield installation


def text(result: Any) -> str:
    content = result["content"] if isinstance(result, dict) else result.content
    first = content[0]
    return str(first["text"] if isinstance(first, dict) else first.text)


async def refusal(client: Client, method: str, task_id: Any, **rest: Any) -> Any:
    with pytest.raises(MCPError) as raised:
        await request(client.session, method, task_id, **rest)
    return raised.value.error


# ---- a task from its creation to its end -----------------------------------------------------


async def test_offered_intents_are_tools(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(Scope.READ, Scope.SUBMIT)) as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
    assert tools["greet"].description == "Greet a person."
    assert tools["greet"].input_schema["required"] == ["name"]
    assert "ask_one" not in tools, "an intent without the option `tool` is not offered"


@pytest.mark.parametrize("scope", [Scope.READ, Scope.SUBMIT])
async def test_intents_are_offered_to_those_who_may_submit_and_read(
    gateway: Installation, scope: Scope
) -> None:
    before = gateway.head()
    async with connected(gateway.url, gateway.token_for(scope), Tasks()) as client:
        assert "greet" not in [each.name for each in (await client.list_tools()).tools]
        result = await client.call_tool("greet", {"name": "Ada"})
    assert result.is_error
    assert gateway.head() == before


async def test_a_task_has_progress_a_result_and_a_time_to_live(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as client:
        task_id = await created(client, "slow_compute", seconds=0.2, label="sum")
        messages = []
        while (found := await task(client, task_id, "working", "completed"))["status"] == "working":
            messages.append(found["statusMessage"])
            assert found["ttlMs"] is None
        assert found["status"] == "completed"
        assert found["ttlMs"] >= gateway.core.settings.retention_done_days * 86_400_000
        assert text(found["result"]) == "sum took 0.2 s"
        assert any(each.endswith("50%, computing sum") for each in messages), messages


async def test_a_client_that_supports_tasks_gets_the_result_of_its_call(
    gateway: Installation,
) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks(confirm=True)) as client:
        result = await client.call_tool("confirm_delete", {"filename": "a.txt"})
    assert text(result) == "a.txt deleted"


async def test_a_client_without_tasks_waits_for_the_result(gateway: Installation) -> None:
    token = gateway.token_for(*ALL)
    for mode in ("legacy", "2026-07-28"):
        async with connected(gateway.url, token, mode=mode) as client:
            result = await client.call_tool("slow_compute", {"seconds": 0, "label": mode})
            assert text(result) == f"{mode} took 0.0 s"


async def test_a_cancelled_task(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as client:
        task_id = await created(client, "slow_compute", seconds=3600)
        await request(client.session, "tasks/cancel", task_id)
        assert (await task(client, task_id))["status"] == "cancelled"
        await request(client.session, "tasks/cancel", task_id)
        assert (await task(client, task_id))["status"] == "cancelled"


async def test_the_same_key_creates_one_task(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as client:
        meta: Any = {"detent/idempotency-key": "once"}
        first = await created(client, "slow_compute", meta, seconds=0)
        assert await created(client, "slow_compute", meta, seconds=0) == first


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_task_has_the_trace_context_of_its_call(gateway: Installation) -> None:
    app.bind(gateway.core)
    helper = MCPServer("letters", extensions=[DurableTasks(app)])
    with serving(helper) as other:
        for address, token in ((gateway.url, gateway.token_for(*ALL)), (other, None)):
            async with connected(address, token, Tasks()) as client:
                meta: Any = {"traceparent": TRACE}
                task_id = await created(client, "slow_compute", meta, seconds=0)
            with gateway.core.store.read() as view:
                [(found, _)] = view.tasks([task_id])
            assert found.options["traceparent"] == TRACE


# ---- questions -------------------------------------------------------------------------------


async def test_a_declined_form_leaves_the_question_open(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as client:
        task_id = await created(client, "confirm_delete", filename="b.txt")
        asked = (await task(client, task_id, "input_required"))["inputRequests"]
        [(key, form)] = asked.items()
        assert form["params"]["message"] == "Delete b.txt?"
        assert form["params"]["requestedSchema"]["properties"] == {"confirm": {"type": "boolean"}}
        declined = {key: {"action": "decline"}}
        await request(client.session, "tasks/update", task_id, inputResponses=declined)
        assert (await task(client, task_id, "input_required"))["inputRequests"] == asked
        kept = {key: {"action": "accept", "content": {"confirm": False}}}
        await request(client.session, "tasks/update", task_id, inputResponses=kept)
        assert text((await task(client, task_id))["result"]) == "b.txt kept"


@pytest.mark.parametrize(
    "response",
    ["yes", {"action": "accept"}, {"action": "accept", "content": {"confirm": "yes"}}, None],
)
async def test_a_form_that_is_filled_in_wrongly_changes_nothing(
    gateway: Installation, response: Any
) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as client:
        task_id = await created(client, "confirm_delete", filename="c.txt")
        [key] = (await task(client, task_id, "input_required"))["inputRequests"]
        before = gateway.head()
        error = await refusal(client, "tasks/update", task_id, inputResponses={key: response})
        assert error.code == types.INVALID_PARAMS
        assert gateway.head() == before


async def test_answering_and_cancelling_need_their_scopes(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ, Scope.SUBMIT)
    async with connected(gateway.url, token, Tasks()) as client:
        task_id = await created(client, "confirm_delete", filename="d.txt")
        [key] = (await task(client, task_id, "input_required"))["inputRequests"]
        before = gateway.head()
        filled = {key: {"action": "accept", "content": {"confirm": True}}}
        answer = await refusal(client, "tasks/update", task_id, inputResponses=filled)
        cancel = await refusal(client, "tasks/cancel", task_id)
    assert (answer.code, answer.data["scope"]) == (types.INVALID_REQUEST, "review")
    assert (cancel.code, cancel.data["scope"]) == (types.INVALID_REQUEST, "operate")
    assert gateway.head() == before


# ---- requests that are refused ---------------------------------------------------------------


async def test_a_task_is_bound_to_the_token_that_created_it(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as client:
        task_id = await created(client, "confirm_delete", filename="g.txt")
        await task(client, task_id, "input_required")
        before = gateway.head()
        async with connected(gateway.url, gateway.token_for(*ALL), Tasks()) as stranger:
            for method in ("tasks/get", "tasks/cancel"):
                assert (await refusal(stranger, method, task_id)).code == types.INVALID_PARAMS
            update = await refusal(stranger, "tasks/update", task_id, inputResponses={})
            assert update.code == types.INVALID_PARAMS
        assert gateway.head() == before
        assert (await task(client, task_id, "input_required"))["taskId"] == task_id


async def test_bad_requests_get_the_errors_of_the_protocol(gateway: Installation) -> None:
    before = gateway.head()
    token = gateway.token_for(*ALL)
    async with connected(gateway.url, token, Tasks()) as client:
        for task_id in ("unknown", "../../etc", "x" * 5_000):
            assert (await refusal(client, "tasks/get", task_id)).code == types.INVALID_PARAMS
        assert (await refusal(client, "tasks/update", "x")).code == types.INVALID_PARAMS
        for gone in ("tasks/list", "tasks/result"):
            assert (await refusal(client, gone, "x")).code == types.METHOD_NOT_FOUND
        flawed = await client.call_tool("greet", {"name": 5})
        assert flawed.is_error
        assert "payload.name must be" in text(flawed)
    async with connected(gateway.url, token) as client:
        error = await refusal(client, "tasks/get", "x")
        assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    async with connected(gateway.url, token, mode="legacy") as client:
        assert (await refusal(client, "tasks/get", "x")).code == types.METHOD_NOT_FOUND
    assert gateway.head() == before


# ---- any gateway answers ---------------------------------------------------------------------


async def test_another_gateway_answers(gateway: Installation) -> None:
    token = gateway.token_for(*ALL)
    other = Server(gateway.core, load_mcp=mcp_tools)
    try:
        address = f"http://127.0.0.1:{other.start()}"
        async with connected(gateway.url, token, Tasks()) as client:
            task_id = await created(client, "confirm_delete", filename="e.txt")
        async with connected(address, token, Tasks()) as client:
            [key] = (await task(client, task_id, "input_required"))["inputRequests"]
            filled = {key: {"action": "accept", "content": {"confirm": True}}}
            await request(client.session, "tasks/update", task_id, inputResponses=filled)
            assert text((await task(client, task_id))["result"]) == "e.txt deleted"
    finally:
        other.stop()


async def test_a_gateway_is_killed_after_the_creation(tmp_path: Path) -> None:
    """The gateway that is started next knows the task."""
    detent = Processes(tmp_path)
    (detent.project / "detent.toml").write_text(CONFIGURATION.format(detent.data))
    detent.start()
    try:
        token = detent.token
        async with connected(detent.url, token, Tasks()) as client:
            task_id = await created(client, "say", what="hello")
            detent.kill()
        detent.start()
        async with connected(detent.url, token, Tasks()) as client:
            found = await request(client.session, "tasks/get", task_id)
            assert (found["taskId"], found["status"] in ("working", "completed")) == (task_id, True)
    finally:
        detent.stop()


# ---- the helper for other servers ------------------------------------------------------------


async def test_another_server_has_durable_tasks(gateway: Installation) -> None:
    """A second process of the server, after the first one, knows the tasks of the first."""
    app.bind(gateway.core)

    def server() -> MCPServer:
        made = MCPServer("letters", extensions=[DurableTasks(app)])

        @made.tool()
        def shout(what: str) -> str:
            """Answer in capital letters."""
            return what.upper()

        return made

    with serving(server()) as address:
        async with connected(address, None, Tasks(confirm=True)) as client:
            assert text(await client.call_tool("shout", {"what": "hi"})) == "HI"
            result = await client.call_tool("confirm_delete", {"filename": "f.txt"})
            assert text(result) == "f.txt deleted"
            task_id = await created(client, "slow_compute", seconds=0.1, label="kept")
    with serving(server()) as address:
        async with connected(address, None, Tasks()) as client:
            assert text((await task(client, task_id))["result"]) == "kept took 0.1 s"


async def test_a_server_separates_the_tasks_of_its_clients(gateway: Installation) -> None:
    app.bind(gateway.core)

    def by_header(ctx: Any) -> str:
        return str(ctx.request.headers["authorization"])

    server = MCPServer("letters", extensions=[DurableTasks(app, client_of=by_header)])
    with serving(server) as address:
        async with connected(address, "ada", Tasks()) as client:
            task_id = await created(client, "slow_compute", seconds=0)
            assert (await task(client, task_id))["status"] == "completed"
        async with connected(address, "eve", Tasks()) as client:
            assert (await refusal(client, "tasks/get", task_id)).code == types.INVALID_PARAMS


async def test_a_server_without_a_store_still_has_its_other_tools() -> None:
    unconnected = App()

    @unconnected.intent("report", tool="optional")
    def report() -> str:
        """Make a report."""
        return "done"

    server = MCPServer("letters", extensions=[DurableTasks(unconnected)])

    @server.tool()
    def shout(what: str) -> str:
        """Answer in capital letters."""
        return what.upper()

    with serving(server) as address:
        async with connected(address, None, Tasks()) as client:
            assert text(await client.call_tool("shout", {"what": "hi"})) == "HI"
            refused = await client.call_tool("report", {})
    assert refused.is_error
    assert "not connected to a store" in text(refused)


async def test_the_server_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    files = {each.title: each for each in blocks(PAGE.read_text("utf-8")) if each.title}
    imported(files["reports.py"], tmp_path)
    server = imported(files["server.py"], tmp_path)
    with Worker(server.app.installation(), server.app), serving(server.server) as address:
        async with connected(address, None, Tasks(confirm=True)) as client:
            month = text(await client.call_tool("last_month", {}))
            result = await client.call_tool("make_report", {"month": month})
    assert text(result) == "published the report of 2026-10"
