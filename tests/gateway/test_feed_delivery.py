"""The live feed delivers every event once although reading or delivering fails in between."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest
from websockets.sync.client import ClientConnection

from detent import feed
from detent.errors import Unavailable
from detent.gateway import feed_hub, feed_messages
from detent.store.port import Store
from tests.gateway.installation import DEADLINE_S, Installation, until
from tests.gateway.readers import positions, read_to, socket_to, submit

HUB = "detent-feed"


@contextmanager
def joined(gateway: Installation) -> Iterator[tuple[ClientConnection, Iterator[int], int]]:
    """A WebSocket and server-sent events that have caught up, and the cursor of both."""
    until(lambda: gateway.hub.position == gateway.head())
    before = gateway.head()
    stream = gateway.client().stream("GET", "/api/events", params={"cursor": before})
    with socket_to(gateway, f"?cursor={before}") as socket, stream as response:
        until(lambda: sum(map(len, gateway.hub._live.values())) >= 2)
        yield socket, sent_positions(response), before


def sent_positions(response: httpx2.Response) -> Iterator[int]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            message = json.loads(line[6:])
            if message["type"] == "event":
                yield message["position"]


def up_to(found: Iterator[int], last: int) -> list[int]:
    seen = []
    for position in found:
        seen.append(position)
        if position >= last:
            break
    return seen


def fails_once(
    monkeypatch: pytest.MonkeyPatch, name: str, when: Callable[[], bool]
) -> threading.Event:
    """A function of the hub's that raises the first time that the condition holds."""
    right, failed = getattr(feed_hub, name), threading.Event()

    def failing(*given: Any) -> Any:
        if when() and not failed.is_set():
            failed.set()
            raise Unavailable("The connection was cut.", retry_after_s=1)
        return right(*given)

    monkeypatch.setattr(feed_hub, name, failing)
    return failed


def in_the_hubs_thread() -> bool:
    return threading.current_thread().name == HUB


@pytest.mark.parametrize(
    ("function", "when"),
    [
        pytest.param("with_states", in_the_hubs_thread, id="reading what else is needed"),
        pytest.param("encoded", lambda: True, id="encoding"),
        pytest.param("frame", lambda: True, id="making a frame"),
    ],
)
def test_a_failure_between_read_and_delivery_loses_nothing(
    gateway: Installation,
    owner: httpx2.Client,
    monkeypatch: pytest.MonkeyPatch,
    function: str,
    when: Callable[[], bool],
) -> None:
    with joined(gateway) as (socket, stream, before):
        failed = fails_once(monkeypatch, function, when)
        submit(owner, 3, run=True)
        until(failed.is_set)
        submit(owner, 2)
        head = gateway.head()
        over_socket, over_stream = positions(read_to(socket, head)), up_to(stream, head)
    assert over_socket == over_stream == gateway.log(before)


def test_one_group_that_fails_leaves_the_others_without_repetition(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frame of the second group fails: the first group has not got the batch yet."""
    calls: list[None] = []

    def at_the_second() -> bool:
        calls.append(None)
        return len(calls) == 2

    with joined(gateway) as (socket, stream, before):
        failed = fails_once(monkeypatch, "frame", at_the_second)
        submit(owner)
        until(failed.is_set)
        submit(owner)
        head = gateway.head()
        over_socket, over_stream = positions(read_to(socket, head)), up_to(stream, head)
    assert over_socket == over_stream == gateway.log(before)


def test_a_reader_that_is_ahead_of_the_hub_gets_nothing_twice(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read further at another gateway, whose hub was faster."""
    until(lambda: gateway.hub.position == gateway.head())
    right, held, go_on = feed_messages.with_states, threading.Event(), threading.Event()

    def hold(*given: Any) -> Any:
        if in_the_hubs_thread():
            held.set()
            assert go_on.wait(DEADLINE_S)
        return right(*given)

    monkeypatch.setattr(feed_hub, "with_states", hold)
    with socket_to(gateway) as follower:  # without a reader, the hub reads nothing
        follower.recv(timeout=DEADLINE_S)
        until(lambda: bool(gateway.hub._live))
        submit(owner, 3)
        until(held.is_set)
    ahead = gateway.head()
    assert gateway.hub.position < ahead
    with socket_to(gateway, f"?cursor={ahead}") as connection:
        hello = json.loads(connection.recv(timeout=DEADLINE_S))
        owner.get("/api/health")  # the loop has had its turns after the hello
        go_on.set()
        submit(owner, 2)
        found = positions(read_to(connection, gateway.head()))
    assert hello == [{"type": "hello", "cursor": ahead}]
    assert found == gateway.log(ahead)


def test_without_readers_the_hub_reads_no_events(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: gateway.hub.position == gateway.head())
    read, seen = feed.read, list[int]()

    def note(store: Store, after: int, *more: Any) -> Any:
        found = read(store, after, *more)
        if in_the_hubs_thread():
            seen.extend(each.position for each in found)
        return found

    monkeypatch.setattr(feed, "read", note)
    submit(owner, 3)
    until(lambda: gateway.hub.position == gateway.head())
    assert seen == []


def test_a_reader_that_joins_while_the_hub_moves_on_misses_nothing(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    until(lambda: gateway.hub.position == gateway.head())
    before, head = gateway.head(), feed.head
    held, go_on = threading.Event(), threading.Event()

    def hold(store: Store) -> int:
        end = head(store)
        if in_the_hubs_thread() and end > before:
            held.set()
            assert go_on.wait(DEADLINE_S)
        return end

    monkeypatch.setattr(feed, "head", hold)
    submit(owner, 3)
    until(held.is_set)
    with socket_to(gateway, f"?cursor={before}") as connection:
        until(lambda: bool(gateway.hub._live))
        go_on.set()
        assert positions(read_to(connection, gateway.head())) == gateway.log(before)
