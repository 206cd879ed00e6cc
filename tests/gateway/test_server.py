"""The server's life: up on a port, busy ports reported, down within its time."""

import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from detent.errors import Misconfigured
from detent.gateway import server as server_module
from detent.gateway.server import Server
from detent.operations.context import Core
from detent.settings import Settings
from tests.gateway.installation import DEADLINE_S, Installation, installed, until
from tests.gateway.readers import raw_socket, socket_to, until_closed


def test_a_port_that_is_taken_is_reported_plainly(tmp_path: Path) -> None:
    with installed(tmp_path) as gateway:
        settings = Settings(store_data_dir=str(tmp_path), gateway_port=gateway.port)
        other = Core(gateway.core.store, gateway.core.engine, settings)
        with pytest.raises(Misconfigured, match=str(gateway.port)) as raised:
            Server(other).start()
    assert raised.value.setting == "gateway.port"


def test_answers_are_not_delayed_to_fill_packets() -> None:
    """asyncio switches that delay off only for sockets that are named as TCP."""
    listening = server_module._listen("127.0.0.1", 0)
    with listening:
        assert listening.proto == socket.IPPROTO_TCP


def test_stopping_waits_for_the_request_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(*_: object, **__: object) -> dict[str, str]:
        entered.set()
        assert go_on.wait(DEADLINE_S)
        return {"done": "yes"}

    with installed(tmp_path) as gateway:
        monkeypatch.setattr("detent.gateway.operation_dispatcher.call", slow)
        answers: list[httpx2.Response] = []
        asking = threading.Thread(target=lambda: answers.append(gateway.client().get("/status")))
        asking.start()
        assert entered.wait(DEADLINE_S)
        stopping = threading.Thread(target=gateway.server.stop)
        stopping.start()
        until(lambda: refused(gateway))
        assert asking.is_alive()
        go_on.set()
        asking.join()
        stopping.join()
    assert answers[0].json() == {"done": "yes"}


def refused(gateway: Installation) -> bool:
    try:
        socket.create_connection(("127.0.0.1", gateway.port), timeout=1).close()
    except OSError:
        return True
    return False


def test_stopping_does_not_wait_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that keeps its connection and sends nothing does not hold the gateway up."""
    monkeypatch.setattr(server_module, "GRACE_S", 1)
    with (
        installed(tmp_path) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port)) as idle,
    ):
        idle.sendall(b"POST /add HTTP/1.1\r\n")
        gateway.client().get("/health")
        before = time.monotonic()
        gateway.server.stop()
        assert time.monotonic() - before < DEADLINE_S


def test_stopping_does_not_wait_for_readers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sockets, a stream and one that reads nothing: each would stay open without end."""
    monkeypatch.setattr(server_module, "GRACE_S", DEADLINE_S)
    with installed(tmp_path) as gateway, ExitStack() as open_ones:
        sockets = [open_ones.enter_context(socket_to(gateway)) for _ in range(20)]
        stream = open_ones.enter_context(gateway.client().stream("GET", "/api/events"))
        deaf = open_ones.enter_context(raw_socket(gateway))
        deaf.sendall(
            f"GET /api/events HTTP/1.1\r\nHost: 127.0.0.1:{gateway.port}\r\n"
            f"Authorization: Bearer {gateway.token}\r\n\r\n".encode()
        )
        until(lambda: len(gateway.hub.readers) == 22)
        before = time.monotonic()
        gateway.server.stop()
        assert time.monotonic() - before < server_module.GRACE_S
        assert "stopping" in stream.read().decode()
        for each in sockets:
            assert until_closed(each)[-1]["reason"] == "stopping"


def test_stopping_twice_is_stopping_once(tmp_path: Path) -> None:
    with installed(tmp_path) as gateway:
        gateway.server.stop()
        gateway.server.stop()


def test_a_gateway_starts_again_on_the_same_store(tmp_path: Path) -> None:
    with installed(tmp_path) as gateway:
        made = gateway.client().post("/api/tasks", json={"intent": "runQA"}).json()["id"]
        token = gateway.token
    with installed(tmp_path) as again:
        assert again.token == token
        assert again.client().get(f"/api/tasks/{made}").status_code == 200


def test_a_request_that_outlasts_a_stop_gets_an_answer_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def blocked(*_: object, **__: object) -> None:
        entered.set()
        assert go_on.wait(DEADLINE_S)

    monkeypatch.setattr(server_module, "GRACE_S", 0.2)
    with installed(tmp_path) as gateway:
        monkeypatch.setattr("detent.gateway.operation_dispatcher.call", blocked)
        answers: list[httpx2.Response] = []
        asking = threading.Thread(target=lambda: answers.append(gateway.client().get("/status")))
        asking.start()
        assert entered.wait(DEADLINE_S)
        stopping = threading.Thread(target=gateway.server.stop)
        stopping.start()
        asking.join()
        go_on.set()
        stopping.join()
    assert (answers[0].status_code, answers[0].json()["code"]) == (503, "unavailable")
    assert "The gateway is stopping" in answers[0].json()["detail"]
    assert not [each for each in caplog.records if each.exc_info]
