"""OpenAI Agents SDK: the model requests, tool calls and MCP calls of agents as durable steps.

`run_agent` runs an agent in a handler. The agent starts from the beginning in every execution of
the handler and gets what was recorded, so handoffs work as they do without detent.
"""

import copy
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

from detent.app.async_run_context import AsyncRun, awaitable
from detent.app.run_context import Run
from detent.errors import Invalid
from detent.integrations.frameworks.agents_model import (
    DurableModel,
    DurableModelProvider,
    Price,
    in_step,
)
from detent.integrations.frameworks.agents_session import DurableSession
from detent.integrations.frameworks.approval import ask_approval
from detent.integrations.frameworks.step_names import next_prefix
from detent.optional_package import optional_package

with optional_package("openai-agents", "0.24", extra="openai-agents"):
    from agents import (
        Agent,
        ApplyPatchTool,
        ComputerTool,
        CustomTool,
        FunctionTool,
        Handoff,
        LocalShellTool,
        Model,
        RunConfig,
        Runner,
        Session,
        ShellTool,
        StreamEvent,
        Tool,
        ToolExecutionConfig,
    )
    from agents.agent_tool_state import get_agent_tool_state_scope, peek_agent_tool_run_result
    from agents.items import ToolApprovalItem
    from agents.mcp import MCPServer
    from agents.result import RunResult, RunResultStreaming
    from agents.tool import invoke_function_tool
    from agents.tool_context import ToolContext
    from mcp.types import CallToolResult
    from mcp.types import Tool as MCPTool
    from pydantic import TypeAdapter

Listener = Callable[[StreamEvent], Awaitable[None]]
MCP_TOOLS: TypeAdapter[list[MCPTool]] = TypeAdapter(list[MCPTool])


async def run_agent(
    run: Run | AsyncRun,
    agent: Agent[Any],
    given: Any,
    *,
    session: Session | None = None,
    run_config: RunConfig | None = None,
    on_event: Listener | None = None,
    price: Price | None = None,
    tracing: bool = False,
    **options: Any,
) -> RunResult | RunResultStreaming:
    """Run an agent as `Runner.run` does, with durable calls; approvals are questions of the run.

    - `on_event`: gets the events of a streamed run.
    - `price`: returns the price of a response in dollars, for the budget of the task.
    - `tracing`: with True, the SDK sends traces to the processors that it has. The default one
      sends them to OpenAI.
    - `options`: `context`, `max_turns`, `hooks` and so on, as for `Runner.run`.
    """
    awaited = awaitable(run)
    durable = _DurableAgents(awaited, next_prefix(awaited, agent.name), price)
    config = durable.config(run_config or RunConfig(), tracing=tracing)
    options["run_config"] = config
    if session is not None:
        options["session"] = DurableSession(session, awaited, durable.name)
    starting = durable.agent(agent)
    result = await _execute(starting, given, on_event, options)
    while result.interruptions:
        state: Any = result.to_state()
        for item in result.interruptions:
            denied = await durable.ask(item)
            if denied is None:
                state.approve(item)
            else:
                state.reject(item, rejection_message=denied)
        options.pop("context", None)  # the state has it
        result = await _execute(starting, state, on_event, options)
    return result


async def _execute(
    agent: Agent[Any], given: Any, on_event: Listener | None, options: dict[str, Any]
) -> RunResult | RunResultStreaming:
    if on_event is None:
        return await Runner.run(agent, given, **options)
    result = Runner.run_streamed(agent, given, **options)
    async for event in result.stream_events():
        await on_event(event)
    return result


