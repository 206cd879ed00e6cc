"""Agents of Pydantic AI in handlers: durable steps, approvals, budgets, streams, MCP, mistakes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, RunContext
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import (
    AgentStreamEvent,
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import ExternalToolset
from pydantic_ai.usage import RequestUsage

from detent import App, AsyncRun
from detent.app.handle import Handle
from detent.integrations.pydantic_ai import DetentDurability, durable
from detent.kernel import commands as c
from detent.testing import Harness
from tests.frameworks import pydantic_trip as scene
from tests.frameworks.kills import check, kill_everywhere
from tests.worker.waiting import done, error_of, installation, until, working


def scripted(*responses: ModelResponse) -> FunctionModel:
    """A model that gives these responses, one after another."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return responses[sum(isinstance(message, ModelResponse) for message in messages)]

    return FunctionModel(answer)


def calling(tool: str, call_id: str = "c1", **arguments: Any) -> ModelResponse:
    return ModelResponse([ToolCallPart(tool, arguments, call_id)])


def saying(text: str) -> ModelResponse:
    return ModelResponse([TextPart(text)])


def last_return(messages: list[ModelMessage]) -> str:
    found = [part for part in messages[-1].parts if isinstance(part, ToolReturnPart)]
    return str(found[-1].content)


def handled(agent: Agent[None, str]) -> tuple[App, Harness]:
    """An app whose intent `work` runs the agent."""
    app = App()

    @app.intent("work", retry={"retries": 1})
    async def work(run: AsyncRun) -> str:
        with durable(run):
            return (await agent.run("go")).output

    return app, Harness(app)


def asks(handle: Handle[Any]) -> bool:
    return handle.state() == "parked"


def recorded(harness: Harness, handle: Handle[Any]) -> list[str]:
    with harness.store.read() as view:
        return [each.name for each in view.job_checkpoints(handle.job_id)]


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Path]:
    scene.calls_file = tmp_path / "calls"
    yield scene.calls_file
    scene.calls_file = Path("calls")


@pytest.mark.parametrize(
    ("intent", "points"), [("trip", ["commit.before"]), ("plain-trip", ["step.done"])]
)
def test_a_kill_at_any_write_repeats_at_most_one_call(
    tmp_path: Path, intent: str, points: list[str]
) -> None:
    found = kill_everywhere(scene.__name__, intent, tmp_path, points)
    check(found, scene.RESULT, scene.CALLS)


def test_each_call_is_a_step_with_an_ordinal(calls: Path) -> None:
    harness = Harness(scene.app)
    handle = harness.submit("trip", scene.PAYLOAD)
    harness.drain()
    assert recorded(harness, handle) == [
        "travel__model.request#1",
        "travel__function_toolset__<agent>.call_tool:weather:Rome#1",
        "travel__function_toolset__<agent>.call_tool:weather:Oslo#1",
        "travel__model.request#2",
    ]
    handle.answer("approve")
    harness.drain()
    assert done(handle) == scene.RESULT
    assert calls.read_text().splitlines() == list(scene.CALLS)


@pytest.mark.parametrize(
    ("answer", "ending"), [("deny", "The tool call was denied."), ("too expensive", None)]
)
def test_a_denied_call_is_not_made(calls: Path, answer: str, ending: str | None) -> None:
    harness = Harness(scene.app)
    handle = harness.submit("plain-trip", scene.PAYLOAD)
    harness.drain()
    with harness.store.read() as view:
        (question,) = view.waits([handle.job_id])
    assert question.detail["text"] == (
        'The agent travel wants to call book({"city":"Rome"}). Approve the call?'
    )
    handle.answer(answer)
    harness.drain()
    assert done(handle).endswith(ending or answer)
    assert "book Rome" not in calls.read_text()


def test_the_result_of_an_external_tool_is_asked_for() -> None:
    tool = ToolDefinition(name="measure", parameters_json_schema={"type": "object"})

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return calling("measure") if len(messages) == 1 else saying(last_return(messages))

    agent = Agent(
        FunctionModel(answer),
        name="measuring",
        toolsets=[ExternalToolset([tool], id="external")],
        capabilities=[DetentDurability()],
    )
    _, harness = handled(agent)
    handle = harness.submit("work")
    harness.drain()
    handle.answer("12 cm")
    harness.drain()
    assert done(handle) == "12 cm"


