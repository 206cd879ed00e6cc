"""Connections: slow requests are ended, limits hold, and requests with a token are served."""

import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from detent.gateway import connections, feed_hub, strict_json
from detent.gateway.connections import Connections, Limits
from detent.settings import Settings
from tests.e2e.installation import Installation as Processes
from tests.gateway.installation import DEADLINE_S, Installation, installed, until
from tests.gateway.readers import messages, raw_socket, socket_to, submit

#: Further ahead than any limit that these tests leave as it is.
LATER_S = 1_000.0


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Installation]:
    with installed(tmp_path) as made:
        yield made


def sweep(gateway: Installation, ahead_s: float) -> None:
    """What the gateway does once a second, as if it were that much later."""
    server: Any = gateway.server._server
    done: list[bool] = []

    def now() -> None:
        gateway.server.connections.sweep(server.loop.time() + ahead_s)
        done.append(True)

    server.loop.call_soon_threadsafe(now)
    until(lambda: bool(done))


def answer_of(sock: socket.socket) -> bytes:
    """Everything until the other side closes."""
    found = b""
    try:
        while part := sock.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def head(gateway: Installation, line: str, *more: str, token: str = "") -> bytes:
    lines = [f"{line} HTTP/1.1", f"Host: 127.0.0.1:{gateway.port}", *more]
    if token:
        lines.append(f"Authorization: Bearer {token}")
    return "\r\n".join([*lines, "", ""]).encode()


def held(gateway: Installation) -> int:
    return len(gateway.server.connections)


# ---- time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"G", b"GET /status HTTP/1.1\r\nHost: x\r\nX-Slow: "])
def test_headers_that_do_not_end_are_answered_with_408(tmp_path: Path, sent: bytes) -> None:
    with installed(tmp_path, gateway_header_timeout_ms=100) as gateway:
        with raw_socket(gateway) as slow:
            slow.sendall(sent)
            assert answer_of(slow).startswith(b"HTTP/1.1 408 ")
        until(lambda: held(gateway) == 0)


def test_a_second_request_has_the_same_time_for_its_headers(tmp_path: Path) -> None:
    with installed(tmp_path, gateway_header_timeout_ms=100) as gateway, raw_socket(gateway) as slow:
        slow.sendall(head(gateway, "GET /health"))
        slow.recv(65_536)
        slow.sendall(b"GET /sta")
        assert b"HTTP/1.1 408 " in answer_of(slow)


def test_an_idle_connection_is_kept_between_requests(gateway: Installation) -> None:
    client = gateway.client()
    client.get("/status")
    before = held(gateway)
    sweep(gateway, LATER_S)
    assert held(gateway) == before
    assert client.get("/status").status_code == 200


@pytest.mark.parametrize("path", ["/add", "/api/login"])
def test_a_body_that_trickles_is_answered_with_408(tmp_path: Path, path: str) -> None:
    with installed(tmp_path, gateway_body_timeout_ms=300) as gateway, raw_socket(gateway) as slow:
        more = ("Content-Type: application/json", "Content-Length: 10000")
        slow.sendall(head(gateway, f"POST {path}", *more, token=gateway.token))
        slow.settimeout(0.05)
        end, found = time.monotonic() + DEADLINE_S, b""
        while b"body_timeout" not in found:
            assert time.monotonic() < end
            slow.sendall(b" ")
            try:
                found += slow.recv(65_536)
            except TimeoutError:
                continue
        assert found.startswith(b"HTTP/1.1 408 ")


