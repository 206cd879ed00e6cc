"""The Messages API of Anthropic, streamed: `POST /v1/messages`."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from verification.model_apis.model_script import (
    EVENT_STREAM,
    JSON,
    Answer,
    Call,
    Json,
    ModelApi,
    ModelError,
    Refuse,
    Request,
    Say,
    Step,
    Turn,
    event_stream,
    known_fields,
    require,
)

FIELDS = frozenset(
    (
        "model",
        "messages",
        "max_tokens",
        "system",
        "tools",
        "tool_choice",
        "metadata",
        "stop_sequences",
        "stream",
        "temperature",
        "top_k",
        "top_p",
        "thinking",
        "service_tier",
        "container",
        "context_management",
        "output_config",
        "mcp_servers",
        "inference_geo",
        "speed",
        "cache_control",
    )
)
BLOCKS = {
    "text": frozenset(("type", "text", "cache_control", "citations")),
    "tool_use": frozenset(("type", "id", "name", "input", "cache_control", "caller")),
    "tool_result": frozenset(("type", "tool_use_id", "content", "is_error", "cache_control")),
    "thinking": frozenset(("type", "thinking", "signature", "cache_control")),
    "image": frozenset(("type", "source", "cache_control")),
}
#: Fields of a message that a beta adds, with the name that its header begins with.
BETA_FIELDS = {"output_config": "per-turn-control-"}
ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}
#: The texts of refusals.
MESSAGES = {
    401: "invalid x-api-key",
    429: "This request would exceed your account's rate limit. Please try again later.",
    529: "Overloaded",
}
UNKNOWN = "{name}: Extra inputs are not permitted"


class AnthropicMessages(ModelApi):
    """Checks requests and writes replies of the Messages API."""

    malformed = 'event: content_block_start\ndata: {"type": "conte'

    def is_for_model(self, request: Request) -> bool:
        return request.method == "POST" and request.path.endswith("/v1/messages")

    # -- requests --------------------------------------------------------------------------

    def key_of(self, request: Request) -> str:
        headers = request.headers
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")

    def check(self, request: Request) -> None:
        headers, body = request.headers, request.body
        require(self.key_of(request) in self.keys, "invalid x-api-key", 401)
        require(
            headers.get("anthropic-version") == "2023-06-01",
            "anthropic-version: header is required",
        )
        require(headers.get("content-type", "").startswith("application/json"), "not JSON", 415)
        known_fields("", body, FIELDS, UNKNOWN)
        for name, kind in (("model", str), ("max_tokens", int), ("messages", list)):
            require(isinstance(body.get(name), kind), f"{name}: Field required")
        self._check_messages(body["messages"], _message_fields(headers.get("anthropic-beta", "")))

    def _check_messages(self, messages: Sequence[Json], allowed: frozenset[str]) -> None:
        require(messages, "messages: at least one message is required")
        require(messages[0].get("role") == "user", "messages.0: the first role must be user")
        open_calls: set[str] = set()
        for index, message in enumerate(messages):
            where = f"messages.{index}."
            known_fields(where, message, allowed, UNKNOWN)
            require(message.get("role") in ("user", "assistant", "system"), f"{where}role: invalid")
            blocks = _blocks(message)
            require(blocks, f"{where}content: must not be empty")
            if message["role"] == "user":
                answered = {each.get("tool_use_id") for each in _of(blocks, "tool_result")}
                require(
                    answered == open_calls,
                    f"{where}content: `tool_use` ids were found without"
                    f" `tool_result` blocks immediately after: {open_calls ^ answered}",
                )
                open_calls = set()
            elif message["role"] == "assistant":
                open_calls = {str(each["id"]) for each in _of(blocks, "tool_use")}
            for each in blocks:
                self._check_block(where, each)

    def _check_block(self, where: str, block: Json) -> None:
        kind = str(block.get("type"))
        require(kind in BLOCKS or "tool" in kind, f"{where}content: unknown type {kind!r}")
        known_fields(f"{where}{kind}.", block, BLOCKS.get(kind, frozenset(block)), UNKNOWN)
        if kind == "text":
            require(block.get("text"), f"{where}content: text content blocks must be non-empty")

    def tools(self, body: Json) -> set[str]:
        return {str(each["name"]) for each in body.get("tools", ())}

    def turns(self, body: Json) -> Iterator[Turn]:
        for message in body["messages"]:
            for block in _blocks(message):
                yield from _turn(message["role"], block)

    # -- replies ---------------------------------------------------------------------------

    def begun(self, request: Request, step: Step, call_id: str) -> str:
        return _event("message_start", message=_message(request.body["model"], step, call_id))

    def replied(self, request: Request, step: Step, reply: Say | Call, call_id: str) -> Answer:
        reason = "tool_use" if isinstance(reply, Call) else "end_turn"
        end = {"stop_reason": reason, "stop_sequence": None}
        events = [
            self.begun(request, step, call_id),
            *_content(reply, call_id),
            _event("content_block_stop", index=0),
            _event("message_delta", delta=end, usage={"output_tokens": step.tokens_out}),
            _event("message_stop"),
        ]
        return Answer(200, EVENT_STREAM, event_stream(*events))

    def refused(self, reply: Refuse) -> Answer:
        message = MESSAGES.get(reply.status, "Internal server error")
        answer = self.refusal(ModelError(reply.status, message))
        if reply.reset_s is None:
            return answer
        at = datetime.fromtimestamp(reply.reset_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        limits = {
            "retry-after": str(reply.wait_s),
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": at,
        }
        return answer._replace(headers={**answer.headers, **limits})

    def refusal(self, error: ModelError) -> Answer:
        kind = ERRORS.get(error.status, "invalid_request_error")
        document = {"type": "error", "error": {"type": kind, "message": str(error)}}
        headers = {**JSON, "request-id": "req_local"}
        return Answer(error.status, headers, (json.dumps(document).encode(),))


def _message_fields(betas: str) -> frozenset[str]:
    """The fields that a message may have with these betas."""
    named = [each.strip() for each in betas.split(",")]
    added = [
        field
        for field, prefix in BETA_FIELDS.items()
        if any(each.startswith(prefix) for each in named)
    ]
    return frozenset(("role", "content", *added))


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}"


def _message(model: str, step: Step, call_id: str) -> Json:
    return {
        "id": f"msg_{call_id}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": step.tokens_in, "output_tokens": 1},
    }


def _content(reply: Say | Call, call_id: str) -> list[str]:
    if isinstance(reply, Say):
        block: Json = {"type": "text", "text": ""}
        delta: Json = {"type": "text_delta", "text": reply.text}
    else:
        block = {"type": "tool_use", "id": call_id, "name": reply.tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(reply.given)}
    return [
        _event("content_block_start", index=0, content_block=block),
        _event("content_block_delta", index=0, delta=delta),
    ]


def _blocks(message: Mapping[str, Any]) -> list[Json]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def _of(blocks: Sequence[Json], kind: str) -> list[Json]:
    return [each for each in blocks if each.get("type") == kind]


def _turn(role: str, block: Json) -> Iterator[Turn]:
    if block["type"] == "text":
        yield Turn(role, "text", block["text"])
    elif block["type"] == "tool_use":
        yield Turn(role, "call", json.dumps(block["input"]), block["id"])
    elif block["type"] == "tool_result":
        content = block.get("content") or ""
        text = (
            content
            if isinstance(content, str)
            else "\n".join(each.get("text", "") for each in content)
        )
        yield Turn(role, "result", text, block["tool_use_id"])
