"""The MCP server: agents call operations as tools and read tasks as resources, by stdio or HTTP.

Each tool is an operation with its name and its scope. Needs the extra `mcp`, which is slow to
import, so callers import this module only when it is needed.
"""

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import anyio
import msgspec
from mcp import types
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from starlette.types import Receive, Send
from starlette.types import Scope as Connection

from detent.errors import DetentError, Forbidden, NotFound
from detent.integrations.mcp.mcp_errors import problem, protocol_error, unexpected
from detent.integrations.mcp.mcp_task_methods import TASKS, IntentTools, TaskMethods
from detent.integrations.mcp.mcp_tools import (
    RESOURCES,
    McpClient,
    Tool,
    mcp_meta,
    resource_from,
    tools_for,
    traceparent_in,
)
from detent.operations.registry import CallOperation, Scope
from detent.trace_propagation import received_traceparent

EVERY_TOOL = tools_for(frozenset(Scope))
CLIENT_KEY = "detent.client"
PAGE = 50
INSTRUCTIONS = """\
detent runs tasks durably and records every change. Submit work with submit_task, read it with
show_task, and wait for it with wait_task. The tool why explains why a task is not running. A call
that is refused changes nothing, and its error says what is allowed.
"""

Context = ServerRequestContext[Any, Any]


ClientOf = Callable[[Context], McpClient]


def make_server(client_of: ClientOf) -> Server[Any]:
    """An MCP server; `client_of` gives the client of each request."""
    handlers = RequestHandlers(client_of)
    server: Server[Any] = Server(
        "detent",
        version=version("detent"),
        instructions=INSTRUCTIONS,
        on_list_tools=handlers.list_tools,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
    )
    # Not by the argument `on_call_tool`: its type has no results of extensions.
    server.add_request_handler("tools/call", types.CallToolRequestParams, handlers.call_tool)
    server.extensions[TASKS] = {}
    for each in TaskMethods(client_of).bindings():
        server.add_request_handler(each.method, each.params_type, each.handler)
    return server


class RequestHandlers:
    """Handles the requests of the protocol."""

    def __init__(self, client_of: ClientOf) -> None:
        self.client_of = client_of
        self.intents = IntentTools(client_of)

    async def list_tools(self, ctx: Context, _: Any) -> types.ListToolsResult:
        """The tools that the client's scopes allow: operations, and the offered intents."""
        operations = [_described(each) for each in self.client_of(ctx).tools().values()]
        try:
            offered = await self.intents.listed(ctx)
        except Exception as error:
            raise protocol_error("tools/list", error) from None
        intents = [each for each in offered if each.name not in EVERY_TOOL]
        return types.ListToolsResult(tools=[*operations, *intents])

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> HandlerResult:
        """Call an operation or an offered intent."""
        if params.name in EVERY_TOOL:
            return await self._call_operation(ctx, params)
        try:
            offered = await self.intents.find(ctx, params.name)
            if offered is not None:
                return await self.intents.call(ctx, offered, params)
        except MCPError:
            raise
        except Exception as error:
            return _result(unexpected(params.name, error), is_error=True)
        return await self._call_operation(ctx, params)

    async def _call_operation(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        client = self.client_of(ctx)
        try:
            tool = _find(params.name, client)
            with received_traceparent(traceparent_in(params.meta)):
                answer = await tool.call(client.call, params.arguments or {}, client.stopping)
        except DetentError as error:
            return _result(problem(error), is_error=True)
        except Exception as error:
            return _result(unexpected(params.name, error), is_error=True)
        return _result(answer, meta=mcp_meta(answer) if tool.shows_task else None)

    # -- resources -------------------------------------------------------------------------

    async def list_resources(self, ctx: Context, params: Any) -> types.ListResourcesResult:
        """The newest tasks, a page at a time; none for a client that may not read tasks.

        Some clients do not use a server at all if this request fails.
        """
        client = self.client_of(ctx)
        if "list_tasks" not in client.tools():
            return types.ListResourcesResult(resources=[])
        cursor = None if params is None else params.cursor
        arguments = {"limit": PAGE} if cursor is None else {"limit": PAGE, "cursor": cursor}
        page = await _read(client, "list_tasks", arguments)
        listed = [_listed(task) for task in page["items"]]
        return types.ListResourcesResult(resources=listed, next_cursor=page["cursor"])

    async def list_templates(self, _: Context, __: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=list(_templates()))

    async def read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        found = resource_from(str(params.uri))
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no resource {str(params.uri)[:200]!r}.")
        resource, arguments = found
        answer = await _read(self.client_of(ctx), resource.operation, arguments)
        text = answer["text"] if resource.plain else _json(answer)
        contents = types.TextResourceContents(
            uri=params.uri, mime_type=resource.media_type, text=text
        )
        return types.ReadResourceResult(contents=[contents])


async def _read(client: McpClient, operation: str, arguments: Mapping[str, Any]) -> Any:
    """The response of an operation to a resource request; errors become protocol errors."""
    try:
        _find(operation, client)
        return await client.call(operation, arguments)
    except Exception as error:
        raise protocol_error(operation, error) from None


def _find(name: str, client: McpClient) -> Tool:
    if name not in EVERY_TOOL:
        raise NotFound(f"There is no tool {name[:100]!r}.", known=sorted(client.tools()))
    if name not in client.tools():
        scope = EVERY_TOOL[name].scope
        raise Forbidden(f"The tool {name} needs the scope {scope}.", details={"scope": scope.value})
    return EVERY_TOOL[name]


# ---- protocol messages -----------------------------------------------------------------------


def _described(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.reads, destructive_hint=tool.destroys, open_world_hint=False
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=dict(tool.schema),
        annotations=hints,
    )


def _result(
    answer: Any, *, is_error: bool = False, meta: Mapping[str, Any] | None = None
) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=_json(answer))]
    # Decoded from the text, so that the text and the structured content cannot differ.
    value = msgspec.json.decode(content[0].text)  # type: ignore[union-attr]
    return types.CallToolResult(
        content=content,
        structured_content=value,
        is_error=is_error,
        _meta=None if meta is None else dict(meta),
    )


