"""The socket of the forges of tests: their interface over HTTP on loopback, with git beside it."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from verification.github import git_backend
from verification.github.github_state import RepoState

#: An empty request of git, by which it finds out whether its credentials are accepted.
PROBE = b"0000"


class Reply(NamedTuple):
    status: int
    document: Any = None
    headers: Mapping[str, str] = {}
    text: bytes | None = None


@dataclass
class ForgeServer:
    """One forge of tests; `tokens` maps each valid token to the name of its account."""

    root: Path
    tokens: dict[str, str] = field(default_factory=dict)
    #: What was asked, as `METHOD /path`, and what is answered next instead of the truth.
    asked: list[str] = field(default_factory=list)
    answers: deque[Reply] = field(default_factory=deque)
    #: Called before and after each request; a test ends the connection by ConnectionAbortedError.
    hook: Callable[[str, str], None] = lambda _when, _what: None
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """The response to a request of the interface."""
        raise NotImplementedError

    def new_repo(self, full_name: str) -> RepoState:
        """A repository without commits."""
        repo = RepoState(full_name, self.root / f"{full_name}.git")
        repo.directory.mkdir(parents=True)
        repo.git("init", "--quiet", "--bare", "--initial-branch", "main")
        repo.git("config", "http.receivepack", "true")
        return repo

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve on a loopback port; its address."""
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            yield self.url
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _handler(forge: ForgeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            body = self._body(headers)
            what = f"{self.command} {urlsplit(self.path).path}"
            if body == PROBE:
                what = f"GET {self.path}"  # git only tries whether it may push
            try:
                forge.hook("before", what)
                done = self._handle(headers, body)
                forge.hook("after", what)
            except ConnectionAbortedError:
                self.close_connection = True  # as if the connection had been cut
                return
            self._respond(*done)

        def _handle(
            self, headers: Mapping[str, str], body: bytes
        ) -> tuple[int, Mapping[str, str], bytes]:
            if self.path.startswith("/git/"):
                return _git(forge, self.command, self.path, headers, body)
            reply = forge.handle(self.command, self.path, headers, body)
            if reply.text is not None:
                return reply.status, {"content-type": "text/plain", **reply.headers}, reply.text
            fields = {"content-type": "application/json; charset=utf-8", **reply.headers}
            return reply.status, fields, json.dumps(reply.document).encode()

        def _body(self, headers: Mapping[str, str]) -> bytes:
            if headers.get("transfer-encoding") != "chunked":
                return self.rfile.read(int(headers.get("content-length", "0")))
            pieces = []
            while size := int(self.rfile.readline(), 16):
                pieces.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(pieces)

        def _respond(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PUT = do_PATCH = _serve  # noqa: N815  # names of the library

        def log_message(self, *_: object) -> None:
            """Nothing: tests read `asked`."""

    return Handler


def _git(
    forge: ForgeServer, method: str, target: str, headers: Mapping[str, str], body: bytes
) -> git_backend.CgiReply:
    if git_backend.token_of(headers) not in forge.tokens:
        return git_backend.CgiReply(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
    split = urlsplit(target)
    path = split.path.removeprefix("/git")
    return git_backend.serve(forge.root, method, path, split.query, headers, body)