def test_handlers_of_both_kinds_run_in_one_worker(tmp_path: Path, calls: Path) -> None:
    """Plain handlers have event loops of their own; the worker serves all of them."""
    intents = ["trip", "plain-trip"] * 3
    with installation(tmp_path / "data", worker_poll_ms=20) as core:
        app = scene.app.bind(core)
        with working(core, app, concurrency=6):
            handles = [app.submit(intent, scene.PAYLOAD) for intent in intents]
            for handle in handles:
                until(partial(asks, handle), "it asks")
                handle.answer("approve")
            assert [each.result(timeout=60) for each in handles] == [scene.RESULT] * len(intents)
    assert len(calls.read_text().splitlines()) == len(scene.CALLS) * len(intents)


def test_runs_of_an_agent_at_the_same_time_keep_their_results_in_a_replay() -> None:
    """The run that starts first ends last; in the replay their calls end in the order of names."""
    overtaken = asyncio.Event()

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        [asked] = messages[0].parts
        city = str(asked.content)  # type: ignore[union-attr]
        if len(messages) == 1:
            if city == "Rome":
                await overtaken.wait()
            return calling("look", "the same id", city=city)
        overtaken.set()
        return saying(last_return(messages))

    agent = Agent(FunctionModel(answer), name="a", capabilities=[DetentDurability()])
    looked: list[str] = []

    @agent.tool_plain
    def look(city: str) -> str:
        looked.append(city)
        return f"saw {city}"

    app = App()

    @app.intent("work")
    async def work(run: AsyncRun) -> list[str]:
        with durable(run):
            found = await asyncio.gather(*(agent.run(city) for city in ("Rome", "Oslo")))
        await run.sleep(60)
        return [each.output for each in found]

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain(advance=True)
    assert done(handle) == ["saw Rome", "saw Oslo"]
    assert looked == ["Oslo", "Rome"]


# ---- money -----------------------------------------------------------------------------------


def spending(policy: str) -> tuple[Harness, Handle[Any]]:
    """A task with a budget of one dollar, whose agent makes three requests at 60 cents."""
    usage = RequestUsage(input_tokens=100, output_tokens=7, cost=Decimal("0.60"))
    responses = [calling("look", "c1"), calling("look", "c2"), saying("done")]
    for each in responses:
        each.usage = usage
    agent = Agent(scripted(*responses), name="spender", capabilities=[DetentDurability()])

    @agent.tool_plain
    def look() -> str:
        return "seen"

    _, harness = handled(agent)
    options = {"on_budget_exceeded": policy}
    handle = harness.submit("work", lifecycle="review", max_budget_usd=1, options=options)
    harness.drain(advance=True)
    return harness, handle


def spent(harness: Harness, handle: Handle[Any]) -> tuple[int, str]:
    with harness.store.read() as view:
        (task,) = (task for task, _ in view.tasks([handle.task_id or ""]))
    return task.spent, task.state


def test_usage_is_charged_and_a_spent_budget_stops_the_agent() -> None:
    harness, handle = spending("stop")
    assert spent(harness, handle) == (1_200_000, "budget_exceeded")
    assert "the budget of the task is spent" in error_of(handle)
    assert harness.events(handle.job_id).count("run_charged") == 2
    with harness.store.read() as view:
        charged = [each for each in view.events(0, 1_000) if each.name == "run_charged"]
    assert {json.loads(each.data)["model"] for each in charged} == {"function:answer:"}


def test_an_agent_whose_budget_is_raised_goes_on() -> None:
    harness, handle = spending("ask")
    assert spent(harness, handle) == (1_200_000, "blocked")
    harness.engine.do(c.RaiseBudget(handle.task_id or "", 5_000_000), c.Actor("person"))
    harness.drain(advance=True)
    assert done(handle) == "done"
    assert spent(harness, handle)[0] == 1_800_000


# ---- streams and MCP -------------------------------------------------------------------------


