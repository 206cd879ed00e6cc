"""The lines of Cursor's agent: `cursor-agent --print --output-format stream-json`.

Messages, the session and the result have the form of Claude Code's lines; tool calls do not.
"""

from collections.abc import Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.claude import Claude
from detent.transcript.edit_diff import PATHS
from detent.transcript.tool_call import call_items, result_item
from detent.transcript.transcript_item import Delta, Items, TranscriptItem

SUFFIX = "ToolCall"
#: The parts of a successful result that are its output, the best first.
OUTPUTS = ("content", "stdout", "output", "diffString", "message")


class Cursor:
    """Reads the lines of one process."""

    def __init__(self) -> None:
        self._shared = Claude()

    @property
    def turn(self) -> int:
        return self._shared.turn

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line; None if it is not a line of Cursor's agent."""
        kind = fields.name(line, "type")
        if kind == "tool_call" and isinstance(line.get("tool_call"), Mapping):
            return _tool_call(line)
        if kind == "thinking" and "subtype" in line:
            text = fields.text(line, "text")
            if text is None:
                return []
            return [Delta(TranscriptItem("thinking", role="assistant", text=text))]
        return self._shared.read(line)


def _tool_call(line: Mapping[str, Any]) -> Items:
    tool, call = _named(fields.mapping(line, "tool_call"))
    tool_id, given = fields.name(line, "call_id"), call.get("args", call.get("arguments"))
    if line.get("subtype") == "started":
        return call_items(tool, tool_id, given)
    result = fields.mapping(call, "result")
    success = fields.mapping(result, "success")
    diff = fields.text(success, "diffString")
    if diff is not None:
        path = fields.name(given, *PATHS)
        return [TranscriptItem("edit", tool=tool, tool_id=tool_id, text=path, path=path, diff=diff)]
    wrong = "success" not in result and bool(result)
    return [result_item(tool_id, _output(result), is_error=wrong, tool=tool)]


def _named(call: Mapping[str, Any]) -> tuple[str | None, Mapping[str, Any]]:
    """`{"readToolCall": {…}}`, or `{"function": {"name": "read", "arguments": "…"}}`."""
    function = fields.mapping(call, "function")
    if function:
        return fields.name(function, "name"), {**function, "result": call.get("result")}
    for key, value in call.items():
        if isinstance(value, Mapping) and key.endswith(SUFFIX):
            return key.removesuffix(SUFFIX)[:200], value
    return None, {}


def _output(result: Mapping[str, Any]) -> Any:
    success = fields.mapping(result, "success")
    texts = [fields.text(success, each) for each in OUTPUTS]
    found = next(filter(None, texts), None)
    errors = fields.text(success, "stderr")
    if found is None and errors is None:
        return success or result.get("error") or result or None
    return "\n".join(filter(None, (found, errors)))
