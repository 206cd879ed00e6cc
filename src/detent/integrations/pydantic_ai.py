"""Pydantic AI: the model requests, tool calls and MCP calls of an agent as durable steps of a run.

`DetentDurability` is a capability on the public tier of Pydantic AI for durable execution backends.
Inside `with durable(run)` each of these calls is a durable step; elsewhere the agent is unchanged.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, cast

from detent.app.async_run_context import AsyncRun, awaitable
from detent.app.charges import Charge
from detent.app.failures import Interrupted
from detent.app.paid_call import paid_call
from detent.app.run_context import Run
from detent.errors import Invalid
from detent.integrations.frameworks.approval import ask_approval, ask_result
from detent.integrations.frameworks.recorded_request import recorded_request
from detent.integrations.frameworks.step_names import next_prefix
from detent.kernel.budget import cost_from
from detent.optional_package import optional_package

with optional_package("pydantic-ai-slim", "2.66", extra="pydantic-ai"):
    from pydantic_ai import DeferredToolRequests, DeferredToolResults, RunContext, ToolDenied
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.capabilities import WrapRunHandler
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        DurableOperationId,
        JournalCallableOperationBackend,
        ModelCompactMessagesId,
        ModelRequestId,
        RoleBasedOperationConfig,
        ToolsetCallToolId,
        ToolsetValidateToolArgumentsId,
        conversation_id_from_run_id,
    )
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import ToolsetTool

#: The key of a tool's metadata; `{"detent": False}` calls the tool outside a durable step.
METADATA = "detent"


class _Block:
    """A `durable` block: its run, and the prefixes of step names by the ids of agent runs."""

    def __init__(self, run: AsyncRun) -> None:
        self.run = run
        self._prefixes: dict[str, str] = {}

    def start(self, agent: str) -> str:
        """The id of the next run of an agent, which is the same in every execution."""
        prefix = next_prefix(self.run, agent)
        ident = f"{self.run.job_id}/{prefix}"
        self._prefixes[ident] = prefix
        return ident

    def prefix(self, agent: str, agent_run: str) -> str:
        """The prefix of an agent run; a run with an id of the caller starts with its first call."""
        if agent_run not in self._prefixes:
            self._prefixes[agent_run] = next_prefix(self.run, agent)
        return self._prefixes[agent_run]


_current: ContextVar[_Block | None] = ContextVar("detent_pydantic_ai_run", default=None)


@contextmanager
def durable(run: Run | AsyncRun) -> Iterator[None]:
    """Record what agents with `DetentDurability` do in this block as durable steps of the run."""
    token = _current.set(_Block(awaitable(run)))
    try:
        yield
    finally:
        _current.reset(token)


def _unstorable(error: Exception) -> BaseException:
    return Invalid(
        f"the result of a durable step cannot be stored: {error}. Return JSON values, dataclasses "
        "or pydantic models from tools.",
        field="result",
    )


class DetentDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable: `Agent(…, name="…", capabilities=[DetentDurability()])`.

    - `models`: other models that a run of the agent may use, by name.
    - `event_stream_handler`: gets the events of the model while it streams.
    - `name`: the name of the agent in the names of steps; by default the agent's own.
    - `parallel_tools`: with True, the tool calls of one response run at the same time. Then a
      crash can repeat all of them; otherwise it repeats at most one call.

    Approvals and calls of external tools become questions of the run.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="detent",
        durable_unit_noun="step",
        durable_container_noun="run",
        codec=JSON_CODEC,
        serialization_failure=_unstorable,
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        sequential_tools_in_durable_context=True,
        tool_config_key=METADATA,
        cancellation_error_types=(Interrupted,),
    )

    def __init__(
        self,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
        parallel_tools: bool = False,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._parallel_tools = parallel_tools

    @property
    def in_durable_context(self) -> bool:
        """Whether the code runs in a `durable` block, and not in a step of it."""
        return _current.get() is not None

    def get_durable_operation_backend(self) -> "DetentOperationBackend":
        """The backend that executes each call as a durable step."""
        return DetentOperationBackend(
            agent_name=self.name,
            default_model_id=self.default_model_id,
            config=RoleBasedOperationConfig[None](
                model=None, event=None, capability=None, tool=None, resolve_tool=_tool_config
            ),
        )

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Run the tool calls of a response one after another, unless they may run in parallel."""
        if self._parallel_tools:
            return await handler()
        return await super().wrap_run(ctx, handler=handler)

    def get_default_run_id(self) -> str | None:
        """An id that is the same in every execution of the handler."""
        block = _current.get()
        return None if block is None else block.start(self.name)

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """An id that is the same in every execution of the handler."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[AgentDepsT], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask a person about each call that needs an approval or an external result."""
        block = _current.get()
        if block is None:
            return await super().handle_deferred_tool_calls(ctx, requests=requests)
        run, prefix = block.run, block.prefix(self.name, ctx.run_id or "")
        approvals: dict[str, bool | ToolDenied] = {}
        calls: dict[str, Any] = {}
        for call in requests.approvals:
            name = run.numbered(f"{prefix}__approve:{call.tool_name}:{call.tool_call_id}")
            denied = await ask_approval(
                run, name, self.name, call.tool_name, call.args_as_json_str()
            )
            approvals[call.tool_call_id] = True if denied is None else ToolDenied(denied)
        for call in requests.calls:
            name = run.numbered(f"{prefix}__result:{call.tool_name}:{call.tool_call_id}")
            calls[call.tool_call_id] = await ask_result(
                run, name, self.name, call.tool_name, call.args_as_json_str()
            )
        return requests.build_results(approvals=approvals, calls=calls)