class _DurableAgents:
    """Copies of agents whose models, tools and MCP servers record their results."""

    def __init__(self, run: AsyncRun, name: str, price: Price | None) -> None:
        self.run, self.name, self.price = run, name, price
        self._agents: dict[int, Agent[Any]] = {}

    def config(self, given: RunConfig, *, tracing: bool) -> RunConfig:
        """The configuration, with recorded models; tool calls run one after another."""
        return dataclasses.replace(
            given,
            model=self._model(given.model) if isinstance(given.model, Model) else given.model,
            model_provider=DurableModelProvider(given.model_provider, self._model),
            tracing_disabled=not tracing,
            tool_execution=given.tool_execution
            or ToolExecutionConfig(max_function_tool_concurrency=1),
        )

    def agent(self, given: Agent[Any]) -> Agent[Any]:
        """The copy of an agent; agents that hand off to each other are copied once."""
        if (known := self._agents.get(id(given))) is not None:
            return known
        made = self._agents[id(given)] = given.clone()
        if isinstance(given.model, Model):
            made.model = self._model(given.model)
        made.tools = [self._tool(each) for each in given.tools]
        made.mcp_servers = [self._server(each) for each in given.mcp_servers]
        made.handoffs = [
            self._handoff(each) if isinstance(each, Handoff) else self.agent(each)
            for each in given.handoffs
        ]
        return made

    async def ask(self, item: ToolApprovalItem) -> str | None:
        """Ask a person whether a tool may be called; None if it may."""
        tool, raw = item.tool_name or "a tool", item.raw_item
        values = raw if isinstance(raw, dict) else vars(raw)
        call_id = str(values.get("call_id") or values.get("id") or "")
        name = self.run.numbered(f"{self.name}__approve:{tool}:{call_id}")
        arguments = str(values.get("arguments") or "")
        return await ask_approval(self.run, name, item.agent.name, tool, arguments)

    def _model(self, given: Model) -> Model:
        return DurableModel(given, self.run, self.name, self.price)

    def _tool(self, given: Tool) -> Tool:
        if not isinstance(given, FunctionTool | CustomTool):
            _check_provider_executes(given)
            return given

        async def call(context: ToolContext[Any], arguments: str) -> Any:
            token = in_step.set(True)
            try:
                result = await _invoked(given, context, arguments)
            finally:
                in_step.reset(token)
            _check_no_approval(given.name, context)
            return result

        async def invoke(context: ToolContext[Any], arguments: str) -> Any:
            name = f"{self.name}__tool:{given.name}:{context.tool_call_id}"
            return await self.run.step(self.run.numbered(name), call, context, arguments)

        made = copy.copy(given)
        made.on_invoke_tool = invoke
        if isinstance(made, FunctionTool):
            made.timeout_seconds = None  # the step has the timeout, so that its result is recorded
        return made

    def _handoff(self, given: Handoff[Any, Any]) -> Handoff[Any, Any]:
        async def invoke(context: Any, arguments: str) -> Agent[Any]:
            return self.agent(await given.on_invoke_handoff(context, arguments))

        made = copy.copy(given)
        made.on_invoke_handoff = invoke
        return made

    def _server(self, given: MCPServer) -> MCPServer:
        async def list_tools(*args: Any, **kwargs: Any) -> list[MCPTool]:
            async def call() -> Any:
                found = await given.list_tools(*args, **kwargs)
                return MCP_TOOLS.dump_python(found, mode="json", by_alias=True)

            name = self.run.numbered(f"{self.name}__mcp:{given.name}.list_tools")
            return MCP_TOOLS.validate_python(await self.run.step(name, call))

        async def call_tool(tool: str, *args: Any, **kwargs: Any) -> CallToolResult:
            async def call() -> Any:
                result = await given.call_tool(tool, *args, **kwargs)
                return result.model_dump(mode="json", by_alias=True)

            name = self.run.numbered(f"{self.name}__mcp:{given.name}.call_tool:{tool}")
            return CallToolResult.model_validate(await self.run.step(name, call))

        made = copy.copy(given)
        vars(made).update(list_tools=list_tools, call_tool=call_tool)
        return made


async def _invoked(
    tool: FunctionTool | CustomTool, context: ToolContext[Any], arguments: str
) -> Any:
    """The result of a tool; a timeout can be a result too."""
    if isinstance(tool, CustomTool):
        return await tool.on_invoke_tool(context, arguments)
    return await invoke_function_tool(function_tool=tool, context=context, arguments=arguments)


def _check_provider_executes(tool: Tool) -> None:
    """Refuse a tool that the SDK executes here, since its calls are not recorded."""
    local = isinstance(tool, ApplyPatchTool | ComputerTool | LocalShellTool)
    if local or (isinstance(tool, ShellTool) and tool.executor is not None):
        raise Invalid(
            f"the calls of a {type(tool).__name__} cannot be recorded, so that every replay would "
            "repeat them. Offer a function_tool that does the same; its calls are recorded.",
            field="tools",
            given=tool.name,
        )


def _check_no_approval(tool: str, context: ToolContext[Any]) -> None:
    """Refuse the result of an agent that a tool has run and that waits for an approval."""
    if context.tool_call is None:
        return
    scope = get_agent_tool_state_scope(context)
    result = peek_agent_tool_run_result(context.tool_call, scope_id=scope)
    if result is not None and result.interruptions:
        names = ", ".join(each.tool_name or "a tool" for each in result.interruptions)
        raise Invalid(
            f"the agent of the tool {tool!r} wants to call {names}, which needs an approval. An "
            "agent that a tool runs cannot wait: use as_tool(…, needs_approval=True), which asks "
            "before the agent runs, or a handoff to the agent.",
            field="needs_approval",
            given=names,
        )
