"""Durable tasks for any MCP server written in Python: its tools are intents of an app.

Give `DurableTasks(app)` to the server as an extension. Intents with the option `tool` become tools
of the server; a call of one submits a task, which a worker executes. Needs the extra `mcp`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio.to_thread

from detent.app.app import App
from detent.app.arguments import RUN
from detent.app.handlers import FunctionHandler
from detent.app.intent import Intent
from detent.errors import DetentError
from detent.integrations.mcp.mcp_tools import McpClient
from detent.operations import intake, registry
from detent.operations.registry import Caller, Scope
from detent.optional_package import optional_package
from detent.submission.command import submit_task
from detent.submission.offered_intents import DESCRIPTION, offered_intents
from detent.trace_propagation import current_traceparent

with optional_package("mcp", "2.3", extra="mcp"):
    from mcp import types
    from mcp.server.auth.middleware.auth_context import get_access_token
    from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
    from mcp.server.extension import Extension, MethodBinding, ToolBinding

    from detent.integrations.mcp.mcp_task_methods import (
        LIFECYCLE,
        TASKS,
        IntentTools,
        TaskMethods,
    )

#: What a client of the server may do with its own tasks.
SCOPES = frozenset({Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.REVIEW})

Context = ServerRequestContext[Any, Any]


def authenticated_client(_: Context) -> str:
    """The name of the client: of its access token, or `mcp` for a server without authentication."""
    token = get_access_token()
    return "mcp" if token is None else f"mcp:{token.client_id}"


class DurableTasks(Extension):
    """The tasks of an MCP server, stored and executed by detent.

    `client_of` returns the name of the client of a request. A client sees only tasks that were
    created under its name.
    """

    identifier = TASKS

    def __init__(
        self, app: App, *, client_of: Callable[[Context], str] = authenticated_client
    ) -> None:
        self.app = app
        self._name_of = client_of
        self._intents = IntentTools(self._client)
        self._methods = TaskMethods(self._client)

    def tools(self) -> Sequence[ToolBinding]:
        """The intents with the option `tool`."""
        return [_tool(each) for each in self.app.intents.values() if each.declared.tool is not None]

    def methods(self) -> Sequence[MethodBinding]:
        """The methods of tasks."""
        return self._methods.bindings()

    async def intercept_tool_call(
        self, params: types.CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Submit a task for a call of an intent; other tools are called as usual."""
        offered = await self._intents.find(ctx, params.name)
        if offered is None:
            return await call_next(ctx)
        return await self._intents.call(ctx, offered, params)

    # -- operations on the installation of the app -----------------------------------------

    def _client(self, ctx: Context) -> McpClient:
        caller = Caller(self._name_of(ctx), SCOPES)

        async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
            request = partial(self._call, operation, caller, arguments)
            return await anyio.to_thread.run_sync(request)

        return McpClient(call, SCOPES)

    def _call(self, operation: str, caller: Caller, arguments: Mapping[str, Any]) -> Any:
        if operation == "list_offered_intents":
            found = offered_intents({name: each.row() for name, each in self.app.intents.items()})
            return {"items": [each._asdict() for each in found]}
        core = self.app.installation()
        if operation == "submit_task":
            # The app knows its intents also before a worker has registered them.
            context = self.app.context(arguments["intent"], caller.actor, lifecycle=LIFECYCLE)
            made = submit_task(replace(context, traceparent=current_traceparent()), arguments)
            return intake.submitted(core.engine.execute([made.request()]))
        return registry.call(operation, core, caller, **arguments)


def _tool(intent: Intent[..., Any]) -> ToolBinding:
    """The intent as the server lists it. Its calls are intercepted, so it has no function."""

    def call(**_: Any) -> None:
        raise DetentError(f"The tool {intent.name} was called without its task.")

    vars(call)["__signature__"] = inspect.Signature(_parameters(intent))
    described = intent.row().get(DESCRIPTION) or intent.name
    about = {"name": intent.name, "description": described, "structured_output": False}
    return ToolBinding(call, kwargs=about)


def _parameters(intent: Intent[..., Any]) -> list[inspect.Parameter]:
    """The parameters of the handler without its run; none for a command or an agent."""
    if not isinstance(intent.handler, FunctionHandler):
        return []
    own = inspect.signature(intent.handler.function, eval_str=True).parameters.values()
    return [each for each in own if each.name != RUN]
