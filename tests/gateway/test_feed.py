"""The live feed: every event in order, from any cursor, nothing missed and nothing twice."""

import json
import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from detent.gateway import feed_hub, feed_routes
from detent.operations.registry import Scope
from detent.operations.tokens import digest_of
from detent.store import log_walk
from tests.gateway.installation import DEADLINE_S, Installation, installed, until
from tests.gateway.readers import (
    Message,
    positions,
    read_to,
    socket_to,
    submit,
    until_closed,
)

# ---- order and cursors -----------------------------------------------------------------------


def test_the_whole_log_from_the_beginning(gateway: Installation, owner: httpx2.Client) -> None:
    submit(owner, 5, run=True)
    log = gateway.log()
    with socket_to(gateway, "?cursor=0") as connection:
        found = read_to(connection, log[-1])
    assert found[0] == {"type": "hello", "cursor": 0}
    assert positions(found) == log


def test_only_what_is_new_without_a_cursor(gateway: Installation, owner: httpx2.Client) -> None:
    submit(owner, 2)
    until(lambda: gateway.hub.position == gateway.head())
    before = gateway.head()
    with socket_to(gateway) as connection:
        hello = json.loads(connection.recv(timeout=DEADLINE_S))
        submit(owner, 3)
        found = read_to(connection, gateway.head())
    assert hello == [{"type": "hello", "cursor": before}]
    assert positions(found) == gateway.log(before)


