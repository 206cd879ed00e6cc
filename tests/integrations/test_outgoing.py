"""Outgoing HTTP: address checks, timeouts, size limits, and the projects of webhooks."""

import ipaddress
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from detent.addresses import is_public
from detent.errors import Forbidden, Invalid, Misconfigured, NotFound
from detent.integrations.webhooks.outgoing_http import (
    LONGEST_S,
    MAX_BYTES,
    TIMEOUT_S,
    Failed,
    Outgoing,
)
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.operations import webhooks as ops
from detent.operations.context import Core
from detent.operations.registry import OWNER, Caller
from detent.settings import Settings
from tests.gateway.installation import DEADLINE_S
from tests.integrations.hooks import listed, put, submit
from tests.integrations.receiver import Receiver

# ---- outgoing HTTP ---------------------------------------------------------------------------


def test_a_private_address_is_refused_unless_allowed(core: Core, receiver: Receiver) -> None:
    put(core, receiver)
    core.settings = Settings()  # the setting was changed since
    submit(core, "t")
    Dispatcher(core, "here").run_once()
    assert receiver.received == []
    assert "not a public address" in listed(core)["error"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "ff02::1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.255",
        "240.0.0.1",
        "100::1",
        "2001:2::1",
        "2001:db8::1",
        "3fff::1",
        "5f00::1",
        "64:ff9b:1::1",
        "fec0::1",
        "::ffff:192.0.2.1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


def test_public_addresses_are_defined_by_this_project(monkeypatch: pytest.MonkeyPatch) -> None:
    """`ipaddress` gives different results in different versions of Python."""
    for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
        for name in ("is_global", "is_private", "is_reserved", "is_multicast"):
            monkeypatch.setattr(kind, name, property(lambda _: pytest.fail("it was asked")))
    assert is_public(ipaddress.ip_address("93.184.215.14"))
    assert is_public(ipaddress.ip_address("2606:2800:21f:cb07:6820:80da:af6b:8b2c"))
    assert not is_public(ipaddress.ip_address("fd00::1"))


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("https://127.0.0.1/", "127.0.0.1, which is not a public address"),
        ("https://[::1]/", "::1, which is not a public address"),
        ("https://2130706433/", "127.0.0.1, which is not a public address"),
        ("https://0x7f.1/", "127.0.0.1, which is not a public address"),
        ("https://localhost/", "127.0.0.1, which is not a public address"),
        ("https://169.254.169.254/latest", "which is not a public address"),
        ("https://[::ffff:10.0.0.1]/", "which is not a public address"),
        ("http://93.184.215.14/", "only https may go to public addresses"),
        ("http://example.org/", "only https may go to public addresses"),
    ],
)
def test_a_forbidden_address_is_refused_when_the_webhook_is_created(
    core: Core, url: str, rule: str
) -> None:
    core.settings = Settings()
    with pytest.raises(Invalid) as raised:
        ops.put_webhook(core, OWNER, name="chat", url=url)
    assert rule in str(raised.value)
    assert "webhooks.allow" in raised.value.hint


def test_an_allowed_network_can_be_put(core: Core) -> None:
    core.settings = Settings(webhooks_allow=("10.0.0.0/8",))
    for url in ("http://10.1.2.3/", "http://inside.example.org/", "https://example.org/"):
        ops.put_webhook(core, OWNER, name="chat", url=url)
    with pytest.raises(Invalid, match="not a public address"):
        ops.put_webhook(core, OWNER, name="chat", url="http://192.168.0.1/")


def test_a_name_with_one_private_address_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*_: object, **__: object) -> list[Any]:
        return [(2, 1, 6, "", ("93.184.215.14", 443)), (2, 1, 6, "", ("10.0.0.1", 443))]

    monkeypatch.setattr("detent.integrations.webhooks.outgoing_http.socket.getaddrinfo", found)
    with pytest.raises(Failed, match=r"10\.0\.0\.1, which is not a public address"):
        Outgoing().post("https://example.org/", {}, b"")


def test_public_addresses_need_https(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(*_: object, **__: object) -> list[Any]:
        return [(2, 1, 6, "", ("93.184.215.14", 80))]

    monkeypatch.setattr("detent.integrations.webhooks.outgoing_http.socket.getaddrinfo", found)
    with pytest.raises(Failed, match="only https"):
        Outgoing().post("http://example.org/", {}, b"")


def test_a_name_is_resolved_once_and_the_checked_address_is_used(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    really = socket.getaddrinfo

    def found(host: str, *place: Any, **wanted: Any) -> list[Any]:
        asked.append(host)
        if host != "rebound.example":
            assert host == "127.0.0.1"
            return really(host, *place, **wanted)
        assert asked.count(host) == 1, "it was looked up again"
        return really("127.0.0.1", *place, **wanted)

    monkeypatch.setattr("detent.integrations.webhooks.outgoing_http.socket.getaddrinfo", found)
    outgoing = Outgoing([ipaddress.ip_network("127.0.0.0/8")])
    url = f"http://rebound.example:{receiver.server_port}/hook"
    assert outgoing.post(url, {}, b"").status == 200
    assert asked.count("rebound.example") == 1
    assert receiver.received[0].headers["host"] == f"rebound.example:{receiver.server_port}"


def test_a_silent_receiver_times_out(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    assert TIMEOUT_S <= LONGEST_S <= 15
    monkeypatch.setattr("detent.integrations.webhooks.outgoing_http.TIMEOUT_S", 0.05)
    over = threading.Event()
    receiver.meanwhile = lambda: over.wait(DEADLINE_S)
    with pytest.raises(Failed, match=r"no response: .*Timeout"):
        Outgoing([ipaddress.ip_network("127.0.0.0/8")]).post(receiver.url, {}, b"")
    over.set()


@pytest.fixture
def trickle() -> Iterator[Callable[[bytes], str]]:
    """A receiver that sends some bytes and then single bytes slowly, until the test ends."""
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))
    serving: list[threading.Thread] = []

    def serve(first: bytes) -> None:
        line, _ = listening.accept()
        with line, suppress(OSError):
            line.sendall(first)
            while not over.wait(0.01):
                line.sendall(b"x")

    def begin(first: bytes) -> str:
        serving.append(threading.Thread(target=serve, args=(first,)))
        serving[-1].start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}/hook"

    yield begin
    over.set()
    for thread in serving:
        thread.join()
    listening.close()


