"""The lines of Gemini CLI: `gemini --output-format stream-json`."""

from collections.abc import Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.tool_call import call_items, result_item
from detent.transcript.transcript_item import Delta, Items, TranscriptItem


class Gemini:
    """Reads the lines of one process. A turn begins with the first line after a tool's result."""

    def __init__(self) -> None:
        self.turn = 0
        self._new_turn = True

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line; None if it is not a line of Gemini CLI."""
        kind = fields.name(line, "type")
        if kind == "init" and "session_id" in line:
            known = (fields.name(line, "model"), fields.name(line, "session_id"))
            return [TranscriptItem("session", text=" · ".join(filter(None, known)))]
        if kind == "message" and isinstance(line.get("content"), str) and "role" in line:
            return self._message(line)
        if kind == "tool_use" and "tool_name" in line:
            self._begin_turn()
            tool, tool_id = fields.name(line, "tool_name"), fields.name(line, "tool_id")
            return call_items(tool, tool_id, line.get("parameters"))
        if kind == "tool_result" and "tool_id" in line:
            return self._tool_result(line)
        if kind == "error" and "severity" in line:
            return [_error(line, line.get("severity") != "warning")]
        return _result(line) if kind == "result" and "status" in line else None

    def _begin_turn(self) -> None:
        self.turn += self._new_turn
        self._new_turn = False

    def _message(self, line: Mapping[str, Any]) -> Items:
        role, text = fields.name(line, "role"), fields.text(line, "content")
        if role != "user":
            self._begin_turn()
        if text is None:
            return []
        item = TranscriptItem("message", role=role, text=text)
        return [Delta(item)] if line.get("delta") is True else [item]

    def _tool_result(self, line: Mapping[str, Any]) -> Items:
        self._new_turn = True
        wrong = line.get("status") == "error"
        output = line.get("output")
        if wrong and not output:
            output = fields.text(fields.mapping(line, "error"), "message")
        return [result_item(fields.name(line, "tool_id"), output, is_error=wrong)]


def _error(holder: Mapping[str, Any], is_error: bool) -> TranscriptItem:
    text = fields.text(holder, "message") or "The agent reported an error."
    return TranscriptItem("error" if is_error else "note", text=text, is_error=is_error)


def _result(line: Mapping[str, Any]) -> Items:
    stats = fields.mapping(line, "stats")
    cost = TranscriptItem(
        "cost",
        text="Total so far",
        tokens_in=fields.count(stats, "input_tokens"),
        tokens_out=fields.count(stats, "output_tokens"),
    )
    if line.get("status") != "error":
        return [cost]
    return [_error(fields.mapping(line, "error"), True), cost]
