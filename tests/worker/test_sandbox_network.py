"""The closed network of the sandbox, tried from inside real runs. All traffic is on loopback."""

import dataclasses
import http.server
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent import server_file
from detent.app.app import App
from detent.app.failures import JobFailed
from detent.operations.context import Core
from detent.worker.network_proxy import target_of
from tests.agents.scene import Scene, scene
from tests.worker.waiting import DEADLINE_S, installation, working


class Answering(http.server.BaseHTTPRequestHandler):
    """Answers every request with the server's name; `/to/PORT` redirects to that port."""

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", f"http://127.0.0.1:{self.path[4:]}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = f"{self.server.server_port} {self.path}".encode()  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def serving() -> Iterator[int]:
    """An HTTP server on the machine's loopback; its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.fixture
def core(tmp_path: Path) -> Iterator[Core]:
    with installation(tmp_path, worker_grace_ms=300, worker_sandbox="bwrap") as made:
        yield made


@pytest.fixture
def s(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path) as made:
        yield made


#: Named, and by the name server of these tests on the loopback of the machine.
NAMES = ("named.example", "inner.example")


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name server that answers every name with the loopback address."""
    real = socket.getaddrinfo

    def resolved(host: Any, *arguments: Any, **options: Any) -> Any:
        return real("127.0.0.1" if host in NAMES else host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolved)


TRY = """
import http.client, http.server, json, os, socket, sys, threading, urllib.error, urllib.request
named, other = int(sys.argv[1]), int(sys.argv[2])
proxy = os.environ["HTTP_PROXY"].removeprefix("http://")
found = {}

def tried(name, act):
    try:
        found[name] = act()
    except urllib.error.HTTPError as error:
        found[name] = f"{error.code} {error.read().decode()}"
    except OSError as error:
        found[name] = type(getattr(error, "reason", error)).__name__

def direct(host, port, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as made:
        made.connect((host, port))
        made.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        return made.makefile().read().splitlines()[-1]

def by_proxy(url):
    opener = urllib.request.OpenerDirector()
    for each in (urllib.request.HTTPHandler, urllib.request.HTTPRedirectHandler,
                 urllib.request.HTTPErrorProcessor, urllib.request.HTTPDefaultErrorHandler):
        opener.add_handler(each())
    request = urllib.request.Request(url)
    opener.add_handler(Proxied({"http": f"http://{proxy}"}))
    return opener.open(request, timeout=90).read().decode()

class Proxied(urllib.request.ProxyHandler):
    def proxy_open(self, req, proxy, type):  # for every host, whatever NO_PROXY says
        req.set_proxy(proxy.removeprefix("http://"), type)

def tunnel(host, port):
    made = http.client.HTTPConnection(proxy, timeout=90)
    made.set_tunnel(host, port)
    made.request("GET", "/tunnel")
    return made.getresponse().read().decode()

tried("a named port, directly", lambda: direct("127.0.0.1", named))
tried("another port, directly", lambda: direct("127.0.0.1", other))
tried("a public address, directly", lambda: direct("192.0.2.1", 80))
tried("a datagram", lambda: direct("192.0.2.1", 53, socket.SOCK_DGRAM))
tried("a named host", lambda: by_proxy(f"http://named.example:{named}/plain?q=1"))
tried("a tunnel", lambda: tunnel("named.example", named))
tried("a tunnel to another host", lambda: tunnel("other.example", 443))
tried("a name that points here", lambda: by_proxy(f"http://inner.example:{other}/"))
tried("a redirect", lambda: by_proxy(f"http://named.example:{named}/to/{other}"))
forms = (f"127.0.0.1:{other}", f"localhost:{other}", f"2130706433:{other}", f"127.1:{other}",
         f"[::1]:{other}", f"[::ffff:127.0.0.1]:{other}", f"0x7f000001:{other}",
         "169.254.169.254", "other.example")
for form in forms:
    tried(form, lambda: by_proxy(f"http://{form}/"))
with http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
    threading.Thread(target=server.serve_forever, daemon=True).start()
    tried("its own server", lambda: urllib.request.urlopen(
        f"http://127.0.0.1:{server.server_port}/", timeout=90).status)
    server.shutdown()
with socket.create_connection(tuple(proxy.split(":"))) as made:
    made.sendall(b"GET / HTTP/1.1\\r\\n\\r\\n")
    found["no proxy request"] = made.recv(100).decode().splitlines()[0]
with open(os.environ["DETENT_RESULT_FILE"], "w") as file:
    json.dump({"found": found, "forms": forms}, file)
"""