def test_a_response_that_never_ends_times_out(
    trickle: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "detent.integrations.webhooks.outgoing_http.LONGEST_S", 3.0
    )  # enough for its headers
    url = trickle(b"HTTP/1.1 500 Oh\r\nContent-Length: 1000000\r\n\r\n")
    answer = Outgoing([ipaddress.ip_network("127.0.0.0/8")]).post(url, {}, b"")
    assert answer.status == 500
    assert {*answer.body} <= {*b"x"}


def test_headers_that_never_end_time_out(
    trickle: Callable[[bytes], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.integrations.webhooks.outgoing_http.LONGEST_S", 0.2)
    with pytest.raises(Failed, match=r"no response: TimeoutError: no response within 0\.2 s"):
        Outgoing([ipaddress.ip_network("127.0.0.0/8")]).post(trickle(b"HTTP/1.1 "), {}, b"")


def test_a_redirect_is_not_followed(core: Core, receiver: Receiver, dispatcher: Dispatcher) -> None:
    put(core, receiver)
    receiver.answers = [(302, {"Location": receiver.url + "/else"}, b"")]
    submit(core, "t")
    dispatcher.run_once()
    assert [each.path for each in receiver.received] == ["/hook"]
    assert "redirects are not followed" in listed(core)["error"]


def test_an_endless_response_is_truncated(receiver: Receiver) -> None:
    receiver.answers = [(500, {}, b"x" * 1_000_000)]
    outgoing = Outgoing([ipaddress.ip_network("127.0.0.0/8")])
    assert len(outgoing.post(receiver.url, {}, b"").body) == MAX_BYTES


def test_a_refused_connection_is_a_failure(core: Core, dispatcher: Dispatcher) -> None:
    ops.put_webhook(core, OWNER, name="chat", url="http://127.0.0.1:1/")
    submit(core, "t")
    dispatcher.run_once()
    assert listed(core)["error"].startswith("no response: ConnectError")


def test_proxies_of_the_environment_are_not_used(
    core: Core, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    put(core, receiver)
    submit(core, "t")
    Dispatcher(core, "here").run_once()
    assert len(receiver.received) == 1


def test_a_wrong_network_is_named(core: Core) -> None:
    core.settings = Settings(webhooks_allow=("10.0.0.1/8",))
    with pytest.raises(Misconfigured, match=r"webhooks\.allow"):
        Dispatcher(core, "here")


# ---- projects of webhooks --------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.org/",
        "https://",
        "https://ann:geheim@example.org/",
        "https://example.org/#x",
        "https://example.org/a b",
        "https://exämple.org/",
        "https://example.org:99999/",
        "/hook",
    ],
)
def test_an_invalid_url_is_refused(core: Core, url: str) -> None:
    with pytest.raises(Invalid, match="url must be like"):
        ops.put_webhook(core, OWNER, name="chat", url=url)


def test_unknown_filters_are_refused(core: Core, receiver: Receiver) -> None:
    for wrong in (
        {"events": ["task_exploded"]},
        {"shape": "xml"},
        {"only": "robots"},
        {"name": "a:b"},
    ):
        with pytest.raises(Invalid):
            put(core, receiver, **wrong)
    with pytest.raises(Invalid, match="Give after"):
        ops.replay_webhook(core, OWNER, name="chat")


def test_a_webhook_of_a_project_token_gets_only_that_project(
    core: Core, receiver: Receiver, dispatcher: Dispatcher
) -> None:
    put(core, receiver, name="all")
    theirs = Caller("them", project="q")
    with pytest.raises(Forbidden):
        ops.put_webhook(core, theirs, name="mine", url=receiver.url, projects=["p"])
    with pytest.raises(Forbidden):
        ops.put_webhook(core, theirs, name="all", url=receiver.url)
    ops.put_webhook(core, theirs, name="mine", url=receiver.url + "/mine")
    assert [each["name"] for each in ops.list_webhooks(core, theirs)["items"]] == ["mine"]
    with pytest.raises(NotFound):
        ops.rotate_webhook_key(core, theirs, name="all")
    submit(core, "a")
    submit(core, "b", project="q")
    dispatcher.run_once()
    came = [(each.path, json.loads(each.body)["subject"]) for each in receiver.received]
    assert came == [("/hook", "a"), ("/hook", "b"), ("/hook/mine", "b")]


def test_no_key_is_ever_shown_again(core: Core, receiver: Receiver) -> None:
    key = put(core, receiver)["key"]
    assert key.startswith("whsec_")
    assert put(core, receiver)["key"] is None
    assert key not in json.dumps(ops.list_webhooks(core, OWNER))
