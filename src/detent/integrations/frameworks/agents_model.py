"""Models of the OpenAI Agents SDK whose requests are durable steps of a run."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from decimal import Decimal
from typing import Any

from detent.app.async_run_context import AsyncRun
from detent.app.charges import Charge
from detent.app.failures import NetworkError
from detent.app.paid_call import paid_call
from detent.integrations.frameworks.recorded_request import recorded_request
from detent.kernel.budget import cost_from
from detent.optional_package import optional_package

with optional_package("openai-agents", "0.24", extra="openai-agents"):
    from agents import Model, ModelProvider, ModelResponse, TResponseInputItem
    from agents.items import TResponseStreamEvent
    from openai.types.responses import ResponseCompletedEvent
    from pydantic import TypeAdapter

#: The price of a response in dollars.
Price = Callable[[ModelResponse], float | Decimal]
RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)
#: The number of events of a stream that wait for their reader.
MAX_EVENTS = 100
#: Whether the code runs in a durable step, as an agent that a tool runs.
in_step: ContextVar[bool] = ContextVar("detent_openai_agents_step", default=False)


class DurableModel(Model):
    """A model whose responses are recorded."""

    def __init__(self, model: Model, run: AsyncRun, name: str, price: Price | None) -> None:
        self.model, self.run, self.name, self.price = model, run, name, price

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        """Send a request, or return the recorded response."""

        async def call() -> Any:
            response = await self.model.get_response(system_instructions, input, *args, **kwargs)
            return RESPONSE.dump_python(response, mode="json", by_alias=True)

        recorded = await self._request("request", input, call, self._charge)
        return RESPONSE.validate_python(recorded)

    async def stream_response(
        self,
        system_instructions: str | None,
        input: str | list[TResponseInputItem],
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[TResponseStreamEvent]:
        """Stream a response; the last event follows when it is recorded. A replay has only that."""
        events: asyncio.Queue[TResponseStreamEvent | None] = asyncio.Queue(MAX_EVENTS)

        async def call() -> Any:
            stream = self.model.stream_response(system_instructions, input, *args, **kwargs)
            async for event in stream:
                if isinstance(event, ResponseCompletedEvent):
                    return event.model_dump(mode="json", by_alias=True)
                await events.put(event)
            raise NetworkError("the stream of the model ended before its response was complete")

        request = self._request("stream", input, call, self._charge_of_stream)
        task = asyncio.create_task(_ended(request, events))
        try:
            while (event := await events.get()) is not None:
                yield event
            yield ResponseCompletedEvent.model_validate(await task)
        finally:
            task.cancel()

    async def close(self) -> None:
        """Close the model."""
        await self.model.close()

    def get_retry_advice(self, request: Any) -> Any:
        """The advice of the model."""
        return self.model.get_retry_advice(request)

    async def _request(
        self,
        kind: str,
        given: str | list[TResponseInputItem],
        call: Callable[[], Awaitable[Any]],
        charge: Callable[[Any], Charge],
    ) -> Any:
        if in_step.get():
            return await paid_call(self.run, call, charge)
        key = f"{self.name}__model.{kind}"
        return await recorded_request(self.run, key, _conversation(given), call, charge)

    def _charge(self, payload: Any) -> Charge:
        response = RESPONSE.validate_python(payload)
        cost = 0 if self.price is None else cost_from(str(self.price(response)), "price")
        usage = response.usage
        return Charge(cost, usage.input_tokens, usage.output_tokens, _model_name(self.model))

    def _charge_of_stream(self, payload: Any) -> Charge:
        found = payload["response"]
        usage = found.get("usage") or {}
        charge = self._charge(
            {"output": found["output"], "usage": usage, "response_id": found.get("id")}
        )
        return charge._replace(model=found.get("model") or charge.model)


class DurableModelProvider(ModelProvider):
    """A provider whose models record their responses."""

    def __init__(self, provider: ModelProvider, wrap: Callable[[Model], Model]) -> None:
        self.provider, self.wrap = provider, wrap

    def get_model(self, model_name: str | None) -> Model:
        """The model of that name."""
        return self.wrap(self.provider.get_model(model_name))

    async def aclose(self) -> None:
        """Close the provider."""
        await self.provider.aclose()


def _model_name(model: Model) -> str | None:
    """The name of a model, which the models of the SDK have as an attribute."""
    name = getattr(model, "model", None)
    return name if isinstance(name, str) else None


async def _ended(request: Awaitable[Any], events: "asyncio.Queue[Any]") -> Any:
    """Await the request, then tell the reader of its events that there are no more."""
    try:
        return await request
    finally:
        await events.put(None)


def _conversation(given: str | list[TResponseInputItem]) -> Iterator[str]:
    """The kinds of all items, and the names of the tools that were called."""
    if isinstance(given, str):
        yield "message:user"
        return
    for item in given:
        fields: Mapping[str, Any] = dict(item)
        yield f"{fields.get('type', 'message')}:{fields.get('role') or fields.get('name') or ''}"
