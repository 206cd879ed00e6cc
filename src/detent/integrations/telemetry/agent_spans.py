"""What traces say about agents, in the GenAI semantic conventions of OpenTelemetry.

The span of a run gets the model, the tokens and the session of its agent; each tool call in the
output of the agent is a span of its own. Arguments and results of tools are not exported: they can
contain anything. Reads the store and the outputs of runs.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from detent.integrations.telemetry.state_changes import Began, Usage
from detent.operations.context import Core
from detent.operations.run_transcript import agent_of, preset_of, whole_transcript
from detent.transcript.transcript_item import TranscriptItem

#: By the preset of an agent or the service of a provider, its name in the conventions.
PROVIDERS = {
    "claude": "anthropic",
    "codex": "openai",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
}
#: How many tool calls of a run are spans.
MAX_TOOL_CALLS = 500

Attributes = Mapping[str, str | int | float]


def agent_attributes(core: Core, intent: str, began: Began, usage: Usage | None) -> Attributes:
    """The attributes of an agent's run; none for any other run."""
    if usage is None and began.session is None:
        return {}
    found = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent_of(core, intent) or intent,
        "gen_ai.provider.name": _provider(core, intent, began),
        "gen_ai.conversation.id": began.session or "",
    }
    if usage is None:
        return found
    return {
        **found,
        "gen_ai.request.model": usage.model or "",
        "gen_ai.usage.input_tokens": usage.tokens_in,
        "gen_ai.usage.output_tokens": usage.tokens_out,
        "detent.cost_usd": usage.cost / 1_000_000,
    }


def _provider(core: Core, intent: str, began: Began) -> str:
    """The provider that the run has leased, else that of the agent's preset; empty if unknown."""
    leased = core.providers.get(began.resource or "")
    if leased is not None:
        return PROVIDERS.get(leased.service, leased.service)
    return PROVIDERS.get(preset_of(core, intent) or "", "")


class ToolCall(NamedTuple):
    """A tool call of an agent. Times in microseconds; the output has them about every second."""

    number: int
    tool: str
    call_id: str | None
    start: int
    end: int
    failed: bool

    @property
    def attributes(self) -> Attributes:
        return {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": self.tool,
            "gen_ai.tool.call.id": self.call_id or "",
            "error.type": "tool_error" if self.failed else "",
        }


def tool_calls(core: Core, run_id: str, intent: str, start: int, end: int) -> Iterator[ToolCall]:
    """The tool calls in the output of a run that took place in this time, at most 500."""

    def within(item: TranscriptItem, otherwise: int) -> int:
        return min(max(otherwise if item.at is None else item.at, start), end)

    calls: list[ToolCall] = []
    waiting: dict[str | None, int] = {}
    for item in whole_transcript(core, run_id, intent):
        called = item.tool_id if item.tool_id in waiting else None
        if item.kind in ("tool_call", "edit") and (item.tool_id is None or called is None):
            if len(calls) == MAX_TOOL_CALLS:
                break
            begun = within(item, calls[-1].end if calls else start)
            waiting[item.tool_id] = len(calls)
            calls.append(
                ToolCall(len(calls) + 1, item.tool or "", item.tool_id, begun, begun, False)
            )
        elif item.kind == "tool_result" and item.tool_id in waiting:
            place = waiting.pop(item.tool_id)
            call = calls[place]
            ended = max(call.start, within(item, call.start))
            calls[place] = call._replace(end=ended, failed=item.is_error)
    yield from calls
