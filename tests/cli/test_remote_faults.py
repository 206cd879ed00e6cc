"""Gateways that cannot be used, over real connections: what the error says, and what to do next."""

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from detent import api_version
from detent.cli import remote_gateway
from detent.cli.main import cli
from detent.client import Client
from detent.errors import DetentError
from detent.http_routes import ROUTES
from tests.cli.certificates import write_certificates
from tests.gateway.installation import Installation, installed
from tests.ports import free_port


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("gateway")) as installation:
        yield installation


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("DETENT_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == code, result.output
    return result


def tasks(url: str, token: str = "t", code: int = 0) -> str:
    return " ".join(run("tasks", "--url", url, "--token", token, code=code).output.split())


# ---- certificates ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("certificates")
    write_certificates(made)
    return made


@contextmanager
def tls_proxy(gateway: Installation, certificates: Path, name: str) -> Iterator[str]:
    """A TLS server in front of the gateway, with a certificate; its URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / f"{name}.pem", certificates / f"{name}.key")
    upstream = gateway.client(None)

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kept = {"Authorization": self.headers["Authorization"]}
            answer = upstream.get(self.path, headers=kept)
            self.send_response(answer.status_code)
            for header in ("content-type", api_version.HEADER):
                self.send_header(header, answer.headers[header])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with served(Proxy, context) as port:
        yield f"https://localhost:{port}"


@contextmanager
def served(
    handler: type[BaseHTTPRequestHandler], context: ssl.SSLContext | None = None
) -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_certificate_of_a_known_authority_is_accepted(
    gateway: Installation, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca_file = str(certificates / "ca.pem")
    with tls_proxy(gateway, certificates, "good") as url:
        printed = run("login", url, "--token", gateway.token, "--name", "tls", "--ca-file", ca_file)
        assert f"Signed in to {url}, as owner" in printed.stdout
        assert "No tasks found" in run("tasks").stdout
        assert "with TLS" in run("doctor").stdout
        run("context", "remove", "tls")
        assert "its authority is not known" in tasks(url, gateway.token, code=7)
        monkeypatch.setenv("SSL_CERT_FILE", ca_file)
        assert "No tasks found" in tasks(url, gateway.token)
        with Client(url, gateway.token, ca_file=ca_file) as client:
            assert client.call("show_me")["name"] == "owner"


@pytest.mark.parametrize(
    ("name", "why", "remedy"),
    [
        ("expired", "it has expired", "Renew it on the gateway's machine"),
        ("self", "it is self-signed", "--ca-file FILE"),
        ("other", "it was issued for another host name", "Use a host name that"),
    ],
)
def test_a_certificate_that_is_not_accepted(
    gateway: Installation,
    certificates: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    why: str,
    remedy: str,
) -> None:
    if name != "self":
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates / "ca.pem"))
    with tls_proxy(gateway, certificates, name) as url:
        printed = tasks(url, gateway.token, code=7)
        assert f"The certificate of {url} is not accepted: {why}." in printed
        assert remedy in printed
        doctor = run("doctor", "--url", url, "--token", "t", code=1).stdout
        assert f"FAIL   gateway: The certificate of {url}" in doctor


def test_tls_where_there_is_none_and_none_where_there_is(
    gateway: Installation, certificates: Path
) -> None:
    assert "use http://" in tasks(f"https://127.0.0.1:{gateway.port}", code=7)
    with tls_proxy(gateway, certificates, "good") as url:
        assert "use https://" in tasks(url.replace("https", "http"), code=6)


# ---- addresses -------------------------------------------------------------------------------


def test_nothing_listens_there() -> None:
    printed = tasks(f"http://127.0.0.1:{free_port()}", code=6)
    assert "does not answer: nothing listens there" in printed
    assert "`detent up` or `detent serve` starts it" in printed


def test_a_host_name_that_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert "its host name is unknown" in tasks("http://unknown.invalid", code=7)


def test_a_gateway_that_stops_is_unavailable(tmp_path: Path) -> None:
    with installed(tmp_path / "short") as short:
        url, token = short.url, short.token
        assert "No tasks found" in tasks(url, token)
    assert "does not answer" in tasks(url, token, code=6)


def answering(status: int, **headers: str) -> type[BaseHTTPRequestHandler]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    return Answer


@pytest.mark.parametrize(
    ("status", "headers", "code", "says"),
    [
        (200, {}, 7, "answers, but not as a detent gateway of a compatible version"),
        (404, {}, 7, "answers, but not as a detent gateway of a compatible version"),
        (302, {"Location": "https://sso.example/"}, 7, "redirects to https://sso.example/"),
        (502, {}, 6, "the proxy in front of it returned HTTP status 502"),
    ],
)
def test_a_server_that_is_no_gateway(
    status: int, headers: dict[str, str], code: int, says: str
) -> None:
    with served(answering(status, **headers)) as port:
        assert says in tasks(f"http://127.0.0.1:{port}", code=code)


# ---- versions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("supported", "says", "remedy"),
    [
        ("0-0", "is too old for this version of detent", "Upgrade the gateway"),
        ("2-3", "This version of detent is too old for the gateway", "Upgrade detent on this"),
        ("new", "must be two numbers", "Upgrade the older of the two"),
    ],
)
def test_a_gateway_of_another_time(supported: str, says: str, remedy: str) -> None:
    with served(answering(200, Detent_Api=supported)) as port:
        url = f"http://127.0.0.1:{port}"
        printed = tasks(url, code=7)
        assert says in printed
        assert remedy in printed
        with Client(url, "t") as client, pytest.raises(DetentError, match=says):
            client.call("show_me")


@pytest.mark.parametrize(
    ("supported", "says"),
    [("0-0", "The client is too old"), ("2-3", "The gateway is too old"), ("x", "two numbers")],
)
def test_a_client_of_another_time_is_refused(
    gateway: Installation, supported: str, says: str
) -> None:
    answer = gateway.client().get("/api/me", headers={api_version.HEADER: supported})
    assert (answer.status_code, answer.json()["code"]) == (400, "incompatible_version")
    assert says in answer.json()["detail"]


@pytest.mark.parametrize("supported", ["1-1", "0-1", "1-9", None])
def test_one_common_version_is_enough(gateway: Installation, supported: str | None) -> None:
    headers = {} if supported is None else {api_version.HEADER: supported}
    answer = gateway.client().get("/api/me", headers=headers)
    assert answer.status_code == 200
    assert answer.headers[api_version.HEADER] == api_version.SUPPORTED
    if supported is not None:
        api_version.check_gateway(supported, gateway.url)


def test_an_operation_that_the_gateway_lacks(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = {**ROUTES, "list_tasks": ("GET", "/api/later", None)}
    monkeypatch.setattr(remote_gateway, "ROUTES", routes)
    printed = tasks(gateway.url, gateway.token, code=3)
    assert "it is older than detent on this machine. Upgrade the gateway." in printed


def test_an_address_with_a_wrong_path(gateway: Installation) -> None:
    printed = tasks(f"{gateway.url}/nope/", gateway.token, code=3)
    assert "There is nothing at '/nope/api/tasks'." in printed
    assert "Check the path /nope of the address" in printed


# ---- tokens, and what doctor says ------------------------------------------------------------


def test_a_token_that_is_not_valid(gateway: Installation) -> None:
    assert "[unauthorized]" in tasks(gateway.url, "wrong", code=4)
    doctor = run("doctor", "--url", gateway.url, "--token", "wrong", code=1).stdout
    assert "FAIL   token: The token is unknown, expired or revoked." in doctor
    assert f"detent login {gateway.url}" in doctor
    assert run("login", gateway.url, "--token", "wrong", code=4)
    assert json.loads(run("context", "list", "--json").stdout)["items"][1:] == []


def test_doctor_names_what_is_used(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    run("login", gateway.url, "--token", gateway.token, "--name", "here")
    lines = run("doctor").stdout
    assert f"ok     target: {gateway.url}, context here, from the current context here" in lines
    version = gateway.client().get("/api/me").json()["version"]
    assert f"gateway: detent {version} answers" in lines
    assert "token: owner, scopes admin, operate, read, review, run, submit, all projects" in lines
    monkeypatch.setenv("DETENT_TOKEN", "unused")
    assert "DETENT_TOKEN is set, but not used" in run("doctor").stdout
    monkeypatch.delenv("DETENT_TOKEN")
    monkeypatch.setenv("DETENT_GATEWAY_PORT", str(free_port()))
    local = run("doctor", "--local").stdout
    assert "ok     target: this machine" in local
    assert not (home / "data").exists()
