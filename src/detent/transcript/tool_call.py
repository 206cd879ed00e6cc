"""The items of tool calls and their results, the same for all agents."""

from collections.abc import Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.edit_diff import PATHS, edits_of
from detent.transcript.transcript_item import MAX_SUMMARY, TranscriptItem, clip, one_line

#: The arguments that say most about a call, the best first.
TELLING = (
    *("command", "cmd", *PATHS, "pattern", "query", "url", "uri", "skill", "description", "prompt"),
    *("subject", "question", "message", "name", "text"),
)
UNKNOWN = "unknown tool"


def call_items(tool: str | None, tool_id: str | None, given: Any) -> list[TranscriptItem]:
    """A tool call: one edit for each file that it changes, or the call with its input."""
    called = tool or UNKNOWN
    edits = edits_of(called, given) if isinstance(given, Mapping) else []
    if edits:
        return [
            TranscriptItem("edit", tool=called, tool_id=tool_id, text=path, path=path, diff=diff)
            for path, diff in edits
        ]
    path = fields.name(given, *PATHS)
    text, shown = summary(given), arguments(given)
    return [
        TranscriptItem("tool_call", text=text, tool=called, tool_id=tool_id, input=shown, path=path)
    ]


def result_item(
    tool_id: str | None, output: Any, *, is_error: bool = False, tool: str | None = None
) -> TranscriptItem:
    """The result of a tool call."""
    shown = fields.shown(output)
    return TranscriptItem(
        "tool_result", tool=tool, tool_id=tool_id, output=shown, is_error=is_error
    )


def arguments(given: Any) -> str | None:
    """The input of a call as text: a single text as it is, else one argument after another."""
    if not given or not isinstance(given, Mapping):
        return fields.shown(given) if given else None
    values = {str(key)[:MAX_SUMMARY]: fields.shown(value) for key, value in given.items()}
    if len(values) == 1 and isinstance(next(iter(given.values())), str):
        return next(iter(values.values()))
    return clip("\n".join(f"{key}:{_after(value)}" for key, value in values.items()))


def _after(value: str) -> str:
    return f"\n{value}" if "\n" in value else f" {value}"


def summary(given: Any) -> str | None:
    """The most important argument of a call, on one line."""
    if isinstance(given, str):
        return one_line(given) or None
    if not isinstance(given, Mapping):
        return None
    for each in TELLING:
        value = given.get(each)
        if isinstance(value, list) and value and all(isinstance(part, str) for part in value):
            value = " ".join(value[:20])
        if isinstance(value, str) and value.strip():
            return one_line(value)
    return None
