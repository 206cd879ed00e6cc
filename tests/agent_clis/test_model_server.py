"""The model server refuses what the real APIs refuse, and requests that lack earlier turns."""

import json
from typing import Any

import httpx2
import pytest

from verification.model_apis.anthropic_messages import AnthropicMessages
from verification.model_apis.gemini_generate import GeminiGenerate
from verification.model_apis.model_script import Account, Call, ModelApi, Refuse, Say, Step
from verification.model_apis.model_server import ModelServer, serving
from verification.model_apis.openai_responses import OpenaiResponses

KEY = "sk-test"
Body = dict[str, Any]


def messages(*more: Body, **fields: Any) -> Body:
    asked = {"role": "user", "content": "Fix it."}
    tools = [{"name": "write", "input_schema": {}}]
    return {"model": "m", "max_tokens": 9, "messages": [asked, *more], "tools": tools, **fields}


CALL = {"type": "tool_use", "id": "call_00000001", "name": "write", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "call_00000001", "content": "written"}
TURNS = ({"role": "assistant", "content": [CALL]}, {"role": "user", "content": [RESULT]})


def ask(url: str, body: Body, key: str = KEY, path: str = "") -> httpx2.Response:
    headers = {"x-api-key": key, "anthropic-version": "2023-06-01"}
    return httpx2.post(f"{url}/case{path}/v1/messages", json=body, headers=headers)


def test_a_session_is_served_and_must_stay_whole() -> None:
    steps = [Step(Call("write", {}), sees=("Fix it.",)), Step(Say("Done.")), Step(Say("More."))]
    with serving(ModelServer()) as server:
        case = server.add("case", AnthropicMessages(KEY), *steps)
        assert '"name": "write"' in ask(server.url, messages()).text
        assert ask(server.url, messages()).status_code == 400
        assert "lacks an earlier turn" in case.problems.pop()
        assert '"text": "Done."' in ask(server.url, messages(*TURNS)).text
        lost = ({"role": "assistant", "content": "Done."}, {"role": "user", "content": "Go on."})
        assert ask(server.url, messages(*lost)).status_code == 400
        assert ask(server.url, messages(*TURNS, *lost)).status_code == 200
        assert case.is_over
        assert httpx2.get(f"{server.url}/other").status_code == 404
        assert server.stray == ["GET /other/"]


def test_an_account_is_refused_until_a_request_has_the_next_one() -> None:
    first, second = Account("sk-1", "/first"), Account("sk-2", "/second")
    steps = [Step(Refuse(429), account=first), Step(Say("Done."), account=second)]
    with serving(ModelServer()) as server:
        case = server.add("case", AnthropicMessages("sk-1", "sk-2"), *steps)
        for _ in range(2):
            assert ask(server.url, messages(), "sk-1", "/first").status_code == 429
        assert case.problems == []
        assert ask(server.url, messages(), "sk-2", "/first").status_code == 401
        assert "another account than sk-2 at /first" in case.problems.pop()
        assert ask(server.url, messages(), "sk-2", "/second").status_code == 200
        assert case.is_over
        assert case.problems == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (messages(surprise=1), "surprise: Extra inputs are not permitted"),
        (messages(max_tokens=None), "max_tokens: Field required"),
        (messages(TURNS[0]) | {"tools": []}, ""),
        (messages(TURNS[0], {"role": "user", "content": "no result"}), "without `tool_result`"),
        (messages({"role": "user", "content": []}), "must not be empty"),
        (messages({"role": "user", "content": [{"type": "text", "text": ""}]}), "non-empty"),
    ],
)
def test_the_messages_api_refuses(body: Body, message: str) -> None:
    with serving(ModelServer()) as server:
        server.add("case", AnthropicMessages(KEY), Step(Say("Done.")))
        answer = ask(server.url, body)
        assert (answer.status_code == 400) == bool(message)
        assert message in answer.text
        assert ask(server.url, messages(), key="sk-wrong").status_code == 401


OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
FUNCTION = {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}
CUSTOM = {"type": "custom_tool_call", "call_id": "c", "name": "n", "input": "x"}
SEARCH = {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {}}
FOUND = {"type": "tool_search_output", "call_id": "s", "execution": "client", "tools": []}
AGENT_MESSAGE = {"type": "agent_message", "author": "/root", "recipient": "/root/a", "content": []}
PARTS = [{"functionCall": {"name": "n", "args": {}}}]
TWICE = [{"functionResponse": {"name": "n", "response": {}}}] * 2


@pytest.mark.parametrize(
    ("api", "path", "header", "body", "message"),
    [
        (OpenaiResponses, "responses", "openai", {"input": [OUTPUT]}, "No tool call found"),
        (OpenaiResponses, "responses", "openai", {"input": [FUNCTION]}, "No tool output found"),
        (OpenaiResponses, "responses", "openai", {"input": [CUSTOM, OUTPUT]}, "No tool call found"),
        (OpenaiResponses, "responses", "openai", {"input": [{"type": "x"}]}, "Invalid value: 'x'"),
        (OpenaiResponses, "responses", "openai", {"input": [FOUND]}, "'input[0].status'"),
        (OpenaiResponses, "responses", "openai", {"input": [], "x": 1}, "Unknown parameter: 'x'."),
        (OpenaiResponses, "responses", "none", {"input": []}, "Incorrect API key"),
        (
            GeminiGenerate,
            "models/m:generateContent",
            "gemini",
            {
                "contents": [
                    {"role": "user", "parts": [{"text": "a"}]},
                    {"role": "model", "parts": PARTS},
                    {"role": "user", "parts": TWICE},
                ]
            },
            "number of function response parts",
        ),
        (
            GeminiGenerate,
            "models/m:generateContent",
            "gemini",
            {"contents": [{"role": "user", "parts": [{"words": "a"}]}]},
            "Unknown name",
        ),
        (GeminiGenerate, "models/m:generateContent", "none", {"contents": []}, "key not valid"),
    ],
)
def test_the_other_apis_refuse(
    api: type[OpenaiResponses | GeminiGenerate], path: str, header: str, body: Body, message: str
) -> None:
    headers = {"openai": {"authorization": f"Bearer {KEY}"}, "gemini": {"x-goog-api-key": KEY}}
    made: ModelApi = api(KEY)
    with serving(ModelServer()) as server:
        case = server.add("case", made, Step(Say("Done.")))
        whole = {"model": "m", "stream": True, **body} if api is OpenaiResponses else body
        answer = httpx2.post(
            f"{server.url}/case/v1/{path}", json=whole, headers=headers.get(header, {})
        )
        assert answer.status_code in (400, 401)
        assert message in json.loads(answer.text)["error"]["message"]
        assert len(case.problems) == 1


def test_the_responses_api_takes_every_item_that_codex_can_send() -> None:
    answered = {**OUTPUT, "type": "custom_tool_call_output"}
    calls = [FUNCTION, OUTPUT, CUSTOM, answered, SEARCH, {**FOUND, "status": "completed"}]
    shell = {"type": "local_shell_call", "call_id": "l", "status": "completed", "action": {}}
    compacted = [
        {"type": "compaction", "encrypted_content": "x"},
        {"type": "context_compaction"},
        {"type": "compaction_trigger"},
    ]
    hosted = [
        {"type": "web_search_call", "status": "completed"},
        {"type": "image_generation_call", "status": "completed", "result": "x"},
        {"type": "reasoning", "summary": [], "encrypted_content": None},
    ]
    items = [AGENT_MESSAGE, *calls, shell, {**OUTPUT, "call_id": "l"}, *compacted, *hosted]
    with serving(ModelServer()) as server:
        server.add("case", OpenaiResponses(KEY), Step(Say("Done.")))
        answer = httpx2.post(
            f"{server.url}/case/v1/responses",
            json={"model": "m", "stream": True, "input": items},
            headers={"authorization": f"Bearer {KEY}"},
        )
        assert answer.status_code == 200, answer.text
