"""The methods of MCP tasks, and intents as tools whose calls become tasks.

Nothing is kept here: the id of a task is its id in detent, and every request reads the store, so
any gateway answers. A client sees only the tasks that it created itself. Needs the extra `mcp`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from mcp import types
from mcp.server.context import HandlerResult, ServerRequestContext
from mcp.server.extension import MethodBinding
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from detent.errors import DetentError
from detent.integrations.mcp import mcp_task_fields as fields
from detent.integrations.mcp.mcp_errors import problem, protocol_error
from detent.integrations.mcp.mcp_tools import LONGEST_WAIT_S, McpClient, traceparent_in
from detent.integrations.poll import poll
from detent.kernel.state_mapping import McpStatus
from detent.operations.registry import Scope
from detent.submission.offered_intents import TaskSupport
from detent.trace_propagation import received_traceparent

TASKS = "io.modelcontextprotocol/tasks"
#: The lifecycle of tasks that tool calls create: the result needs no review.
LIFECYCLE = "board"
#: The key of the form for missing arguments.
ARGUMENTS = "arguments"
#: In `_meta` of a call: the same key creates the task only once.
IDEMPOTENCY_KEY = "detent/idempotency-key"

Context = ServerRequestContext[Any, Any]
ClientOf = Callable[[Context], McpClient]
MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)


class UpdateTaskParams(types.RequestParams):
    """The parameters of `tasks/update`. Unknown keys are ignored, so their values can be any."""

    task_id: str
    input_responses: dict[str, Any]


class TaskMethods:
    """Handles `tasks/get`, `tasks/update` and `tasks/cancel`."""

    def __init__(self, client_of: ClientOf) -> None:
        self.client_of = client_of

    def bindings(self) -> tuple[MethodBinding, ...]:
        """The methods as an extension declares them."""
        return (
            MethodBinding("tasks/get", types.GetTaskRequestParams, self.get),
            MethodBinding("tasks/update", UpdateTaskParams, self.update),
            MethodBinding("tasks/cancel", types.CancelTaskRequestParams, self.cancel),
        )

    async def get(self, ctx: Context, params: types.GetTaskRequestParams) -> HandlerResult:
        """The task with its result, error or open questions."""
        return fields.detailed_task(await self._outcome(ctx, params.task_id))

    async def update(self, ctx: Context, params: UpdateTaskParams) -> HandlerResult:
        """Answer open questions of the task. All answers are checked before one is stored."""
        outcome = await self._outcome(ctx, params.task_id)
        call = self.client_of(ctx).call
        try:
            for name, answer in fields.answers_in(outcome, params.input_responses).items():
                wanted = {"task_id": params.task_id, "question": name, "answer": answer}
                await call("answer_task", wanted)
        except Exception as error:
            raise protocol_error(ctx.method, error) from None
        return {}

    async def cancel(self, ctx: Context, params: types.CancelTaskRequestParams) -> HandlerResult:
        """Cancel the task. A task that has ended stays as it is."""
        outcome = await self._outcome(ctx, params.task_id)
        if fields.has_ended(outcome):
            return {}
        wanted = {"task_id": params.task_id, "reason": "cancelled by the client"}
        try:
            await self.client_of(ctx).call("cancel_task", wanted)
        except Exception as error:
            raise protocol_error(ctx.method, error) from None
        return {}

    async def _outcome(self, ctx: Context, task_id: str) -> Mapping[str, Any]:
        if ctx.protocol_version not in MODERN:
            raise MCPError(types.METHOD_NOT_FOUND, "Method not found", ctx.method)
        if not supports_tasks(ctx):
            raise missing_capability()
        _check_name_header(ctx, task_id)
        try:
            return await outcome_of(self.client_of(ctx), task_id)
        except Exception as error:
            raise protocol_error(ctx.method, error) from None


async def outcome_of(client: McpClient, task_id: str) -> Mapping[str, Any]:
    """The outcome of a task that the client created."""
    found: Mapping[str, Any] = await client.call("task_outcome", {"task_id": task_id, "own": True})
    return found


def supports_tasks(ctx: Context) -> bool:
    """Whether the request declares that its client supports tasks."""
    capabilities = ctx.session.client_capabilities
    declared = None if capabilities is None else capabilities.extensions
    return ctx.protocol_version in MODERN and TASKS in (declared or {})


def missing_capability() -> MCPError:
    """The error for a client that does not declare that it supports tasks."""
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    message = f"This request needs a client that supports the extension {TASKS}."
    return MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, message, data)


def _check_name_header(ctx: Context, task_id: str) -> None:
    """Over HTTP, the header by which requests can be routed must name the same task."""
    headers = getattr(ctx.request, "headers", None)
    if headers is None or decode_header_value(headers.get(MCP_NAME_HEADER)) == task_id:
        return
    raise MCPError(types.HEADER_MISMATCH, "The header Mcp-Name must be the taskId of the request.")


# ---- intents as tools ------------------------------------------------------------------------


class IntentTools:
    """Offers intents as tools. A call submits a task."""

    def __init__(self, client_of: ClientOf) -> None:
        self.client_of = client_of

    async def listed(self, ctx: Context) -> list[types.Tool]:
        """The offered intents, for a client that may submit and read tasks."""
        return [_described(each) for each in (await self._offered(ctx)).values()]

    async def find(self, ctx: Context, name: str) -> Mapping[str, Any] | None:
        """The offered intent of this name."""
        return (await self._offered(ctx)).get(name)

    async def _offered(self, ctx: Context) -> dict[str, Mapping[str, Any]]:
        client = self.client_of(ctx)
        if not client.may(Scope.SUBMIT, Scope.READ):
            return {}
        found = (await client.call("list_offered_intents", {}))["items"]
        return {each["name"]: each for each in found}

    async def call(
        self, ctx: Context, offered: Mapping[str, Any], params: types.CallToolRequestParams
    ) -> HandlerResult:
        """Submit a task. The result is the task, or the result of the work when it has ended."""
        tasks = TaskSupport(offered["tasks"])
        if tasks is TaskSupport.REQUIRED and not supports_tasks(ctx):
            raise missing_capability()
        arguments = _with_responses(offered, params)
        missing = fields.missing_arguments(offered["arguments"], arguments)
        if missing and not params.input_responses and _can_ask(ctx):
            form = fields.arguments_form(params.name, missing)
            return {"resultType": "input_required", "inputRequests": {ARGUMENTS: form}}
        client = self.client_of(ctx)
        try:
            with received_traceparent(traceparent_in(params.meta)):
                task_id = await _submit(client, ctx, params.name, arguments)
        except DetentError as error:
            return _refused(error)
        if supports_tasks(ctx) and tasks is not TaskSupport.FORBIDDEN:
            outcome = await outcome_of(client, task_id)
            return {"resultType": "task", **fields.task_fields(outcome)}
        return await _waited(client, task_id)


def _described(offered: Mapping[str, Any]) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=False, open_world_hint=True)
    return types.Tool(
        name=offered["name"],
        description=offered["description"],
        input_schema=dict(offered["arguments"]),
        annotations=hints,
    )


async def _submit(
    client: McpClient, ctx: Context, intent: str, arguments: Mapping[str, Any]
) -> str:
    wanted = {"intent": intent, "payload": arguments, "lifecycle": LIFECYCLE, "run": True}
    key = (ctx.meta or {}).get(IDEMPOTENCY_KEY)
    submitted = await client.call(
        "submit_task", wanted if key is None else {**wanted, "idempotency_key": key}
    )
    return str(submitted["id"])


async def _waited(client: McpClient, task_id: str) -> HandlerResult:
    """The result of the work; the call ends after some time although the work continues."""
    outcome = await poll(
        lambda: outcome_of(client, task_id), fields.has_ended, client.stopping, LONGEST_WAIT_S
    )
    status = fields.status_of(outcome)
    if status is McpStatus.COMPLETED:
        return types.CallToolResult.model_validate(fields.tool_result(outcome))
    if status is McpStatus.FAILED:
        error = fields.task_error(outcome)
        raise MCPError(error["code"], error["message"], error["data"])
    shown = fields.task_fields(outcome)["statusMessage"]
    text = f"Task {task_id} has not ended: {shown}. Use the tools show_task and wait_task."
    return _failed(text)


def _refused(error: DetentError) -> HandlerResult:
    about = problem(error)
    return _failed(f"{about['detail']} {about['hint'] or ''}".strip(), about)


def _failed(text: str, about: Mapping[str, Any] | None = None) -> types.CallToolResult:
    content: list[types.ContentBlock] = [types.TextContent(text=text)]
    structured = None if about is None else dict(about)
    return types.CallToolResult(content=content, structured_content=structured, is_error=True)


# ---- missing arguments -----------------------------------------------------------------------


def _can_ask(ctx: Context) -> bool:
    """Whether the client can show a form before the task is created."""
    capabilities = ctx.session.client_capabilities
    asks = capabilities is not None and capabilities.elicitation is not None
    return asks and ctx.protocol_version in MODERN


def _with_responses(
    offered: Mapping[str, Any], params: types.CallToolRequestParams
) -> dict[str, Any]:
    """The arguments, with those that the client has filled into the form for missing ones."""
    arguments = params.arguments or {}
    response = (params.input_responses or {}).get(ARGUMENTS)
    if not isinstance(response, types.ElicitResult) or response.action != "accept":
        return arguments
    missing = fields.missing_arguments(offered["arguments"], arguments)
    given = response.content or {}
    return {**arguments, **{name: given[name] for name in missing if name in given}}