class DetentOperationBackend(JournalCallableOperationBackend[None]):
    """Executes each operation of an agent as a durable step whose name ends with an ordinal."""

    def __init__(self, agent_name: str, **options: Any) -> None:
        super().__init__(agent_name=agent_name, **options)
        self._agent_name = agent_name

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,  # noqa: ARG002 - a parameter of the base class
    ) -> object:
        """Execute the operation, or return what an earlier execution recorded."""
        block = _current.get()
        assert block is not None, "operations are executed in a durable block only"
        run, context = block.run, _context(cache_key)
        if context is not None:
            prefix = block.prefix(self._agent_name, context.run_id or "")
            name = prefix + name.removeprefix(self._agent_name)

        async def call() -> Any:
            token = _current.set(None)  # an agent that a tool runs is a part of this step
            try:
                return await body()
            finally:
                _current.reset(token)

        if isinstance(operation_id, ModelRequestId):
            model_id, messages, *_ = cast("tuple[str | None, list[ModelMessage]]", cache_key)
            conversation = _conversation(model_id, messages)
            return await recorded_request(run, name, conversation, call, _price)
        if isinstance(operation_id, ModelCompactMessagesId):
            return await run.step(run.numbered(name), paid_call, run, call, _price)
        if isinstance(operation_id, ToolsetCallToolId | ToolsetValidateToolArgumentsId):
            # Calls of one response can run concurrently: their ids are in the recorded response.
            name = f"{name}:{'' if context is None else context.tool_call_id or ''}"
        return await run.step(run.numbered(name), call)


def _conversation(model_id: str | None, messages: Sequence[ModelMessage]) -> Iterator[str]:
    """The model and the kinds of all messages."""
    yield model_id or ""
    for message in messages:
        for part in message.parts:
            yield f"{part.part_kind}:{getattr(part, 'tool_name', '')}"


def _price(payload: Any) -> Charge:
    """The cost, tokens and model of a response; the cost is 0 if the price is unknown."""
    response: ModelResponse = JSON_CODEC.load(ModelResponse, payload)
    usage = response.usage
    cost: object = usage.cost
    if cost is None:
        try:
            cost = response.cost().total_price
        except (AssertionError, LookupError, ValueError):
            cost = 0
    tokens = usage.input_tokens, usage.output_tokens
    return Charge(cost_from(str(cost), "cost"), *tokens, response.model_name)


def _context(cache_key: tuple[object, ...]) -> RunContext[Any] | None:
    """The context of the agent run that an operation belongs to."""
    return next((each for each in cache_key if isinstance(each, RunContext)), None)


def _tool_config(_: DurableOperationId, tool: object | None, __: str) -> Literal[False] | None:
    """False for a tool whose metadata has `{"detent": False}`: it is called outside a step."""
    metadata = tool.tool_def.metadata if isinstance(tool, ToolsetTool) else None
    return False if (metadata or {}).get(METADATA) is False else None
