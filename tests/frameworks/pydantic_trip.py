"""An agent of Pydantic AI with a scripted model, two parallel tool calls, and an approval."""

import asyncio
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from detent import App, AsyncRun, Run
from detent.integrations.pydantic_ai import DetentDurability, durable

PAYLOAD = {"cities": ["Rome", "Oslo"]}
ANSWER = "approve"
RESULT = "sunny in Rome, sunny in Oslo, booked Rome"
CALLS = ("model 0", "weather Rome", "weather Oslo", "model 1", "book Rome", "model 2")
calls_file = Path("calls")


def call(text: str) -> None:
    """Note a call in the file, which outlives the process."""
    with calls_file.open("a") as file:
        file.write(f"{text}\n")


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    responses = sum(isinstance(message, ModelResponse) for message in messages)
    call(f"model {responses}")
    if responses == 0:
        calls = [ToolCallPart("weather", {"city": each}, each) for each in PAYLOAD["cities"]]
        return ModelResponse(calls)
    if responses == 1:
        return ModelResponse([ToolCallPart("book", {"city": "Rome"}, "booking")])
    returned = [
        str(part.content)
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    return ModelResponse([TextPart(", ".join(returned))])


agent = Agent(FunctionModel(answer), name="travel", capabilities=[DetentDurability()])


@agent.tool_plain
def weather(city: str) -> str:
    call(f"weather {city}")
    return f"sunny in {city}"


@agent.tool_plain(requires_approval=True)
def book(city: str) -> str:
    call(f"book {city}")
    return f"booked {city}"


app = App()


@app.intent("trip")
async def trip(run: AsyncRun, cities: list[str]) -> str:
    with durable(run):
        return (await agent.run(" or ".join(cities))).output


@app.intent("plain-trip")
def plain_trip(run: Run, cities: list[str]) -> str:
    with durable(run):
        return asyncio.run(agent.run(" or ".join(cities))).output
