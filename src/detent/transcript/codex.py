"""The lines of Codex: `codex exec --json`."""

from collections.abc import Callable, Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.tool_call import call_items, result_item
from detent.transcript.transcript_item import ItemKind, Items, TranscriptItem, clip

LINES = ("thread.", "turn.", "item.")
FAILED = ("failed", "declined")
#: The items that are texts of the agent.
TEXTS: Mapping[str, ItemKind] = {
    "agent_message": "message",
    "plan": "message",
    "reasoning": "thinking",
}
#: The maximum number of started calls that are remembered.
MAX_OPEN = 200


class Codex:
    """Reads the lines of one process. Codex counts the turns itself."""

    def __init__(self) -> None:
        self.turn = 0
        self._open: dict[str, None] = {}
        self._todo = ""

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line; None if it is not a line of Codex."""
        kind = fields.name(line, "type") or ""
        if kind == "error" and "sessionID" not in line and "severity" not in line:
            return [_error(line)]
        if not kind.startswith(LINES):
            return None
        if kind.startswith("item."):
            return self._item(kind.removeprefix("item."), fields.mapping(line, "item"))
        if kind == "thread.started":
            return [TranscriptItem("session", text=fields.name(line, "thread_id") or "")]
        if kind == "turn.started":
            self.turn += 1
        if kind == "turn.failed":
            return [_error(fields.mapping(line, "error"))]
        return [_cost(line)] if kind == "turn.completed" else []

    def _item(self, stage: str, item: Mapping[str, Any]) -> Items:
        kind = fields.name(item, "type") or ""
        if kind == "todo_list":
            return self._todo_list(item)
        tool = TOOLS.get(kind)
        if tool is not None:
            return self._tool(stage, item, *tool(item))
        if stage != "completed":
            return []
        if kind == "file_change":
            return _file_change(item)
        if kind == "error":
            return [_error(item)]
        text = fields.text(item, "text")
        shape = TEXTS.get(kind)
        if shape is None:
            return [
                TranscriptItem("note", text=clip(f"{kind.replace('_', ' ')} {text or ''}".strip()))
            ]
        return [] if text is None else [TranscriptItem(shape, role="assistant", text=text)]

    def _tool(
        self, stage: str, item: Mapping[str, Any], tool: str, given: Any, output: Any
    ) -> Items:
        tool_id = fields.name(item, "id")
        items: list[TranscriptItem] = []
        if stage == "updated":
            return items
        if tool_id is None or tool_id not in self._open:
            items += call_items(tool, tool_id, given)
        if stage == "started":
            self._remember(tool_id)
            return items
        self._open.pop(tool_id or "", None)
        code = item.get("exit_code")
        wrong = fields.name(item, "status") in FAILED or (isinstance(code, int) and code != 0)
        return [*items, result_item(tool_id, output, is_error=wrong, tool=tool)]

    def _remember(self, tool_id: str | None) -> None:
        if tool_id is not None:
            self._open[tool_id] = None
            if len(self._open) > MAX_OPEN:
                del self._open[next(iter(self._open))]

    def _todo_list(self, item: Mapping[str, Any]) -> Items:
        """The to-do list, if it has changed: each line repeats the whole list."""
        text = "\n".join(
            f"[{'x' if each.get('completed') is True else ' '}] {fields.name(each, 'text') or ''}"
            for each in fields.blocks(item.get("items"))[:1_000]
        )
        if text == self._todo:
            return []
        self._todo = clip(text)
        return [TranscriptItem("note", text=self._todo)]


def _command(item: Mapping[str, Any]) -> tuple[str, Any, Any]:
    return "shell", {"command": item.get("command")}, item.get("aggregated_output")


def _mcp(item: Mapping[str, Any]) -> tuple[str, Any, Any]:
    names = (fields.name(item, "server"), fields.name(item, "tool"))
    error = fields.text(fields.mapping(item, "error"), "message")
    result = fields.mapping(item, "result")
    output = error or result.get("content") or result.get("structured_content")
    return ".".join(filter(None, names)) or "mcp", item.get("arguments"), output


def _agents(item: Mapping[str, Any]) -> tuple[str, Any, Any]:
    return (
        fields.name(item, "tool") or "agents",
        {"prompt": item.get("prompt")},
        item.get("agents_states"),
    )


def _search(item: Mapping[str, Any]) -> tuple[str, Any, Any]:
    return "web_search", {"query": item.get("query")}, None


#: By the type of an item: the tool, its input and its output.
TOOLS: Mapping[str, Callable[[Mapping[str, Any]], tuple[str, Any, Any]]] = {
    "command_execution": _command,
    "mcp_tool_call": _mcp,
    "collab_tool_call": _agents,
    "web_search": _search,
}


def _file_change(item: Mapping[str, Any]) -> Items:
    """Changed files. Most versions name the files only; a diff is shown if there is one."""
    tool_id, failed = fields.name(item, "id"), item.get("status") in FAILED
    items: list[TranscriptItem] = []
    for change in fields.blocks(item.get("changes")):
        path, kind = fields.name(change, "path"), fields.name(change, "kind")
        items.append(
            TranscriptItem(
                "edit",
                tool="apply_patch",
                tool_id=tool_id,
                text=" ".join(filter(None, (kind, path))),
                path=path,
                diff=fields.text(change, "diff", "unified_diff"),
                is_error=failed,
            )
        )
    return items


def _error(holder: Mapping[str, Any]) -> TranscriptItem:
    text = fields.text(holder, "message") or "The agent reported an error."
    return TranscriptItem("error", text=text, is_error=True)


def _cost(line: Mapping[str, Any]) -> TranscriptItem:
    """The tokens so far: Codex reports those of the whole session, also after it was resumed."""
    usage = fields.mapping(line, "usage")
    return TranscriptItem(
        "cost",
        text="Total of the session",
        tokens_in=fields.count(usage, "input_tokens"),
        tokens_out=fields.count(usage, "output_tokens"),
    )