@pytest.mark.usefixtures("names")
def test_a_program_reaches_the_named_hosts_and_nothing_else(core: Core) -> None:
    app = App()
    with serving() as named, serving() as other:
        hosts = [f"named.example:{named}", f"127.0.0.1:{named}", f"inner.example:{other}"]
        program = [sys.executable, "-c", TRY, str(named), str(other)]
        app.command("try", program, hosts=hosts)
        with working(core, app):
            handle = app.submit("try")
            result = handle.result(timeout=DEADLINE_S)
    found, refused = result["found"], result["forms"]
    assert found["a named port, directly"] == f"{named} /"
    assert found["another port, directly"] == "ConnectionRefusedError"
    assert found["a public address, directly"] == "OSError", "the network is unreachable"
    assert found["a datagram"] == "OSError", "the network is unreachable"
    assert found["a named host"] == f"{named} /plain?q=1"
    assert found["a tunnel"] == f"{named} /tunnel"
    assert found["a tunnel to another host"] == "OSError"
    assert found["its own server"] == 200
    assert found["no proxy request"] == "HTTP/1.1 400 Bad Request"
    assert "its address 127.0.0.1 is not public" in found["a name that points here"]
    assert found["a redirect"].startswith(f"403 network: 127.0.0.1:{other} was refused")
    for form in refused:
        assert found[form].startswith("403 network: "), (form, found[form])
    output = (core.settings.data_dir / "runs" / f"{handle.job_id}-r1" / "output.log").read_text()
    assert (
        "[network: other.example:443 was refused: no entry of the allowed hosts names it. To allow "
        "it, add it to hosts of intent try, or to worker.sandbox_hosts.]\n"
    ) in output
    assert output.count(f"network: 127.0.0.1:{other} was refused") == 1, "once for each host"


def test_a_request_has_the_host_that_was_checked() -> None:
    """A server may have other hosts at the same address."""
    first = b"GET http://name:word@named.example:81/a?b=1 HTTP/1.1\r\n"
    target = target_of(first + b"Host: other.example\r\nhOST : third.example\r\nX: y\r\n\r\n")
    assert (target.host, target.port) == ("named.example", 81)
    sent = b"GET /a?b=1 HTTP/1.1\r\nHost: named.example:81\r\nX: y\r\nConnection: close\r\n\r\n"
    assert target.head == sent
    for hidden in (b"X: y\nHost: other.example", b"X: y\rHost: other.example", b" folded"):
        with pytest.raises(ValueError, match="in different ways"):
            target_of(first + hidden + b"\r\n\r\n")


REFUSED = "import os, urllib.request; urllib.request.urlopen('http://other.example/')"


def test_a_failed_run_says_which_host_was_refused(core: Core) -> None:
    app = App()
    app.command("fetch", [sys.executable, "-c", REFUSED], retry={"retries": 0})
    with working(core, app):
        handle = app.submit("fetch")
        with pytest.raises(JobFailed, match=r"other\.example:80 was refused"):
            handle.result(timeout=DEADLINE_S)


AGENT = """
import json, os, urllib.request
opened = {}
for name in ("DETENT_URL", "ANTHROPIC_BASE_URL"):
    with urllib.request.urlopen(os.environ[name] + "/from/agent", timeout=90) as response:
        opened[name] = response.read().decode()
print(json.dumps(opened))
"""


def test_an_agent_reaches_the_gateway_and_its_provider(s: Scene) -> None:
    """Both are on the machine's loopback here, and no host is configured."""
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    with serving() as gateway, serving() as provider:
        server_file.announce(s.core.settings.data_dir, {"url": f"http://127.0.0.1:{gateway}"})
        variables = {"ANTHROPIC_BASE_URL": f"http://localhost:{provider}"}
        s.script(
            argv=[sys.executable, "-c", AGENT, "{prompt}"], success="exit", variables=variables
        )
        s.submit()
        with s.working():
            s.rests("ready")
        server_file.withdraw(s.core.settings.data_dir)
    opened = json.loads(s.result()["text"])
    assert opened == {
        "DETENT_URL": f"{gateway} /from/agent",
        "ANTHROPIC_BASE_URL": f"{provider} /from/agent",
    }


NO_NAMESPACES = (
    "echo 0 > /proc/sys/user/max_user_namespaces && "
    'exec setpriv --bounding-set=-all --inh-caps=-all "$@"'
)


START = """
import pathlib, sys
from detent.app.app import App
from detent.errors import Misconfigured
from tests.worker.waiting import installation, working
with installation(pathlib.Path(sys.argv[1]), worker_sandbox="bwrap") as core:
    try:
        with working(core, App()):
            print("started")
    except Misconfigured as error:
        print(error.message, error.hint)
"""


def test_a_worker_without_user_namespaces_does_not_start(tmp_path: Path) -> None:
    """The limit is set in a user namespace of the test's own, and no privilege is left."""
    argv = [sys.executable, "-c", START, str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh", *argv],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert "no sandbox can be made here" in done.stdout, done.stderr
    assert "user.max_user_namespaces must not be 0" in done.stdout