def test_events_look_the_same_as_in_the_log(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    submit(owner, title="same")
    with socket_to(gateway, f"?cursor={before}") as connection:
        found = read_to(connection, gateway.head())
    listed = owner.get("/api/log", params={"after": before}).json()["events"]
    assert [
        {name: value for name, value in message.items() if name != "type"}
        for message in found
        if message["type"] == "event"
    ] == listed


def test_a_frame_ends_with_the_cursor_to_go_on_from(
    gateway: Installation, owner: httpx2.Client
) -> None:
    submit(owner)
    with socket_to(gateway, "?cursor=0&names=task_created") as connection:
        connection.recv(timeout=DEADLINE_S)
        frame = json.loads(connection.recv(timeout=DEADLINE_S))
    assert frame[-1]["type"] == "cursor"
    assert frame[-1]["cursor"] >= frame[-2]["position"]


def test_resuming_by_the_cursor_misses_nothing_and_repeats_nothing(
    gateway: Installation, owner: httpx2.Client
) -> None:
    submit(owner, 4, run=True)
    first = gateway.log()
    with socket_to(gateway, "?cursor=0") as connection:
        seen = positions(read_to(connection, first[len(first) // 2]))
    submit(owner, 4, run=True)
    with socket_to(gateway, f"?cursor={seen[-1]}") as connection:
        seen += positions(read_to(connection, gateway.head()))
    assert seen == gateway.log()


def test_more_than_one_batch_of_history(gateway: Installation, owner: httpx2.Client) -> None:
    owner.post("/api/bulk", json=[{"intent": "runQA"}] * 2_500)
    with socket_to(gateway, "?cursor=0") as connection:
        assert positions(read_to(connection, gateway.head())) == gateway.log()


def test_batches_that_are_cut_by_their_bytes(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_walk, "PAGE_BYTES", 1)
    submit(owner, 3, run=True)
    log = gateway.log()
    with socket_to(gateway, "?cursor=0") as connection:
        assert positions(read_to(connection, log[-1])) == log
    with socket_to(gateway, "?cursor=0&follow=false") as connection:
        assert positions(until_closed(connection)) == log
    listed: list[int] = []
    while batch := owner.get("/api/log", params={"after": listed[-1] if listed else 0}).json():
        if not batch["events"]:
            break
        assert batch["cursor"] == batch["events"][-1]["position"]
        assert len(batch["events"]) == 1
        listed.append(batch["cursor"])
    assert listed == log


def test_readers_that_join_while_others_write_see_the_logs_own_order(
    gateway: Installation, owner: httpx2.Client
) -> None:
    """Writers submit all the time; readers come in the middle, from the beginning or from now."""
    done = threading.Event()
    seen: dict[int, tuple[int, list[int]]] = {}

    def write() -> None:
        client = gateway.client()
        while not done.is_set():
            submit(client, run=True)

    def read(number: int) -> None:
        query = "?cursor=0" if number % 2 else ""
        with socket_to(gateway, query) as connection:
            (hello,) = json.loads(connection.recv(timeout=DEADLINE_S))
            seen[number] = hello["cursor"], positions(read_to(connection, hello["cursor"] + 150))

    writers = [threading.Thread(target=write) for _ in range(3)]
    readers = [threading.Thread(target=read, args=(number,)) for number in range(6)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in readers:
        thread.join()
    done.set()
    for thread in writers:
        thread.join()
    log = gateway.log()
    assert len(seen) == 6
    for start, found in seen.values():
        expected = [position for position in log if start < position <= found[-1]]
        assert found == expected


# ---- filters ---------------------------------------------------------------------------------


def test_a_filter_by_task_has_its_jobs_too(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    mine = submit(owner, run=True)
    submit(owner, run=True)
    gateway.complete(mine)
    with socket_to(gateway, f"?cursor={before}&task={mine}&follow=false") as connection:
        found = [message for message in until_closed(connection) if message["type"] == "event"]
    assert {message["stream"] for message in found} == {mine, f"{mine}-j1"}
    own = owner.get(f"/api/tasks/{mine}/events").json()["events"]
    assert positions(found) == [event["position"] for event in own]


def test_a_filter_by_project_and_by_name(gateway: Installation, owner: httpx2.Client) -> None:
    before = gateway.head()
    submit(owner, project="alpha", run=True)
    submit(owner, project="beta", run=True)
    query = f"?cursor={before}&project=alpha&names=task_queued,job_created&follow=false"
    with socket_to(gateway, query) as connection:
        found = [message for message in until_closed(connection) if message["type"] == "event"]
    assert [(message["name"], message["project"]) for message in found] == [
        ("task_queued", "alpha"),
        ("job_created", "alpha"),
    ]


def test_a_projects_token_sees_its_project_alone(
    gateway: Installation, owner: httpx2.Client
) -> None:
    token = gateway.token_for(Scope.READ, project="gamma")
    before = gateway.head()
    submit(owner, project="delta")
    mine = submit(owner, project="gamma")
    with socket_to(gateway, f"?cursor={before}&follow=false", token) as connection:
        found = [message for message in until_closed(connection) if message["type"] == "event"]
    assert [message["stream"] for message in found] == [mine]


# ---- the two messages that people wait for ---------------------------------------------------


def messages_after(gateway: Installation, before: int) -> list[Message]:
    """The messages for people since a position."""
    with socket_to(gateway, f"?cursor={before}&follow=false") as connection:
        found = until_closed(connection)
    kinds = ("task_completed", "task_question")
    return [message for message in found if message["type"] in kinds]


def test_a_board_task_is_reported_done_blocked_and_cancelled(
    gateway: Installation, owner: httpx2.Client
) -> None:
    before = gateway.head()
    done = submit(owner, lifecycle="board", run=True)
    gateway.complete(done)
    blocked = submit(owner, lifecycle="board", run=True)
    gateway.fail(blocked)
    owner.post(f"/api/tasks/{blocked}/cancel")
    found = [(message["task_id"], message["state"]) for message in messages_after(gateway, before)]
    assert found == [(done, "done"), (blocked, "blocked"), (blocked, "cancelled")]


def test_a_review_task_is_reported_with_its_question_and_its_ends(
    gateway: Installation, owner: httpx2.Client
) -> None:
    before = gateway.head()
    task_id = submit(owner, run=True)
    gateway.ask(task_id, "Which one?", ["a", "b"])
    owner.post(f"/api/tasks/{task_id}/answer", json={"answer": "a"})
    gateway.complete(task_id)
    owner.post(f"/api/tasks/{task_id}/accept")
    failed = submit(owner, run=True)
    gateway.fail(failed)
    found = messages_after(gateway, before)
    assert [(message["type"], message.get("state")) for message in found] == [
        ("task_completed", "blocked"),
        ("task_question", None),
        ("task_completed", "ready"),
        ("task_completed", "completed"),
        ("task_completed", "failed"),
    ]
    question = found[1]
    assert (question["task_id"], question["question"]) == (task_id, "Which one?")
    assert question["options"] == ["a", "b"]


def test_a_subtask_under_review_is_reported_completed(
    gateway: Installation, owner: httpx2.Client
) -> None:
    parent = submit(owner)
    before = gateway.head()
    child = submit(owner, parent_id=parent)
    gateway.complete(child)
    found = [(message["task_id"], message["state"]) for message in messages_after(gateway, before)]
    assert found == [(child, "completed")]


# ---- being let go ----------------------------------------------------------------------------


def closed(connection: ClientConnection) -> tuple[int, list[Message]]:
    """How a connection is closed, and the last messages before."""
    found = until_closed(connection)
    code = connection.protocol.close_code
    assert code is not None
    return code, found


def test_a_revoked_token_closes_the_socket(gateway: Installation, owner: httpx2.Client) -> None:
    made = owner.post("/api/tokens", json={"name": "watcher", "scopes": ["read"]}).json()
    with socket_to(gateway, token=made["token"]) as connection:
        connection.recv(timeout=DEADLINE_S)
        owner.delete("/api/tokens/watcher")
        code, found = closed(connection)
    assert code == 4401
    assert (found[-1]["type"], found[-1]["reason"]) == ("resync", "unauthorized")


def test_an_expired_token_closes_the_socket(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ, lifetime_s=3_600)
    key = digest_of(token)
    with socket_to(gateway, token=token) as connection:
        connection.recv(timeout=DEADLINE_S)

        def expire(tx: Any) -> None:
            row = tx.rows("tokens")[key]
            tx.put_rows("tokens", {key: {**row, "expires_at": row["created_at"]}})

        gateway.core.engine.transaction(expire)
        assert closed(connection)[0] == 4401


def test_a_slow_reader_is_dropped_with_a_reason_and_the_others_see_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_hub, "MAX_FRAMES", 3)
    monkeypatch.setattr(feed_hub, "MIN_PAUSE_S", 0.001)
    monkeypatch.setattr(
        feed_routes, "GRACE_S", DEADLINE_S
    )  # it receives the reason when this test reads it
    with installed(tmp_path) as gateway:
        owner = gateway.client()
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        narrow.connect(("127.0.0.1", gateway.port))
        with socket_to(gateway, sock=narrow, max_queue=1) as slow, socket_to(gateway) as quick:
            slow.recv(timeout=DEADLINE_S)
            seen: list[int] = []
            reading = threading.Thread(target=note_positions, args=(quick, seen))
            reading.start()
            until(lambda: len(gateway.hub.readers) == 2)
            readers = list(gateway.hub.readers)
            while not any(reader.ended for reader in readers):
                submit(owner, payload="x" * 500_000)
                # Only one of them is slow, however slow the machine is.
                until(lambda: gateway.head() in seen)
            submit(owner)
            until(lambda: gateway.hub.position == gateway.head())
            code, found = closed(slow)
            gateway.server.stop()
            reading.join()
            assert seen == gateway.log()
    assert code == 4408
    last = found[-1]
    assert (last["type"], last["reason"]) == ("resync", "slow_reader")
    assert positions(found) == unbroken(found)
    assert last["cursor"] == ([0, *positions(found)])[-1]


def note_positions(connection: ClientConnection, seen: list[int]) -> None:
    """Of everything that comes, until the other side closes."""
    with suppress(ConnectionClosed):
        while True:
            seen.extend(positions(json.loads(connection.recv(timeout=DEADLINE_S))))


def unbroken(found: list[Message]) -> list[int]:
    """Positions without a hole: what the slow one did see was in order."""
    seen = positions(found)
    return list(range(seen[0], seen[0] + len(seen))) if seen else []


def test_a_stopping_gateway_says_goodbye(tmp_path: Path) -> None:
    with installed(tmp_path) as gateway, socket_to(gateway) as connection:
        connection.recv(timeout=DEADLINE_S)
        stopping = threading.Thread(target=gateway.server.stop)
        stopping.start()
        code, found = closed(connection)
        stopping.join()
    assert code == 1012
    assert (found[-1]["type"], found[-1]["reason"]) == ("bye", "stopping")


def test_a_reader_that_leaves_is_forgotten(gateway: Installation) -> None:
    until(lambda: not gateway.hub.readers)  # of earlier tests
    with socket_to(gateway) as connection:
        connection.recv(timeout=DEADLINE_S)
        assert len(gateway.hub.readers) == 1
    until(lambda: not gateway.hub.readers)