def test_an_unread_body_does_not_hold_the_connection(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request is refused for its missing token; the rest of its body is not waited for."""
    monkeypatch.setattr(connections, "LINGER_S", 0.1)
    with raw_socket(gateway) as slow:
        more = ("Content-Type: application/json", "Content-Length: 1000000")
        slow.sendall(head(gateway, "POST /add", *more))
        slow.settimeout(0.05)
        found, closed, end = b"", False, time.monotonic() + DEADLINE_S
        while not closed:
            assert time.monotonic() < end
            try:
                slow.sendall(b" ")
                part = slow.recv(65_536)
                found, closed = found + part, part == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                closed = True
        assert found.startswith(b"HTTP/1.1 401 ")


def test_a_long_upload_with_steady_progress_arrives(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes longer than the timeout, but never pauses that long."""
    limit_s = gateway.core.settings.gateway_body_timeout_ms / 1_000
    reads: list[float] = []

    def monotonic() -> float:
        """The gateway reads the time before and after it waits for a part."""
        reads.append(0.4 * limit_s)
        return sum(reads)

    def pieces() -> Iterator[bytes]:
        yield b'{"intent": "runQA"'
        for arrived in range(1, 7):
            yield b" " * 2_048
            until(partial(_has, reads, 2 * arrived))
        yield b"}"

    monkeypatch.setattr(strict_json, "time", SimpleNamespace(monotonic=monotonic))
    headers = {"Content-Type": "application/json"}
    answer = gateway.client().post("/api/tasks", content=pieces(), headers=headers)
    assert answer.status_code == 201, answer.text


def _has(reads: list[float], count: int) -> bool:
    return len(reads) >= count


def test_feeds_stay_open_whatever_time_passes(gateway: Installation) -> None:
    owner = gateway.client()
    with (
        socket_to(gateway) as websocket,
        gateway.client().stream("GET", "/api/events") as stream,
    ):
        until(lambda: len(gateway.hub.readers) == 2)
        for _ in range(3):
            sweep(gateway, LATER_S)
        task_id = submit(owner)
        assert any(each.get("stream") == task_id for each in messages(websocket))
        assert any(task_id in line for line in stream.iter_lines())


# ---- requests on the wire --------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [
        [b"X-Long: ", *[b"x" * 1_000] * 20],
        [
            b"".join(b"X-%d: y\r\n" % number for number in range(n, n + 60))
            for n in range(0, 3_000, 60)
        ],
    ],
    ids=["one", "many"],
)
def test_headers_that_do_not_fit_are_refused(gateway: Installation, parts: list[bytes]) -> None:
    with raw_socket(gateway) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(head(gateway, "GET /status", token=gateway.token)[:-2])
        assert _sent_in_parts(sock, parts).startswith(b"HTTP/1.1 400 ")


def _sent_in_parts(sock: socket.socket, parts: list[bytes]) -> bytes:
    """The response to a request in parts, until the gateway closes the connection."""
    try:
        for part in parts:
            sock.sendall(part)
    except (ConnectionResetError, BrokenPipeError):
        pass
    return answer_of(sock)


def test_trailers_are_no_headers_and_must_fit(gateway: Installation) -> None:
    chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked")
    body = b'13\r\n{"intent": "runQA"}\r\n0\r\n'
    sent = head(gateway, "POST /api/tasks", *chunked, "Connection: close", token=gateway.token)
    with raw_socket(gateway) as sock:
        sock.sendall(sent + body + b"Idempotency-Key: \r\n\r\n")
        assert answer_of(sock).startswith(b"HTTP/1.1 201 ")
    with raw_socket(gateway) as sock:
        sock.sendall(sent + body)
        long = [b"X-Long: ", *[b"x" * 1_000] * 600]  # more than is read together
        assert _sent_in_parts(sock, long).startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("more", ["Host: other", "Content-Length: 1", "Bad Name: 1", "X: \0"])
def test_a_malformed_request_is_refused(gateway: Installation, more: str) -> None:
    with raw_socket(gateway) as sock:
        given = ("Content-Length: 0", more)
        sock.sendall(head(gateway, "GET /status", *given, token=gateway.token))
        assert answer_of(sock).startswith(b"HTTP/1.1 400 ")


