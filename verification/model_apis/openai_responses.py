"""The Responses API of OpenAI, streamed: `POST /v1/responses`."""

import json
from collections.abc import Iterator, Mapping, Sequence
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
        *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls"),
        *("reasoning", "store", "stream", "stream_options", "include", "prompt_cache_key"),
        *("text", "service_tier", "previous_response_id", "max_output_tokens", "temperature"),
        *("top_p", "metadata", "client_metadata", "truncation", "user", "safety_identifier"),
    )
)
#: The input items that Codex can send, each with its required fields.
ITEMS: Mapping[str, Sequence[str]] = {
    "message": ("role", "content"),
    "agent_message": ("author", "recipient", "content"),
    "reasoning": ("summary",),
    "item_reference": ("id",),
    "additional_tools": ("role", "tools"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("output",),
    "local_shell_call": ("call_id", "status", "action"),
    "custom_tool_call": ("call_id", "name", "input"),
    "custom_tool_call_output": ("call_id", "output"),
    "tool_search_call": ("execution", "arguments"),
    "tool_search_output": ("status", "execution", "tools"),
    "web_search_call": (),
    "image_generation_call": ("status", "result"),
    "compaction": ("encrypted_content",),
    "compaction_summary": ("encrypted_content",),
    "compaction_trigger": (),
    "context_compaction": (),
}
#: Calls that must have an output, and of which kind; a search by the API itself has no id.
OUTPUTS = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded", 529: "server_is_overloaded"}
UNKNOWN = "Unknown parameter: '{name}'."


class OpenaiResponses(ModelApi):
    """Checks requests and writes replies of the Responses API."""

    malformed = 'event: response.output_item.added\ndata: {"type": "res'

    def is_for_model(self, request: Request) -> bool:
        return request.method == "POST" and request.path.endswith("/v1/responses")

    # -- requests --------------------------------------------------------------------------

    def key_of(self, request: Request) -> str:
        return request.headers.get("authorization", "").removeprefix("Bearer ")

    def check(self, request: Request) -> None:
        headers, body = request.headers, request.body
        require(self.key_of(request) in self.keys, "Incorrect API key provided", 401)
        require(headers.get("content-type", "").startswith("application/json"), "not JSON", 415)
        known_fields("", body, FIELDS, UNKNOWN)
        for name, kind in (("model", str), ("input", list)):
            require(isinstance(body.get(name), kind), f"Missing required parameter: '{name}'.")
        require(body.get("stream") is True, "this server only streams")
        self._check_items(body["input"])

    def _check_items(self, items: Sequence[Json]) -> None:
        #: The calls that have no output yet: the kind of their output, by id.
        calls: dict[str, str] = {}
        for index, item in enumerate(items):
            kind, where = item.get("type", "message"), f"input[{index}]"
            require(kind in ITEMS, f"Invalid value: '{kind}' of {where}.type")
            for name in ITEMS[kind]:
                require(name in item, f"Missing required parameter: '{where}.{name}'.")
            if kind == "message":
                require(item["role"] in ("user", "assistant", "developer", "system"), "role")
                require(item["content"], f"{where}.content must not be empty")
            self._check_call(kind, item, calls)
        require(not calls, f"No tool output found for function call {', '.join(calls)}.")

    def _check_call(self, kind: str, item: Json, calls: dict[str, str]) -> None:
        """An output follows its call, and has its kind."""
        call_id = item.get("call_id")
        if call_id is None:
            return  # a search by the API itself, or a message of a tool that was not called
        if kind in OUTPUTS:
            calls[call_id] = OUTPUTS[kind]
        elif kind in OUTPUTS.values():
            found = calls.pop(call_id, None)
            require(found == kind, f"No tool call found for {kind} with call_id {call_id}.")

    def tools(self, body: Json) -> set[str]:
        return set(_names(body.get("tools") or ()))

    def turns(self, body: Json) -> Iterator[Turn]:
        for item in body["input"]:
            kind = item.get("type", "message")
            call_id = str(item.get("call_id") or "")
            if kind in ("message", "agent_message"):
                yield Turn(item.get("role", "user"), "text", _text(item["content"]))
            elif kind in OUTPUTS:
                yield Turn("assistant", "call", str(item.get("arguments", "")), call_id)
            elif kind in OUTPUTS.values():
                yield Turn("user", "result", _text(item.get("output", "")), call_id)

    # -- replies ---------------------------------------------------------------------------

    def begun(self, request: Request, step: Step, call_id: str) -> str:  # noqa: ARG002
        return _event("response.created", response=_response(request, call_id))

    def replied(self, request: Request, step: Step, reply: Say | Call, call_id: str) -> Answer:
        item, response = _item(reply, call_id), _response(request, call_id)
        done = {**response, "status": "completed", "output": [item], "usage": _usage(step)}
        events = [
            self.begun(request, step, call_id),
            _event("response.output_item.added", output_index=0, item=_begun(item)),
            *_deltas(reply, item),
            _event("response.output_item.done", output_index=0, item=item),
            _event("response.completed", response=done),
        ]
        return Answer(200, EVENT_STREAM, event_stream(*events))

    def refused(self, reply: Refuse) -> Answer:
        message = {401: "Incorrect API key provided.", 529: "The engine is overloaded."}.get(
            reply.status, "Rate limit reached."
        )
        if reply.wait_s is None:
            return self.refusal(ModelError(reply.status, message))
        answer = self.refusal(ModelError(429, f"{message} Please try again in {reply.wait_s}s."))
        return answer._replace(headers={**answer.headers, "retry-after": str(reply.wait_s)})

    def refusal(self, error: ModelError) -> Answer:
        code = CODES.get(error.status)
        kind = "invalid_request_error" if error.status < 429 else "server_error"
        document = {"error": {"message": str(error), "type": kind, "param": None, "code": code}}
        return Answer(error.status, JSON, (json.dumps(document).encode(),))


def _event(kind: str, **data: Any) -> str:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, 'sequence_number': 0, **data})}"