def test_a_stream_that_is_cut_is_requested_again_and_events_arrive_once() -> None:
    tries: list[int] = []
    texts: list[str] = []

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        tries.append(len(tries))
        yield "good "
        if len(tries) == 1:
            raise ModelHTTPError(502, "scripted", "the connection was lost")
        yield "morning"

    async def listen(ctx: RunContext[None], events: AsyncIterable[AgentStreamEvent]) -> None:
        async for event in events:
            if isinstance(event, PartDeltaEvent):
                texts.append(getattr(event.delta, "content_delta", ""))

    agent = Agent(
        FunctionModel(stream_function=stream),
        name="streamer",
        capabilities=[DetentDurability(event_stream_handler=listen)],
    )
    _, harness = handled(agent)
    handle = harness.submit("work")
    harness.drain()
    assert recorded(harness, handle) == []
    harness.crash(after="streamer__model.request_stream#1")
    harness.drain(advance=True)
    assert done(handle) == "good morning"
    assert len(tries) == 2
    assert texts.count("morning") == 1


def test_a_call_of_an_mcp_server_is_made_once(tmp_path: Path) -> None:
    server = Path(__file__).with_name("mcp_weather.py")
    noted = tmp_path / "calls"

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked = calling("forecast", city="Oslo")
        return asked if len(messages) == 1 else saying(last_return(messages))

    transport = StdioTransport(sys.executable, [str(server), str(noted)])
    agent = Agent(
        FunctionModel(answer),
        name="forecaster",
        toolsets=[MCPToolset(transport, id="weather")],
        capabilities=[DetentDurability()],
    )
    _, harness = handled(agent)
    handle = harness.submit("work")
    harness.crash(before="forecaster__model.request#2")
    harness.drain(advance=True)
    assert "rain in Oslo" in done(handle)
    assert noted.read_text() == "Oslo\n"
    assert "forecaster__mcp_server__weather.call_tool:c1#1" in recorded(harness, handle)


# ---- tools -----------------------------------------------------------------------------------


def test_a_tool_outside_a_step_can_run_another_durable_agent() -> None:
    helper = Agent(scripted(saying("42")), name="helper", capabilities=[DetentDurability()])

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return calling("delegate") if len(messages) == 1 else saying(last_return(messages))

    agent = Agent(FunctionModel(answer), name="boss", capabilities=[DetentDurability()])

    @agent.tool_plain(metadata={"detent": False})
    async def delegate() -> str:
        return (await helper.run("the question")).output

    _, harness = handled(agent)
    handle = harness.submit("work")
    harness.drain()
    assert done(handle) == "42"
    assert recorded(harness, handle) == [
        *("boss__model.request#1", "helper__model.request#1", "boss__model.request#2")
    ]


def test_parallel_tools_keep_their_names(calls: Path) -> None:
    together = ModelResponse([ToolCallPart("look", {"at": at}, at) for at in ("a", "b")])
    agent = Agent(
        scripted(together, saying("done")),
        name="parallel",
        capabilities=[DetentDurability(parallel_tools=True)],
    )

    @agent.tool_plain
    async def look(at: str) -> str:
        scene.call(at)
        return at

    _, harness = handled(agent)
    handle = harness.submit("work")
    harness.crash(before="parallel__function_toolset__<agent>.call_tool:look:b#1")
    harness.drain(advance=True)
    assert done(handle) == "done"
    assert set(calls.read_text().split()) == {"a", "b"}


def test_an_agent_is_unchanged_outside_a_durable_block() -> None:
    agent = Agent(scripted(saying("plain")), name="plain", capabilities=[DetentDurability()])
    assert asyncio.run(agent.run("go")).output == "plain"


# ---- mistakes --------------------------------------------------------------------------------


def test_a_result_that_cannot_be_stored_is_refused() -> None:
    agent = Agent(
        scripted(calling("look"), saying("done")), name="a", capabilities=[DetentDurability()]
    )

    @agent.tool_plain
    def look() -> object:
        return object()

    _, harness = handled(agent)
    handle = harness.submit("work")
    harness.drain(advance=True)
    assert "the result of a durable step cannot be stored" in error_of(handle)
    assert recorded(harness, handle) == ["a__model.request#1"]


def test_a_changed_conversation_is_refused_on_replay() -> None:
    history: list[ModelMessage] = []
    agent = Agent(
        scripted(saying("one"), saying("two")), name="a", capabilities=[DetentDurability()]
    )
    app = App()

    @app.intent("work", retry={"retries": 0})
    async def work(run: AsyncRun) -> str:
        with durable(run):
            result = await agent.run("go", message_history=list(history))
        await run.sleep(60)
        return result.output

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain()
    history.append(ModelResponse([TextPart("a message that was not there before")]))
    harness.drain(advance=True)
    assert "the messages before 'a__model.request#1' are not those of the recorded" in error_of(
        handle
    )
