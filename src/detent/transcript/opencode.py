"""The lines of opencode: `opencode run --format json`."""

from collections.abc import Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.edit_diff import PATHS
from detent.transcript.tool_call import call_items, result_item
from detent.transcript.transcript_item import ItemKind, Items, TranscriptItem

TEXTS: Mapping[str, ItemKind] = {"text": "message", "reasoning": "thinking"}


class Opencode:
    """Reads the lines of one process. A turn is one step of opencode."""

    def __init__(self) -> None:
        self.turn = 0
        self._session: str | None = None

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line; None if it is not a line of opencode."""
        session = fields.name(line, "sessionID")
        if session is None:
            return None
        kind, part = fields.name(line, "type"), fields.mapping(line, "part")
        items: list[TranscriptItem] = []
        if session != self._session:
            self._session = session
            items.append(TranscriptItem("session", text=session))
        if kind == "step_start":
            self.turn += 1
        elif kind is not None and kind in TEXTS and fields.text(part, "text") is not None:
            text = fields.text(part, "text")
            items.append(TranscriptItem(TEXTS[kind], role="assistant", text=text))
        elif kind == "tool_use":
            items += _tool(part)
        elif kind == "step_finish":
            items.append(_cost(part))
        elif kind == "error":
            items.append(_error(line.get("error")))
        return items


def _tool(part: Mapping[str, Any]) -> list[TranscriptItem]:
    """A tool that has ended: the line has its input and its output."""
    tool, tool_id = fields.name(part, "tool"), fields.name(part, "callID")
    state = fields.mapping(part, "state")
    wrong = state.get("status") == "error"
    given = state.get("input")
    items = call_items(tool, tool_id, given)
    diff = fields.text(fields.mapping(state, "metadata"), "diff")
    if diff is not None and not wrong:
        path = fields.name(given, *PATHS)
        items = [
            TranscriptItem("edit", tool=tool, tool_id=tool_id, text=path, path=path, diff=diff)
        ]
    output = state.get("error") if wrong else state.get("output")
    return [*items, result_item(tool_id, output, is_error=wrong, tool=tool)]


def _cost(part: Mapping[str, Any]) -> TranscriptItem:
    tokens = {**fields.mapping(part, "tokens"), **fields.mapping(part, "tokens", "cache")}
    return TranscriptItem(
        "cost",
        text="This turn",
        cost_usd=fields.dollars(part, "cost"),
        tokens_in=fields.total(tokens, "input", "read", "write"),
        tokens_out=fields.count(tokens, "output"),
    )


def _error(error: Any) -> TranscriptItem:
    data = fields.mapping(error, "data")
    text = fields.text(data, "message") or fields.text(error, "message", "name")
    given = fields.shown(error) if text is None else text
    return TranscriptItem("error", text=given or "The agent reported an error.", is_error=True)