def _response(request: Request, call_id: str) -> Json:
    """The response before it has an item."""
    known: Json = {"id": f"resp_{call_id}", "object": "response", "created_at": 0}
    return {**known, "model": request.body["model"], "status": "in_progress", "output": []}


def _item(reply: Say | Call, call_id: str) -> Json:
    if isinstance(reply, Say):
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        known: Json = {"id": f"msg_{call_id}", "type": "message", "role": "assistant"}
        return {**known, "status": "completed", "content": [part]}
    space, _, name = reply.tool.rpartition(".")
    item = {"id": f"fc_{call_id}", "type": "function_call", "call_id": call_id, "name": name}
    item |= {"arguments": json.dumps(reply.given), "status": "completed"}
    return {**item, "namespace": space} if space else item


def _begun(item: Json) -> Json:
    """The item before its content has arrived."""
    empty: Json = {"content": []} if item["type"] == "message" else {"arguments": ""}
    return {**item, "status": "in_progress", **empty}


def _deltas(reply: Say | Call, item: Json) -> list[str]:
    where = {"item_id": item["id"], "output_index": 0}
    if isinstance(reply, Call):
        kind = "response.function_call_arguments"
        return [
            _event(f"{kind}.delta", **where, delta=item["arguments"]),
            _event(f"{kind}.done", **where, arguments=item["arguments"]),
        ]
    empty = {"type": "output_text", "text": "", "annotations": []}
    where["content_index"] = 0
    return [
        _event("response.content_part.added", **where, part=empty),
        _event("response.output_text.delta", **where, delta=reply.text),
        _event("response.output_text.done", **where, text=reply.text),
        _event("response.content_part.done", **where, part={**empty, "text": reply.text}),
    ]


def _usage(step: Step) -> Json:
    return {
        "input_tokens": step.tokens_in,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": step.tokens_out,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": step.tokens_in + step.tokens_out,
    }


def _names(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Tools by name; those of a namespace with its name before a point."""
    for each in tools:
        if each.get("type") == "namespace":
            yield from (f"{each['name']}.{name}" for name in _names(each["tools"]))
        else:
            yield str(each.get("name") or each["type"])


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(each.get("text", "")) for each in content)
