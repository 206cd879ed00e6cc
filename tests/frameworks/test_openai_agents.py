"""Agents of the OpenAI Agents SDK in handlers: kills, approvals, budgets, streams, mistakes."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelResponse, RunConfig, function_tool, set_trace_processors
from agents.mcp import MCPServerStdio
from agents.testing import ScriptedModel, assistant_message, function_call
from agents.tracing import TracingProcessor

from detent import App, AsyncRun
from detent.app.handle import Handle
from detent.integrations.openai_agents import run_agent
from detent.testing import Harness
from tests.frameworks import agents_trip as scene
from tests.frameworks.kills import check, kill_everywhere
from tests.frameworks.scripted_agents import USAGE, Counted, handled, recorded
from tests.worker.waiting import done, error_of, installation, until, working


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[Path]:
    scene.calls_file = tmp_path / "calls"
    yield scene.calls_file
    scene.calls_file = Path("calls")


def asks(handle: Handle[Any]) -> bool:
    return handle.state() == "parked"


def test_a_kill_at_any_write_repeats_at_most_one_call(tmp_path: Path) -> None:
    found = kill_everywhere(scene.__name__, "session-trip", tmp_path)
    check(found, {"output": scene.RESULT, "items": scene.ITEMS}, scene.CALLS)


def test_each_call_is_a_step_and_handoffs_are_followed(calls: Path) -> None:
    harness = Harness(scene.app)
    handle = harness.submit("trip", scene.PAYLOAD)
    harness.drain()
    handle.answer("approve")
    harness.drain()
    assert done(handle) == scene.RESULT
    assert calls.read_text().splitlines() == list(scene.CALLS)
    assert recorded(harness, handle) == [
        *("reception__model.request#1", "reception__model.request#2"),
        *("reception__tool:weather:Rome#1", "reception__tool:weather:Oslo#1"),
        *("reception__model.request#3", "reception__approve:book:booking#1"),
        *("reception__tool:book:booking#1", "reception__model.request#4"),
    ]


def test_a_denied_call_is_not_made_and_the_model_gets_the_reason(calls: Path) -> None:
    harness = Harness(scene.app)
    handle = harness.submit("plain-trip", scene.PAYLOAD)
    harness.drain()
    handle.answer("too expensive")
    harness.drain()
    assert done(handle) == "sunny in Rome, sunny in Oslo, too expensive"
    assert "book" not in calls.read_text()


def test_handlers_of_both_kinds_run_in_one_worker(tmp_path: Path, calls: Path) -> None:
    with installation(tmp_path / "data", worker_poll_ms=20) as core:
        app = scene.app.bind(core)
        with working(core, app, concurrency=4):
            handles = [app.submit(each, scene.PAYLOAD) for each in ("trip", "plain-trip") * 2]
            for handle in handles:
                until(partial(asks, handle), "it asks")
                handle.answer("approve")
            assert [each.result(timeout=60) for each in handles] == [scene.RESULT] * 4


class Overtaken(ScriptedModel):
    """Answers with the city that it is asked about: Rome waits for the second request of Oslo."""

    def __init__(self) -> None:
        super().__init__()
        self.overtaken = asyncio.Event()

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        city, outputs = input[0]["content"], [each["output"] for each in input if "output" in each]
        if outputs:
            self.overtaken.set()
            return ModelResponse([assistant_message(outputs[0])], USAGE, None)
        if city == "Rome":
            await self.overtaken.wait()
        call = function_call("look", {"city": city}, call_id="the same id")
        return ModelResponse([call], USAGE, None)


def test_runs_of_an_agent_at_the_same_time_keep_their_results_in_a_replay() -> None:
    """The run that starts first ends last; in the replay their calls end in the order of names."""
    looked: list[str] = []

    @function_tool
    def look(city: str) -> str:
        """Look."""
        looked.append(city)
        return f"saw {city}"

    agent = Agent(name="a", model=Overtaken(), tools=[look])
    app = App()

    @app.intent("work")
    async def work(run: AsyncRun) -> list[str]:
        found = await asyncio.gather(*(run_agent(run, agent, each) for each in ("Rome", "Oslo")))
        await run.sleep(60)
        return [str(each.final_output) for each in found]

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain(advance=True)
    assert done(handle) == ["saw Rome", "saw Oslo"]
    assert looked == ["Oslo", "Rome"]


def test_the_price_counts_against_the_budget() -> None:
    model = Counted(
        [function_call("look", "{}", call_id="c1")],
        [function_call("look", "{}", call_id="c2")],
        [assistant_message("done")],
    )

    @function_tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = Agent(name="spender", model=model, tools=[look])
    harness = handled(agent, price=lambda response: 0.6)
    handle = harness.submit("work", lifecycle="review", max_budget_usd=1)
    harness.drain(advance=True)
    assert "the budget of the task is spent" in error_of(handle)
    assert model.requests == 2
    with harness.store.read() as view:
        (run,) = view.runs([handle.job().run_id or ""])
        charged = [each for each in view.events(0, 1_000) if each.name == "run_charged"]
    assert (run.cost, run.tokens_in, run.tokens_out) == (1_200_000, 200, 14)
    assert {json.loads(each.data)["model"] for each in charged} == {"scripted-1"}


# ---- streams, MCP, traces --------------------------------------------------------------------


class Cut(ScriptedModel):
    """A stream that ends in the middle once."""

    def __init__(self) -> None:
        super().__init__()
        self.requests = 0

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        self.requests += 1
        complete = self.requests > 1

        async def stream() -> AsyncIterator[Any]:
            scripted = ScriptedModel([[assistant_message("good morning")]], default_usage=USAGE)
            async for event in scripted.stream_response(*args, **kwargs):
                if event.type == "response.completed" and not complete:
                    return
                yield event

        return stream()


def test_a_stream_that_is_cut_is_requested_again() -> None:
    model, events = Cut(), []

    async def listen(event: Any) -> None:
        events.append(event.type)

    harness = handled(Agent(name="streamer", model=model), on_event=listen)
    handle = harness.submit("work")
    harness.drain()
    assert recorded(harness, handle) == []
    assert events
    harness.crash(after="streamer__model.stream#1")
    harness.drain(advance=True)
    assert done(handle) == "good morning"
    assert model.requests == 2


def test_a_call_of_an_mcp_server_is_made_once(tmp_path: Path) -> None:
    noted = tmp_path / "calls"
    model = Counted(
        [function_call("forecast", {"city": "Oslo"}, call_id="c1")], [assistant_message("rain")]
    )
    command = [str(Path(__file__).with_name("mcp_weather.py")), str(noted)]
    app = App()

    @app.intent("work")
    async def work(run: AsyncRun) -> str:
        server = MCPServerStdio({"command": sys.executable, "args": command}, name="weather")
        async with server:
            agent = Agent(name="forecaster", model=model, mcp_servers=[server])
            return str((await run_agent(run, agent, "go")).final_output)

    harness = Harness(app)
    handle = harness.submit("work")
    harness.crash(before="forecaster__model.request#2")
    harness.drain(advance=True)
    assert done(handle) == "rain"
    assert noted.read_text() == "Oslo\n"
    assert [each for each in recorded(harness, handle) if "call_tool" in each]


class Noting(TracingProcessor):
    """Notes the traces that the SDK would send."""

    def __init__(self) -> None:
        self.traces: list[Any] = []

    def on_trace_start(self, trace: Any) -> None:
        self.traces.append(trace)

    def on_trace_end(self, trace: Any) -> None: ...

    def on_span_start(self, span: Any) -> None: ...

    def on_span_end(self, span: Any) -> None: ...

    def shutdown(self) -> None: ...

    def force_flush(self) -> None: ...


@pytest.mark.parametrize("tracing", [False, True])
def test_traces_are_sent_only_if_wanted(tracing: bool) -> None:
    noting = Noting()
    set_trace_processors([noting])
    try:
        agent = Agent(name="a", model=Counted([assistant_message("done")]))
        harness = handled(agent, tracing=tracing, run_config=RunConfig(workflow_name="w"))
        handle = harness.submit("work")
        harness.drain()
        assert done(handle) == "done"
    finally:
        set_trace_processors([])
    assert len(noting.traces) == tracing


# ---- mistakes --------------------------------------------------------------------------------


def test_a_changed_conversation_is_refused_on_replay() -> None:
    agent = Agent(name="a", model=Counted([assistant_message("done")]))
    given: list[Any] = [{"role": "user", "content": "go"}]
    app = App()

    @app.intent("work", retry={"retries": 0})
    async def work(run: AsyncRun) -> str:
        result = await run_agent(run, agent, list(given))
        await run.sleep(60)
        return str(result.final_output)

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain()
    given.append({"role": "user", "content": "and now?"})
    harness.drain(advance=True)
    assert "the messages before 'a__model.request#1' are not those of the recorded" in error_of(
        handle
    )
