"""The Gemini API: `POST /v1beta/models/MODEL:streamGenerateContent` and `:generateContent`."""

import json
from collections.abc import Iterator, Sequence
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
        *("contents", "systemInstruction", "tools", "toolConfig", "safetySettings"),
        *("generationConfig", "cachedContent", "labels"),
    )
)
PARTS = frozenset(
    (
        *("text", "thought", "thoughtSignature", "functionCall", "functionResponse"),
        *("inlineData", "fileData"),
    )
)
STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    529: "UNAVAILABLE",
}
STREAM = ":streamGenerateContent"
UNKNOWN = 'Invalid JSON payload received. Unknown name "{name}": Cannot find field.'


class GeminiGenerate(ModelApi):
    """Checks requests and writes replies of the Gemini API."""

    malformed = 'data: {"candidates": [{"con'

    def is_for_model(self, request: Request) -> bool:
        return request.method == "POST" and request.path.endswith((STREAM, ":generateContent"))

    # -- requests --------------------------------------------------------------------------

    def key_of(self, request: Request) -> str:
        return request.headers.get("x-goog-api-key", "")

    def check(self, request: Request) -> None:
        body = request.body
        require(self.key_of(request) in self.keys, "API key not valid.", 401)
        known_fields("", body, FIELDS, UNKNOWN)
        require(isinstance(body.get("contents"), list), "contents is not specified")
        require(body["contents"], "contents must not be empty")
        calls = 0
        for content in body["contents"]:
            known_fields("contents.", content, frozenset(("role", "parts")), UNKNOWN)
            require(content.get("role") in ("user", "model"), "Please use a valid role")
            parts = content.get("parts")
            require(parts, "contents.parts must not be empty")
            for part in parts:
                known_fields("contents.parts.", part, PARTS, UNKNOWN)
            responses = _count(parts, "functionResponse")
            require(
                responses == calls if content["role"] == "user" else True,
                "the number of function response parts must be equal to the number of function "
                "call parts of the function call turn.",
            )
            calls = _count(parts, "functionCall")
        require(calls == 0, "a function call must be followed by its response")

    def tools(self, body: Json) -> set[str]:
        return {
            str(each["name"])
            for tool in body.get("tools") or ()
            for each in tool.get("functionDeclarations", ())
        }

    def turns(self, body: Json) -> Iterator[Turn]:
        for content in body["contents"]:
            for part in content["parts"]:
                yield from _turn(content["role"], part)

    # -- replies ---------------------------------------------------------------------------

    def begun(self, request: Request, step: Step, call_id: str) -> str:  # noqa: ARG002
        return ": begun"

    def replied(self, request: Request, step: Step, reply: Say | Call, call_id: str) -> Answer:
        document = _document(request, step, _part(reply, call_id), call_id)
        if request.path.endswith(STREAM):
            return Answer(200, EVENT_STREAM, event_stream(f"data: {json.dumps(document)}"))
        return Answer(200, JSON, (json.dumps(document).encode(),))

    def refused(self, reply: Refuse) -> Answer:
        messages = {401: "API key not valid.", 429: "Resource has been exhausted."}
        error = ModelError(reply.status, messages.get(reply.status, "The model is overloaded."))
        if reply.wait_s is None:
            return self.refusal(error)
        kind = "type.googleapis.com/google.rpc.RetryInfo"
        return self.refusal(error, [{"@type": kind, "retryDelay": f"{reply.wait_s}s"}])

    def refusal(self, error: ModelError, details: Sequence[Json] = ()) -> Answer:
        status = STATUSES.get(error.status, "INTERNAL")
        inner: Json = {"code": error.status, "message": str(error), "status": status}
        document = {"error": {**inner, "details": list(details)} if details else inner}
        return Answer(error.status, JSON, (json.dumps(document).encode(),))


def _count(parts: Sequence[Json], kind: str) -> int:
    return sum(kind in each for each in parts)


def _part(reply: Say | Call, call_id: str) -> Json:
    if isinstance(reply, Say):
        return {"text": reply.text}
    return {"functionCall": {"id": call_id, "name": reply.tool, "args": reply.given}}


def _document(request: Request, step: Step, part: Json, call_id: str) -> Json:
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {
        "promptTokenCount": step.tokens_in,
        "candidatesTokenCount": step.tokens_out,
        "totalTokenCount": step.tokens_in + step.tokens_out,
    }
    model = request.path.rpartition("/")[2].partition(":")[0]
    known: Json = {"candidates": [candidate], "usageMetadata": usage}
    return {**known, "modelVersion": model, "responseId": call_id}


def _turn(role: str, part: Json) -> Iterator[Turn]:
    if "text" in part and not part.get("thought"):
        yield Turn(role, "text", part["text"])
    elif "functionCall" in part:
        call: dict[str, Any] = part["functionCall"]
        yield Turn(role, "call", json.dumps(call.get("args")), _call_id(call))
    elif "functionResponse" in part:
        response = part["functionResponse"]
        text = json.dumps(response.get("response"))
        yield Turn(role, "result", text, _call_id(response))


def _call_id(part: Json) -> str:
    """The id of a call; Gemini CLI puts the name of the tool before it."""
    return str(part.get("id")).rpartition("__")[2]
