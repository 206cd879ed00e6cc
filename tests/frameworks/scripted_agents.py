"""A model of the OpenAI Agents SDK without a provider, and harnesses that run its agents."""

from typing import Any

from agents import Agent, ModelResponse, Usage
from agents.testing import ScriptedModel

from detent import App, AsyncRun
from detent.app.handle import Handle
from detent.integrations.openai_agents import run_agent
from detent.testing import Harness

USAGE = Usage(requests=1, input_tokens=100, output_tokens=7)


class Counted(ScriptedModel):
    """Gives the response for the number of results that it sees, also after a replay."""

    def __init__(self, *outputs: list[Any]) -> None:
        super().__init__()
        self.model = "scripted-1"
        self.outputs, self.requests = outputs, 0

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        self.requests += 1
        seen = 0 if isinstance(input, str) else sum("output" in each for each in input)
        return ModelResponse(self.outputs[seen], USAGE, None)


def handled(agent: Agent[Any], retries: int = 1, **options: Any) -> Harness:
    """A harness whose intent `work` runs the agent."""
    app = App()

    @app.intent("work", retry={"retries": retries})
    async def work(run: AsyncRun) -> str:
        return str((await run_agent(run, agent, "go", **options)).final_output)

    return Harness(app)


def recorded(harness: Harness, handle: Handle[Any]) -> list[str]:
    with harness.store.read() as view:
        return [each.name for each in view.job_checkpoints(handle.job_id)]
