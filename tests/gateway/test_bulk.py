"""Many tasks together: a list in one transaction, or JSON lines in chunks while they arrive."""

import json
import socket
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import httpx2

from tests.gateway.installation import DEADLINE_S, Installation, until

LINES = {"Content-Type": "application/x-ndjson"}


def line(**fields: object) -> bytes:
    return json.dumps({"intent": "runQA", **fields}).encode() + b"\n"


def answers(response: httpx2.Response) -> list[dict[str, Any]]:
    assert response.status_code == 200, response.text
    assert response.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(each) for each in response.text.splitlines()]


# ---- the list --------------------------------------------------------------------------------


def test_a_list_is_taken_in_order(owner: httpx2.Client) -> None:
    tasks = [{"intent": "runQA", "title": str(number)} for number in range(20)]
    answer = owner.post("/api/bulk", json=tasks)
    assert answer.status_code == 201
    made = answer.json()
    assert (len(made["ids"]), made["refused"]) == (20, [])
    titles = [owner.get(f"/api/tasks/{task_id}").json()["title"] for task_id in made["ids"][:3]]
    assert titles == ["0", "1", "2"]


def test_ten_thousand_are_one_transaction_and_one_more_is_too_many(
    gateway: Installation, owner: httpx2.Client
) -> None:
    tasks = [{"intent": "runQA"}] * 10_000
    before = gateway.head()
    answer = owner.post("/api/bulk", json=tasks)
    assert len(answer.json()["ids"]) == 10_000
    with gateway.core.store.read() as view:
        times = {each.at for each in view.events(before, 20_000)}
    assert len(times) == 1
    before = gateway.head()
    refused = owner.post("/api/bulk", json=[*tasks, tasks[0]])
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
    assert gateway.head() == before


