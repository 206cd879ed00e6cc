"""The messages of the Agent Client Protocol (ACP), one JSON-RPC object in each line.

The output has the agent's messages, and detent's answers to its requests for permission.
"""

from collections.abc import Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.edit_diff import edits_of
from detent.transcript.tool_call import UNKNOWN, arguments, result_item
from detent.transcript.transcript_item import Delta, ItemKind, Items, TranscriptItem, clip

CHUNKS: Mapping[str, tuple[ItemKind, str]] = {
    "user_message_chunk": ("message", "user"),
    "agent_message_chunk": ("message", "assistant"),
    "agent_thought_chunk": ("thinking", "assistant"),
}
MARKS = {"completed": "[x]", "in_progress": "[>]"}
ENDED = ("completed", "failed")


class Acp:
    """Reads the messages of one process. A turn begins with the first one after a tool's result."""

    def __init__(self) -> None:
        self.turn = 0
        self._new_turn = True

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a message; None if it is not a message of JSON-RPC."""
        if line.get("jsonrpc") != "2.0":
            return None
        params, method = fields.mapping(line, "params"), line.get("method")
        if method == "session/update":
            return self._update(fields.mapping(params, "update"))
        if method == "session/request_permission":
            return [_request(params)]
        if method is not None:
            return []
        if isinstance(line.get("error"), Mapping):
            return [_error(fields.mapping(line, "error"))]
        return _response(fields.mapping(line, "result"))

    def _update(self, update: Mapping[str, Any]) -> Items:
        kind = fields.name(update, "sessionUpdate")
        chunk = CHUNKS.get(kind or "")
        if chunk is not None:
            text = _content(update.get("content"))
            self._begin_turn(kind != "user_message_chunk")
            item = TranscriptItem(chunk[0], role=chunk[1], text=text)
            return [Delta(item)] if text else []
        if kind in ("tool_call", "tool_call_update"):
            return self._tool_call(update, begins=kind == "tool_call")
        if kind == "plan":
            return [TranscriptItem("note", text=plan_text(update.get("entries")))]
        return [_usage(update)] if kind == "usage_update" and update.get("cost") else []

    def _begin_turn(self, of_agent: bool) -> None:
        if of_agent:
            self.turn += self._new_turn
            self._new_turn = False

    def _tool_call(self, update: Mapping[str, Any], *, begins: bool) -> Items:
        self._begin_turn(True)
        tool_id, ended = fields.name(update, "toolCallId"), update.get("status") in ENDED
        items = edit_items(update)
        if not items and begins:
            items = [_call(update)]
        if ended:
            self._new_turn = True
            output = update.get("rawOutput") or _content(update.get("content"))
            items.append(result_item(tool_id, output, is_error=update.get("status") == "failed"))
        return items


def edit_items(call: Mapping[str, Any]) -> list[TranscriptItem]:
    """The edits of a tool call, one for each file."""
    tool, tool_id = tool_name(call), fields.name(call, "toolCallId")
    items = []
    for block in fields.blocks(call.get("content")):
        for path, diff in edits_of(tool, block) if block.get("type") == "diff" else ():
            items.append(
                TranscriptItem("edit", tool=tool, tool_id=tool_id, text=path, path=path, diff=diff)
            )
    return items


def tool_name(call: Mapping[str, Any]) -> str:
    return fields.name(call, "kind") or UNKNOWN


def plan_text(entries: Any) -> str:
    """The entries of a plan as lines, each with a mark for its status."""
    lines = [
        f"{MARKS.get(str(each.get('status')), '[ ]')} {fields.text(each, 'content') or ''}"
        for each in fields.blocks(entries)
    ]
    return clip("\n".join(["Plan:", *lines]))


def _call(call: Mapping[str, Any]) -> TranscriptItem:
    location = next(iter(fields.blocks(call.get("locations"))), {})
    return TranscriptItem(
        "tool_call",
        text=fields.name(call, "title"),
        tool=tool_name(call),
        tool_id=fields.name(call, "toolCallId"),
        input=arguments(call.get("rawInput")),
        path=fields.name(location, "path"),
    )


def _content(content: Any) -> str:
    """The text of a content block, or of the blocks of a tool call."""
    if isinstance(content, Mapping):
        return fields.text(content, "text") or ""
    found = [fields.mapping(each, "content") for each in fields.blocks(content)]
    return fields.shown([each for each in found if each])


def _request(params: Mapping[str, Any]) -> TranscriptItem:
    call = fields.mapping(params, "toolCall")
    names = [fields.name(each, "name") or "" for each in fields.blocks(params.get("options"))]
    what = fields.name(call, "title") or tool_name(call)
    return TranscriptItem("note", text=f"Asks for permission: {what} ({', '.join(names)})")


def _response(result: Mapping[str, Any]) -> Items:
    """The items of a response: a new session, the end of the turn, or detent's own answer."""
    if fields.name(result, "sessionId"):
        return [TranscriptItem("session", text=fields.name(result, "sessionId"))]
    outcome = fields.mapping(result, "outcome")
    if outcome:
        chosen = fields.name(outcome, "optionId") or fields.name(outcome, "outcome")
        return [TranscriptItem("note", text=f"Permission: {chosen}")]
    reason = fields.name(result, "stopReason")
    if reason is None:
        return []
    usage = fields.mapping(result, "usage")
    item = TranscriptItem(
        "cost",
        text="Total so far",
        tokens_in=_tokens_in(usage),
        tokens_out=fields.count(usage, "outputTokens"),
    )
    ended = [] if reason == "end_turn" else [TranscriptItem("note", text=f"Ended: {reason}")]
    return [*ended, *([item] if usage else [])]


def _tokens_in(usage: Mapping[str, Any]) -> int | None:
    """With those of a cache, which not every agent includes in the input."""
    given, total = fields.count(usage, "inputTokens"), fields.count(usage, "totalTokens")
    if given is None or total is None:
        return given
    return max(given, total - (fields.total(usage, "outputTokens", "thoughtTokens") or 0))


def _usage(update: Mapping[str, Any]) -> TranscriptItem:
    cost = fields.mapping(update, "cost")
    in_dollars = fields.name(cost, "currency") == "USD"
    amount = fields.dollars(cost, "amount") if in_dollars else None
    return TranscriptItem("cost", text="Total so far", cost_usd=amount)


def _error(error: Mapping[str, Any]) -> TranscriptItem:
    text = fields.text(error, "message") or "The agent reported an error."
    return TranscriptItem("error", text=text, is_error=True)