def _json(value: Any) -> str:
    return msgspec.json.encode(value, enc_hook=str).decode()


def _listed(task: Mapping[str, Any]) -> types.Resource:
    title = task["title"] or task["intent"]
    return types.Resource(
        uri=f"detent://tasks/{task['id']}",
        name=task["id"],
        title=f"{title} ({task['state']})",
        mime_type="application/json",
    )


def _templates() -> "list[types.ResourceTemplate]":
    return [
        types.ResourceTemplate(
            uri_template=each.uri,
            name=each.operation,
            description=each.description,
            mime_type=each.media_type,
        )
        for each in RESOURCES
    ]


# ---- over stdio ------------------------------------------------------------------------------


async def serve_stdio(client: McpClient) -> None:
    """Serve one client on standard input and output until it disconnects."""
    server = make_server(lambda _: client)
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


# ---- over HTTP -------------------------------------------------------------------------------


class HttpTools:
    """MCP over HTTP, stateless: every request has the scopes of its own token."""

    def __init__(self, body_limit: int) -> None:
        self._manager = StreamableHTTPSessionManager(
            make_server(_client_in),
            json_response=True,
            stateless=True,
            max_request_body_size=body_limit,
        )
        self._stopping = anyio.Event()
        self._open = anyio.Event()

    async def run(self) -> None:
        """Accept requests until `stop`; must run in its own task."""
        async with self._manager.run():
            self._open.set()
            await self._stopping.wait()

    async def serve(
        self,
        call: CallOperation,
        scopes: frozenset[Scope],
        scope: Connection,
        receive: Receive,
        send: Send,
    ) -> None:
        """Handle one request of a client."""
        await self._open.wait()
        scope[CLIENT_KEY] = McpClient(call, scopes, self._stopping)
        await self._manager.handle_request(scope, receive, send)

    def stop(self) -> None:
        self._stopping.set()


def _client_in(ctx: Context) -> McpClient:
    assert ctx.request is not None, "every message over HTTP has a request"
    client: McpClient = ctx.request.scope[CLIENT_KEY]
    return client
