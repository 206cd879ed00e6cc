"""Tools of the OpenAI Agents SDK and repeated requests: a replay repeats neither."""

import asyncio
from typing import Any

from agents import (
    Agent,
    CustomTool,
    ModelProvider,
    ModelResponse,
    ModelSettings,
    RunConfig,
    ShellTool,
    function_tool,
)
from agents.retry import ModelRetryBackoffSettings, ModelRetrySettings
from agents.testing import assistant_message, function_call
from openai.types.responses import ResponseCustomToolCall

from detent import App, AsyncRun
from detent.app.handle import Handle
from detent.integrations.openai_agents import run_agent
from detent.testing import Harness
from tests.frameworks.scripted_agents import Counted, handled, recorded
from tests.worker.waiting import done, error_of


class Unsteady(Counted):
    """Its first request fails."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        if self.requests == 0:
            self.requests += 1
            raise ConnectionError("reset by peer")
        return await super().get_response(*args, **kwargs)


@function_tool
def look() -> str:
    """Look."""
    return "seen"


def replayed(agent: Agent[Any], **options: Any) -> tuple[Harness, Handle[Any]]:
    """A job that runs the agent, waits, and is executed again."""
    app = App()

    @app.intent("work", retry={"retries": 0})
    async def work(run: AsyncRun) -> str:
        result = await run_agent(run, agent, "go", **options)
        await run.sleep(60)
        return str(result.final_output)

    harness = Harness(app)
    handle = harness.submit("work")
    harness.drain(advance=True)
    return harness, handle


def test_a_replay_does_not_repeat_a_request_that_the_sdk_has_sent_again() -> None:
    again = ModelRetrySettings(
        max_retries=2,
        policy=lambda _: True,
        backoff=ModelRetryBackoffSettings(initial_delay=0.001),
    )
    model = Unsteady([function_call("look", "{}", call_id="c1")], [assistant_message("done")])
    agent = Agent(name="a", model=model, tools=[look], model_settings=ModelSettings(retry=again))
    harness, handle = replayed(agent)
    assert done(handle) == "done"
    assert model.requests == 3
    assert recorded(harness, handle) == [
        *("a__model.request#1", "a__tool:look:c1#1", "a__model.request#2", "sleep"),
    ]


def test_an_agent_that_a_tool_runs_is_part_of_the_step_of_the_tool() -> None:
    """Its model comes from the provider of the outer agent, and its requests are charged."""
    models = {
        "inner": Counted([function_call("look", "{}", call_id="c2")], [assistant_message("rain")]),
        "outer": Counted([function_call("ask", '{"input": "?"}', call_id="c1")], []),
    }
    models["outer"].outputs[1].append(assistant_message("done"))

    class Provider(ModelProvider):
        def get_model(self, model_name: str | None) -> Counted:
            return models[model_name or ""]

    inner = Agent(name="inner", model="inner", tools=[look])
    outer = Agent(name="outer", model="outer", tools=[inner.as_tool("ask", "Ask.")])
    harness, handle = replayed(outer, run_config=RunConfig(model_provider=Provider()))
    assert done(handle) == "done"
    assert [each.requests for each in models.values()] == [2, 2]
    assert recorded(harness, handle) == [
        *("outer__model.request#1", "outer__tool:ask:c1#1", "outer__model.request#2", "sleep"),
    ]
    with harness.store.read() as view:
        events = [each.name for each in view.events(0, 1_000)]
    assert events.count("run_charged") == 4


def test_a_custom_tool_is_called_once() -> None:
    called: list[str] = []

    async def invoke(_: Any, text: str) -> str:
        called.append(text)
        return "seen"

    call = ResponseCustomToolCall(call_id="c1", input="x", name="look", type="custom_tool_call")
    tool = CustomTool(name="look", description="Look.", on_invoke_tool=invoke)
    model = Counted([call], [assistant_message("done")])
    _, handle = replayed(Agent(name="a", model=model, tools=[tool]))
    assert done(handle) == "done"
    assert called == ["x"]


def test_a_tool_that_is_over_its_time_is_called_once() -> None:
    called: list[str] = []

    @function_tool(timeout=0.01)
    async def hang() -> str:
        """Hang."""
        called.append("hang")
        await asyncio.Event().wait()
        return "never"

    model = Counted([function_call("hang", "{}", call_id="c1")], [assistant_message("done")])
    harness, handle = replayed(Agent(name="a", model=model, tools=[hang]))
    assert done(handle) == "done"
    assert called == ["hang"]
    assert "a__tool:hang:c1#1" in recorded(harness, handle)


# ---- mistakes --------------------------------------------------------------------------------


def test_a_result_that_cannot_be_stored_is_refused() -> None:
    @function_tool(failure_error_function=None)
    def look() -> object:
        """Look."""
        return object()

    model = Counted([function_call("look", "{}", call_id="c1")], [assistant_message("done")])
    harness = handled(Agent(name="a", model=model, tools=[look]), retries=0)
    handle = harness.submit("work")
    harness.drain(advance=True)
    assert "the result of step 'a__tool:look:c1#1' cannot be stored" in error_of(handle)
    assert recorded(harness, handle) == ["a__model.request#1"]


def test_an_agent_that_a_tool_runs_cannot_ask_for_an_approval() -> None:
    @function_tool(needs_approval=True)
    def book() -> str:
        """Book."""
        return "booked"

    booking = Counted([function_call("book", "{}", call_id="c2")])
    inner = Agent(name="inner", model=booking, tools=[book])
    model = Counted([function_call("ask", '{"input": "?"}', call_id="c1")])
    agent = Agent(name="outer", model=model, tools=[inner.as_tool("ask", "Ask.")])
    harness = handled(agent, retries=0)
    handle = harness.submit("work")
    harness.drain()
    assert "tool 'ask' wants to call book, which needs an approval" in error_of(handle)
    assert recorded(harness, handle) == ["outer__model.request#1"]


def test_a_tool_whose_calls_cannot_be_recorded_is_refused() -> None:
    agent = Agent(
        name="a", model=Counted([]), tools=[ShellTool(executor=lambda _: "nothing to see")]
    )
    handle = (harness := handled(agent, retries=0)).submit("work")
    harness.drain()
    assert "the calls of a ShellTool cannot be recorded" in error_of(handle)
