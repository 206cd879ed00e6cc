"""A gateway with a worker for the intents of `task_tools_app`, and a client of MCP tasks."""

import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import uvicorn
from mcp import types
from mcp.client.client import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import MCPServer
from pydantic import TypeAdapter

from detent.keeper.keeper import Keeper
from detent.service import duties, mcp_tools
from detent.worker.worker import Worker
from tests.gateway.installation import DEADLINE_S, Installation, installed, until
from tests.integrations.task_tools_app import app

TASKS = "io.modelcontextprotocol/tasks"
MODERN = "2026-07-28"
ENDED = ("completed", "failed", "cancelled")


@contextmanager
def working(directory: Path, **settings: Any) -> Iterator[Installation]:
    """A gateway, a keeper that looks often, and a worker."""
    with installed(directory, mcp_tools, keeper_interval_ms=50, **settings) as gateway:
        keeper = Keeper(gateway.core, "keeper", duties(gateway.core.settings))
        keeper.start()
        try:
            with Worker(gateway.core, app.bind(gateway.core)):
                yield gateway
        finally:
            keeper.stop()


@contextmanager
def serving(server: MCPServer) -> Iterator[str]:
    """The address of a server of the protocol, on a port of its own."""
    application = server.streamable_http_app(stateless_http=True)
    http = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    thread = threading.Thread(target=http.run)
    thread.start()
    try:
        until(lambda: http.started)
        yield f"http://127.0.0.1:{http.servers[0].sockets[0].getsockname()[1]}"
    finally:
        http.should_exit = True
        thread.join()


# ---- a client --------------------------------------------------------------------------------


class CreatedTask(types.Result):
    """The result of a tool call that became a task."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    ttl_ms: int | None


class TaskRequest(types.Request[dict[str, Any], str]):
    """`tasks/get`, `tasks/update` or `tasks/cancel`."""

    name_param = "taskId"


class Tasks(ClientExtension):
    """Polls tasks until they end; answers their forms with `content`."""

    identifier = TASKS

    def __init__(self, **content: Any) -> None:
        self.content = content

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=CreatedTask, resolve=self.resolve)]

    async def resolve(self, created: CreatedTask, ctx: ClaimContext) -> types.CallToolResult:
        while True:
            task = await request(ctx.session, "tasks/get", created.task_id)
            if task["status"] == "completed":
                return types.CallToolResult.model_validate(task["result"])
            assert task["status"] in ("working", "input_required"), task
            if forms := task.get("inputRequests"):
                filled = {key: {"action": "accept", "content": self.content} for key in forms}
                await request(ctx.session, "tasks/update", created.task_id, inputResponses=filled)
            await anyio.sleep(0.02)


async def request(session: Any, method: str, task_id: Any, **rest: Any) -> dict[str, Any]:
    wanted = TaskRequest(method=method, params={"taskId": task_id, **rest})
    found: dict[str, Any] = await session.send_request(wanted, TypeAdapter(dict[str, Any]))
    return found


async def created(client: Client, tool: str, meta: Any = None, /, **arguments: Any) -> str:
    """The id of the task that a call has become."""
    made = await client.session.call_tool(tool, arguments, meta=meta, allow_claimed=True)
    assert isinstance(made, CreatedTask)
    return made.task_id


async def task(client: Client, task_id: str, *statuses: str) -> Mapping[str, Any]:
    """The task as soon as it has one of these statuses."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            found = await request(client.session, "tasks/get", task_id)
            if found["status"] in (statuses or ENDED):
                return found
            await anyio.sleep(0.02)


@asynccontextmanager
async def connected(
    address: str, token: str | None = None, *extensions: ClientExtension, **options: Any
) -> AsyncIterator[Client]:
    """A client of a server of the protocol."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http:
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        given = {"mode": MODERN, "extensions": extensions, **options}
        async with Client(transport, **given) as client:
            yield client