def test_a_flaw_in_one_refuses_the_whole_list(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    for wrong, field in (
        ({"intent": "fly"}, "[1].intent"),
        ({"intent": "runQA", "colour": "red"}, "[1].colour"),
        ({}, "[1].intent"),
        ({"intent": "runQA", "priority": "P9"}, "[1].priority"),
        ("runQA", "[1]"),
    ):
        answer = owner.post("/api/bulk", json=[{"intent": "runQA"}, wrong])
        assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert gateway.head() == before


def test_a_conflict_refuses_its_own_task_alone(owner: httpx2.Client) -> None:
    answer = owner.post(
        "/api/bulk",
        json=[{"intent": "runQA", "id": "bulk-1"}, {"intent": "runQA", "id": "bulk-1"}],
    )
    made = answer.json()
    assert made["ids"] == ["bulk-1"]
    assert [(each["index"], each["code"]) for each in made["refused"]] == [(1, "task_exists")]


def test_a_task_of_many_may_have_an_idempotency_key(owner: httpx2.Client) -> None:
    tasks = [{"intent": "runQA", "idempotency_key": f"bulk-key-{number}"} for number in range(3)]
    first = owner.post("/api/bulk", json=tasks).json()
    again = owner.post("/api/bulk", json=tasks).json()
    assert (len(set(first["ids"])), again["ids"]) == (3, first["ids"])


# ---- the lines -------------------------------------------------------------------------------


def test_lines_are_answered_chunk_by_chunk(gateway: Installation, owner: httpx2.Client) -> None:
    body = b"".join(line(title=str(number)) for number in range(1_201))
    before = len(gateway.log())
    found = answers(owner.post("/api/bulk/lines", content=body, headers=LINES))
    assert [(each["first"], each["last"], each["accepted"]) for each in found] == [
        (1, 500, 500),
        (501, 1_000, 500),
        (1_001, 1_201, 201),
    ]
    assert len(gateway.log()) == before + 1_201


def test_lines_name_their_ids_if_asked(owner: httpx2.Client) -> None:
    body = line(id="line-1") + line(id="line-2")
    (found,) = answers(owner.post("/api/bulk/lines?ids=true", content=body, headers=LINES))
    assert found["ids"] == ["line-1", "line-2"]


def test_each_line_is_taken_or_refused_alone(gateway: Installation, owner: httpx2.Client) -> None:
    body = (
        line(id="line-3")
        + b"\n"
        + b"no json\n"
        + line(colour="red")
        + b'{"intent": "fly"}\n'
        + line(id="line-3")
        + b'{"intent": "runQA", "intent": "runQA"}\n'
        + line().strip()
    )
    (found,) = answers(owner.post("/api/bulk/lines", content=body, headers=LINES))
    assert (found["first"], found["last"], found["accepted"]) == (1, 8, 2)
    assert [(each["line"], each["code"]) for each in found["refused"]] == [
        (3, "unreadable"),
        (4, "invalid"),
        (5, "unknown_intent"),
        (6, "task_exists"),
        (7, "unreadable"),
    ]


def test_a_line_without_an_end_stops_the_upload(
    gateway: Installation, owner: httpx2.Client
) -> None:
    body = line() + b"x" * 1_100_000
    found = answers(owner.post("/api/bulk/lines", content=body, headers=LINES))
    assert found[-1]["error"]["field"] == "line 2"


def test_wrong_lines_requests_store_nothing(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    for path, headers, status in (
        ("/api/bulk/lines", {"Content-Type": "application/json"}, 415),
        ("/api/bulk/lines?colour=red", LINES, 422),
        ("/api/bulk/lines?ids=perhaps", LINES, 422),
    ):
        assert owner.post(path, content=line(), headers=headers).status_code == status
    assert gateway.head() == before


def test_a_chunk_is_answered_while_the_upload_goes_on(gateway: Installation) -> None:
    """The first answer comes before the last line is sent, so that nothing waits for the whole."""
    body = b"".join(line() for _ in range(500))
    head = (
        f"POST /api/bulk/lines HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n"
        f"Authorization: Bearer {gateway.token}\r\nContent-Type: application/x-ndjson\r\n"
        "Transfer-Encoding: chunked\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=DEADLINE_S) as raw:
        raw.sendall(head.encode() + b"%x\r\n%b\r\n" % (len(body), body))
        found = b""
        while b'"accepted":500' not in found:
            piece = raw.recv(65_536)
            assert piece, found
            found += piece
        last = line()
        raw.sendall(b"%x\r\n%b\r\n0\r\n\r\n" % (len(last), last))
        while b'"accepted":1,' not in found:
            piece = raw.recv(65_536)
            assert piece, found
            found += piece


def reached(gateway: Installation, position: int) -> bool:
    return gateway.head() >= position


def test_others_are_served_between_the_chunks(gateway: Installation, owner: httpx2.Client) -> None:
    """While one client uploads without end, another one's submissions are answered."""
    done = threading.Event()

    def endless() -> Iterator[bytes]:
        """Chunk after chunk, each sent when the one before is on disk."""
        while not done.is_set():
            wanted = gateway.head() + 500
            yield b"".join(line() for _ in range(500))
            until(partial(reached, gateway, wanted))

    uploader = gateway.client()
    thread = threading.Thread(
        target=lambda: uploader.post("/api/bulk/lines", content=endless(), headers=LINES)
    )
    thread.start()
    try:
        for _ in range(5):
            assert owner.post("/api/tasks", json={"intent": "runQA"}).status_code == 201
        assert thread.is_alive()
    finally:
        done.set()
        thread.join()


# ---- verbs on many ---------------------------------------------------------------------------


def test_one_request_acts_on_many(gateway: Installation, owner: httpx2.Client) -> None:
    ids = owner.post("/api/bulk", json=[{"intent": "runQA"}] * 300).json()["ids"]
    before = gateway.head()
    answer = owner.post("/api/many/cancel", json={"ids": [*ids, "unknown"], "reason": "enough"})
    assert answer.status_code == 200
    found = answer.json()
    assert [each["id"] for each in found["items"]] == ids
    assert found["refused"] == [
        {"id": "unknown", "code": "unknown_task", "detail": "There is no task or job 'unknown'."}
    ]
    with gateway.core.store.read() as view:
        assert len({each.at for each in view.events(before, 1_000)}) == 1


def test_too_many_none_and_what_is_no_id_are_refused(
    gateway: Installation, owner: httpx2.Client
) -> None:
    before = gateway.head()
    wrong: list[Any] = [["x"] * 1_001, [], [7], "x", None]
    for ids in wrong:
        body = {} if ids is None else {"ids": ids}
        refused = owner.post("/api/many/retry", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid"), body
        assert refused.json()["field"].startswith("ids"), body
    assert gateway.head() == before
