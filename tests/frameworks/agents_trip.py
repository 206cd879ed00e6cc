"""Agents of the OpenAI Agents SDK: a handoff, two tool calls, an approval, a session, a script."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, SQLiteSession, Usage, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

from detent import App, AsyncRun, Run
from detent.integrations.openai_agents import run_agent

PAYLOAD = {"cities": ["Rome", "Oslo"]}
ANSWER = "approve"
RESULT = "sunny in Rome, sunny in Oslo, booked Rome"
CALLS = (
    *("model 0", "model 1", "weather Rome", "weather Oslo"),
    *("model 2", "book Rome", "model 3"),
)
#: The items of the session: the request, each call with its result, and the answer.
ITEMS = [
    *("user", "handoff", "handoff", "Rome", "Oslo", "Rome", "Oslo"),
    *("booking", "booking", "assistant"),
]
calls_file = Path("calls")


def call(text: str) -> None:
    """Note a call in the file, which outlives the process."""
    with calls_file.open("a") as file:
        file.write(f"{text}\n")


class TravelModel(Model):
    """Answers by the items that it gets: hand off, ask for the weather, book, report."""

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        outputs = [each["output"] for each in items if "output" in each]
        number = (0, 1, 1, 2, 3)[len(outputs)]
        call(f"model {number}")
        return ModelResponse(
            self.script(number, outputs), Usage(requests=1, input_tokens=10, output_tokens=2), None
        )

    def script(self, number: int, outputs: list[str]) -> list[Any]:
        if number == 0:
            return [function_call("transfer_to_travel_agent", "{}", call_id="handoff")]
        if number == 1:
            return [
                function_call("weather", {"city": each}, call_id=each) for each in PAYLOAD["cities"]
            ]
        if number == 2:
            return [function_call("book", {"city": "Rome"}, call_id="booking")]
        return [assistant_message(", ".join(outputs[1:]))]

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        async def stream() -> AsyncIterator[Any]:
            response = await self.get_response(*args, **kwargs)
            scripted = ScriptedModel([response.output], default_usage=response.usage)
            async for event in scripted.stream_response(*args, **kwargs):
                yield event

        return stream()


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    call(f"weather {city}")
    return f"sunny in {city}"


@function_tool(needs_approval=True)
def book(city: str) -> str:
    """Book a room."""
    call(f"book {city}")
    return f"booked {city}"


model = TravelModel()
travel = Agent(name="travel agent", model=model, tools=[weather, book])
reception = Agent(name="reception", model=model, handoffs=[travel])
app = App()


@app.intent("trip")
async def trip(run: AsyncRun, cities: list[str]) -> str:
    result = await run_agent(run, reception, " or ".join(cities))
    return str(result.final_output)


@app.intent("plain-trip")
def plain_trip(run: Run, cities: list[str]) -> str:
    return str(asyncio.run(run_agent(run, reception, " or ".join(cities))).final_output)


def name_of(item: dict[str, Any]) -> str:
    return str(item.get("call_id") or item["role"])


@app.intent("session-trip")
async def session_trip(run: AsyncRun, cities: list[str]) -> dict[str, Any]:
    session = SQLiteSession("trip", calls_file.with_suffix(".db"))
    try:
        result = await run_agent(run, reception, " or ".join(cities), session=session)
        items: list[Any] = await session.get_items()
        return {"output": result.final_output, "items": [name_of(each) for each in items]}
    finally:
        session.close()
