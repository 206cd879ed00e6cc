"""The two endpoints of the live feed: what the WebSocket refuses, and server-sent events."""

import json
from contextlib import closing
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from detent.operations.registry import Scope
from tests.gateway.installation import DEADLINE_S, Installation
from tests.gateway.readers import Message, positions, raw_socket, socket_to, submit

# ---- being refused ---------------------------------------------------------------------------


def refusal(gateway: Installation, query: str = "", **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as raised, socket_to(gateway, query, **options):
        pass
    response = raised.value.response
    return response.status_code, json.loads(response.body or b"{}")["code"]


def test_a_socket_passes_the_same_authentication(gateway: Installation) -> None:
    assert refusal(gateway, additional_headers={}) == (401, "unauthorized")
    wrong = {"Authorization": "Bearer wrong"}
    assert refusal(gateway, additional_headers=wrong) == (401, "unauthorized")
    assert refusal(gateway, token=gateway.token_for(Scope.SUBMIT)) == (403, "forbidden")
    assert refusal(gateway, host="evil.example", sock=raw_socket(gateway)) == (421, "wrong_host")
    assert refusal(gateway, origin="http://evil.example") == (403, "wrong_origin")


def test_a_socket_with_a_cookie_needs_our_own_origin(
    gateway: Installation, owner: httpx2.Client
) -> None:
    code = owner.post("/api/login/codes").json()["code"]
    browser = gateway.client(None)
    browser.post("/api/login", json={"code": code}, headers={"Origin": gateway.url})
    cookie = {"Cookie": f"detent={browser.cookies['detent']}"}
    assert refusal(gateway, additional_headers=cookie) == (403, "wrong_origin")
    with socket_to(gateway, additional_headers=cookie, origin=gateway.url) as connection:
        assert json.loads(connection.recv(timeout=DEADLINE_S))[0]["type"] == "hello"


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("?cursor=999999999", 422),
        ("?cursor=-1", 422),
        ("?cursor=abc", 422),
        ("?cursor=1&cursor=2", 422),
        ("?colour=red", 422),
    ],
)
def test_a_wish_that_cannot_be_granted(gateway: Installation, query: str, status: int) -> None:
    assert refusal(gateway, query) == (status, "invalid")


def test_an_unknown_socket(gateway: Installation) -> None:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    with (
        pytest.raises(InvalidStatus) as raised,
        connect(
            f"ws://127.0.0.1:{gateway.port}/api/nothing",
            additional_headers=headers,
            open_timeout=DEADLINE_S,
        ),
    ):
        pass
    assert raised.value.response.status_code == 404


# ---- server-sent events ----------------------------------------------------------------------


def streamed(owner: httpx2.Client, query: str, **headers: str) -> list[tuple[str, Message]]:
    """The server-sent events of a stream that ends: id and message."""
    answer = owner.get(f"/api/events?follow=false&{query}", headers=headers)
    assert answer.headers["Content-Type"] == "text/event-stream"
    found = []
    last = ""
    for block in filter(None, answer.text.split("\n\n")):
        fields = dict(each.split(": ", 1) for each in block.split("\n"))
        last = fields.get("id", last)
        found.append((last, json.loads(fields["data"])))
    return found


def test_the_same_messages_as_server_sent_events(
    gateway: Installation, owner: httpx2.Client
) -> None:
    before = gateway.head()
    task_id = submit(owner, run=True)
    gateway.complete(task_id)
    found = streamed(owner, f"cursor={before}")
    assert positions([message for _, message in found]) == gateway.log(before)
    assert [message["state"] for _, message in found if message["type"] == "task_completed"] == [
        "ready"
    ]


def test_a_browser_resumes_by_the_last_id(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    submit(owner, 3)
    middle = gateway.log(before)[1]
    found = streamed(owner, "cursor=0", **{"Last-Event-ID": str(middle)})
    assert positions([message for _, message in found]) == gateway.log(middle)


def test_an_id_comes_only_after_all_messages_of_its_event(
    gateway: Installation, owner: httpx2.Client
) -> None:
    """A stream that is cut anywhere and resumed by the last id delivers everything."""
    before = gateway.head()
    task_id = submit(owner, lifecycle="board", run=True)
    gateway.complete(task_id)
    last = before
    for identity, message in streamed(owner, f"cursor={before}"):
        if message["type"] == "task_completed":
            assert last < message["position"] == int(identity)
        last = int(identity or before)


def test_a_stream_goes_on_with_what_happens(gateway: Installation, owner: httpx2.Client) -> None:
    with owner.stream("GET", "/api/events") as answer, closing(answer):
        lines = answer.iter_lines()
        assert "hello" in "".join(next(lines) for _ in range(2))
        task_id = submit(gateway.client())
        assert any(task_id in line for line in lines)


def test_a_streams_cursor_beyond_the_log(gateway: Installation, owner: httpx2.Client) -> None:
    answer = owner.get("/api/events?cursor=999999999")
    assert (answer.status_code, answer.json()["field"]) == (422, "cursor")