def test_requests_that_are_sent_together_are_answered_in_order(gateway: Installation) -> None:
    body = b'{"intent": "runQA"}'
    more = ("Content-Type: application/json", f"Content-Length: {len(body)}")
    submission = head(gateway, "POST /api/tasks", *more, token=gateway.token) + body
    missing = head(gateway, "GET /api/tasks/missing", token=gateway.token)
    last = head(gateway, "GET /health", "Connection: close")
    with raw_socket(gateway) as sock:
        sock.sendall(submission + missing + submission + last)
        found = answer_of(sock)
    statuses = [each[:3] for each in found.split(b"HTTP/1.1 ")[1:]]
    assert statuses == [b"201", b"404", b"201", b"200"]


def test_a_body_that_has_arrived_must_fit(tmp_path: Path) -> None:
    chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close")
    text = b'{"intent": "runQA", "title": "%s"}'
    with installed(tmp_path, gateway_body_limit=1_000) as gateway:
        for length, status in ((100, b"201"), (1_000, b"413")):
            body = text % (b"x" * length)
            sent = head(gateway, "POST /api/tasks", *chunked, token=gateway.token)
            with raw_socket(gateway) as sock:
                sock.sendall(sent + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
                assert answer_of(sock).startswith(b"HTTP/1.1 " + status)


def test_a_client_that_leaves_does_not_affect_the_others_in_its_batch(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has submitted is committed; the submissions beside it get their responses."""
    serving, may_commit = threading.Event(), threading.Event()
    execute, queue = gateway.core.engine.serve, gateway.server.gateway.dispatcher._submissions

    def serve(results: Any) -> None:
        serving.set()
        assert may_commit.wait(DEADLINE_S)
        execute(results)

    monkeypatch.setattr(gateway.core.engine, "serve", serve)
    before, body = gateway.head(), b'{"intent": "runQA"}'
    more = ("Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close")
    submission = head(gateway, "POST /api/tasks", *more, token=gateway.token) + body
    with ExitStack() as opened:
        first, leaving, *others = (opened.enter_context(raw_socket(gateway)) for _ in range(4))
        first.sendall(submission)
        assert serving.wait(DEADLINE_S)
        for sock in (leaving, *others):
            sock.sendall(submission)
        until(lambda: queue.qsize() == 3)
        leaving.close()
        until(lambda: held(gateway) == 3)
        may_commit.set()
        assert all(answer_of(each).startswith(b"HTTP/1.1 201 ") for each in (first, *others))
    assert gateway.head() == before + 4


def test_a_stream_ends_with_its_connection_though_another_request_waits(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway sends something to an idle stream, and so notices that its client is gone."""
    monkeypatch.setattr(feed_hub, "IDLE_CHECKS", 1)
    with raw_socket(gateway) as sock:
        sock.sendall(head(gateway, "GET /api/events", token=gateway.token))
        until(lambda: len(gateway.hub.readers) == 1)
        sock.sendall(head(gateway, "GET /status", token=gateway.token))
    until(lambda: not gateway.hub.readers and held(gateway) == 0)
    assert gateway.client().get("/status").status_code == 200


# ---- how many --------------------------------------------------------------------------------


def test_the_oldest_connection_without_a_token_gives_way(tmp_path: Path) -> None:
    with (
        installed(tmp_path, gateway_connections_per_client=3) as gateway,
        ExitStack() as opened,
        gateway.client().stream("GET", "/api/events") as feed,
    ):
        first, second = (opened.enter_context(raw_socket(gateway)) for _ in range(2))
        until(lambda: held(gateway) == 3)
        assert gateway.client().get("/status").status_code == 200
        assert answer_of(first).startswith(b"HTTP/1.1 503 ")
        task_id = submit(gateway.client())
        assert answer_of(second).startswith(b"HTTP/1.1 503 ")
        assert any(task_id in line for line in feed.iter_lines())
        assert held(gateway) <= 3


def test_a_connection_more_than_can_be_served_is_refused(tmp_path: Path) -> None:
    with installed(tmp_path, gateway_connections=2) as gateway, ExitStack() as opened:
        feeds = [
            opened.enter_context(gateway.client().stream("GET", "/api/events")) for _ in range(2)
        ]
        assert gateway.client().get("/status").status_code == 503
        task_id = _submit_directly(gateway)
        for feed in feeds:
            assert any(task_id in line for line in feed.iter_lines())


def _submit_directly(gateway: Installation) -> str:
    from detent.operations.registry import OWNER, call

    return str(call("submit_task", gateway.core, OWNER, intent="runQA")["id"])


class Fake:
    """A connection from an address, of a rank."""

    def __init__(self, address: str, rank: int | None = 0) -> None:
        self.client, self.given, self.ended = (address, 1), rank, 0

    def rank(self) -> int | None:
        return self.given

    def end(self, status: int) -> None:
        self.ended = status


def test_one_client_does_not_take_the_connections_of_another() -> None:
    held = Connections(Limits(total=10, per_client=2))
    other = Fake("192.0.2.1")
    held.add(other)
    attack = [Fake("192.0.2.2") for _ in range(20)]
    for each in attack:
        held.add(each)
    assert other.ended == 0
    assert [each.ended for each in attack] == [503] * 18 + [0, 0]
    assert len(held) == 3


def test_which_connection_gives_way() -> None:
    """First those without a token, then idle ones, and none that is being served."""
    held = Connections(Limits(total=3, per_client=9))
    busy, idle, stranger = Fake("a", None), Fake("b", 1), Fake("c")
    for each in (busy, idle, stranger):
        held.add(each)
    held.add(Fake("d", None))
    assert (busy.ended, idle.ended, stranger.ended) == (0, 0, 503)
    held.add(Fake("e", None))
    assert (busy.ended, idle.ended) == (0, 503)
    last = Fake("f", None)
    held.add(last)
    assert (busy.ended, last.ended) == (0, 503)


def test_no_more_connections_than_files_can_be_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
        assert Limits.of(Settings()).total == 512 - connections.RESERVED_FILES
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- an attack -------------------------------------------------------------------------------

ATTACKERS = 2_000
ATTACK = """
import resource, socket, sys
port, count = map(int, sys.argv[1:])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, count + 100), hard))
host = f"Host: 127.0.0.1:{port}\\r\\n"
body = "Content-Type: application/json\\r\\nContent-Length: 500000\\r\\n\\r\\n{"
kinds = ["", "GET /status HTTP/1.1\\r\\n" + host + "X-Slow: ",
    "POST /add HTTP/1.1\\r\\n" + host + body, "POST /api/login HTTP/1.1\\r\\n" + host + body]
opened = []
for number in range(count):
    made = socket.create_connection(("127.0.0.1", port), timeout=60)
    try:
        made.sendall(kinds[number % len(kinds)].encode())
    except OSError:
        pass  # closed already: another one was opened since
    opened.append(made)
print("open", flush=True)
sys.stdin.read()
"""


class Few(Processes):
    """An installation whose processes may open no more files than most systems allow."""

    def _program(self, *arguments: str) -> list[str]:
        limited = ["sh", "-c", 'ulimit -S -n 1024; exec "$@"', "sh"]
        return [*limited, *super()._program(*arguments)]

    @property
    def environment(self) -> dict[str, str]:
        """No time limit ends the attack: what is served is served beside it."""
        names = ("DETENT_GATEWAY_HEADER_TIMEOUT_MS", "DETENT_GATEWAY_BODY_TIMEOUT_MS")
        return {**super().environment, **dict.fromkeys(names, "3600000")}


def test_other_requests_are_served_during_2000_half_open_requests(tmp_path: Path) -> None:
    attacked = Few(tmp_path)
    attacked.start()
    try:
        port = httpx2.URL(attacked.url).port
        attack = [sys.executable, "-c", ATTACK, str(port), str(ATTACKERS)]
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with subprocess.Popen(attack, **pipes) as attacker:
            for _ in range(10):
                attacked.get("/status")
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == "open\n"
            for _ in range(10):
                attacked.get("/status")
                added = attacked.post("/api/tasks", {"intent": "none"})
                assert (added.status_code, added.json()["code"]) == (422, "unknown_intent")
    finally:
        attacked.stop()
