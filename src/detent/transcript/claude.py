"""The lines of Claude Code: `claude -p --output-format stream-json --verbose`."""

from collections.abc import Mapping
from typing import Any

from detent.transcript import json_fields as fields
from detent.transcript.tool_call import call_items, result_item
from detent.transcript.transcript_item import Items, TranscriptItem, clip

#: Tokens that the model was given: those that were in no cache, and those of its cache.
TOKENS_IN = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
#: Lines without content of their own: parts of messages that follow as a whole, and requests.
SILENT = frozenset(
    {"stream_event", "rate_limit_event", "control_request", "control_response", "keep_alive"}
)


class Claude:
    """Reads the lines of one process. A turn is one message of the model."""

    def __init__(self) -> None:
        self.turn = 0
        self._message_id: str | None = None
        self._last_text: str | None = None

    def read(self, line: Mapping[str, Any]) -> Items | None:
        """The items of a line; None if it is not a line of Claude Code."""
        kind = fields.name(line, "type")
        if kind in ("assistant", "user") and isinstance(line.get("message"), Mapping):
            message = fields.mapping(line, "message")
            return (
                self._message(message)
                if kind == "assistant"
                else [*_content(message.get("content"), "user")]
            )
        if kind == "system" and "subtype" in line:
            return _system(line)
        if kind == "result" and ("subtype" in line or "is_error" in line):
            return self._result(line)
        return [] if kind in SILENT else None

    def _message(self, message: Mapping[str, Any]) -> Items:
        """A part of the model's message. Several lines can have the same message id; the first item
        gets the tokens. While the message is not complete, the tokens out are a placeholder."""
        message_id = fields.name(message, "id")
        first = message_id is None or message_id != self._message_id
        self._message_id = message_id
        self.turn += first
        items = _content(message.get("content"), "assistant")
        texts = [each.text for each in items if each.kind == "message"]
        self._last_text = texts[-1] if texts else self._last_text
        if first and items:
            tokens_in, tokens_out = _tokens(message)
            complete = message.get("stop_reason") is not None
            items[0] = items[0]._replace(
                tokens_in=tokens_in, tokens_out=tokens_out if complete else None
            )
        return [*items]

    def _result(self, line: Mapping[str, Any]) -> Items:
        items: list[TranscriptItem] = []
        words = fields.text(line, "result")
        if line.get("is_error") not in (False, None):
            items.append(TranscriptItem("error", text=_reason(line, words), is_error=True))
        elif words is not None and words != self._last_text:
            items.append(TranscriptItem("message", role="assistant", text=words))
        denials = fields.blocks(line.get("permission_denials"))
        denied = [each for each in (fields.name(each, "tool_name") for each in denials) if each]
        if denied:
            text = f"Tools that were denied: {', '.join(denied)}"
            items.append(TranscriptItem("note", text=clip(text)))
        cost = _cost(line)
        return [*items, cost] if cost.has_amounts() else items


def _reason(line: Mapping[str, Any], words: str | None) -> str:
    errors = line.get("errors")
    found = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    text = "\n".join(found) or words or fields.text(line, "subtype")
    return clip(text or "The agent reported an error.")


def _content(content: Any, role: str) -> list[TranscriptItem]:
    if isinstance(content, str):
        return [TranscriptItem("message", role=role, text=clip(content))] if content else []
    return [item for block in fields.blocks(content) for item in _block(block, role)]


def _block(block: Mapping[str, Any], role: str) -> list[TranscriptItem]:
    kind = fields.name(block, "type") or ""
    if kind == "text":
        text = fields.text(block, "text")
        return [] if text is None else [TranscriptItem("message", role=role, text=text)]
    if kind == "thinking":
        text = fields.text(block, "thinking")
        return [] if text is None else [TranscriptItem("thinking", role=role, text=text)]
    if kind == "redacted_thinking":
        return []
    if kind.endswith("tool_use"):
        return call_items(fields.name(block, "name"), fields.name(block, "id"), block.get("input"))
    if kind.endswith("tool_result"):
        wrong = block.get("is_error") is True
        return [
            result_item(fields.name(block, "tool_use_id"), block.get("content"), is_error=wrong)
        ]
    return [TranscriptItem("note", role=role, text=f"[{kind or 'content without a type'}]")]


def _system(line: Mapping[str, Any]) -> Items:
    subtype = fields.name(line, "subtype") or "system"
    if subtype == "init":
        known = (
            fields.name(line, "model"),
            fields.name(line, "session_id"),
            fields.name(line, "cwd"),
        )
        return [TranscriptItem("session", text=" · ".join(filter(None, known)))]
    if "total_cost_usd" in line:
        return [_cost(line)]
    name, detail = (
        subtype.replace("_", " "),
        fields.text(line, "message", "content", "status", "error"),
    )
    return [TranscriptItem("note", text=name if detail is None else clip(f"{name}: {detail}"))]


def _cost(line: Mapping[str, Any]) -> TranscriptItem:
    """The cost so far: Claude Code reports totals."""
    amount = fields.dollars(line, "total_cost_usd")
    tokens_in, tokens_out = _tokens(line)
    return TranscriptItem(
        "cost", text="Total so far", cost_usd=amount, tokens_in=tokens_in, tokens_out=tokens_out
    )


def _tokens(holder: Mapping[str, Any]) -> tuple[int | None, int | None]:
    usage = fields.mapping(holder, "usage")
    tokens_in = fields.total(usage, *TOKENS_IN)
    return (
        fields.count(usage, "inputTokens") if tokens_in is None else tokens_in,
        fields.count(usage, "output_tokens", "outputTokens"),
    )
