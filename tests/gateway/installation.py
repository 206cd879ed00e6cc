"""A whole installation for tests: a real gateway over SQLite, and a worker played by hand."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from detent import feed
from detent.engine import Claimed, Engine
from detent.engine.claims import ClaimRequest
from detent.gateway.auth import ensure_token
from detent.gateway.mcp_route import LoadMcpServer
from detent.gateway.server import Server
from detent.integrations.a2a.a2a_server import A2aServer
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope
from detent.operations.tokens import digest_of, issue
from detent.settings import Settings
from detent.store.port import WriteTransaction
from detent.store.store_url import open_store

INTENTS: Mapping[str, Mapping[str, Any]] = {"runQA": {"command": ["true"]}, "review": {}}
WORKER = c.Actor("worker:by-hand")
#: How long anything may take on a machine that is busy with other things.
DEADLINE_S = 60.0


class Session(NamedTuple):
    """A browser with a session: the session's id, and the secret that its cookie holds."""

    browser: httpx2.Client
    id: str
    secret: str


@dataclass
class Installation:
    """A running gateway and everything that a test needs of it."""

    core: Core
    server: Server
    port: int
    token: str
    clients: list[httpx2.Client] = field(default_factory=list)
    names: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def hub(self) -> Any:
        hub = self.server.gateway.hub
        assert hub is not None
        return hub

    def client(self, token: str | None = "", **headers: str) -> httpx2.Client:
        """A client with the owner's token, with another one, or with none."""
        bearer = self.token if token == "" else token
        if bearer is not None:
            headers["Authorization"] = f"Bearer {bearer}"
        made = httpx2.Client(base_url=self.url, headers=headers, timeout=DEADLINE_S)
        self.clients.append(made)
        return made

    def token_for(
        self,
        *scopes: Scope,
        project: str | None = None,
        lifetime_s: int | None = None,
        root_id: str | None = None,
    ) -> str:
        """A token with these scopes, written into the store itself."""
        self.names += 1
        caller = Caller(f"tester-{self.names}", frozenset(scopes), project, root_id)
        return self.core.engine.transaction(lambda tx: issue(tx, caller, lifetime_s=lifetime_s))

    def session_of(self, token: str) -> Session:
        """A browser that was signed in with a code of this token."""
        code = self.client(token).post("/api/login/codes").json()["code"]
        browser = self.client(None)
        origin = {"Origin": self.url}
        answer = browser.post("/api/login", json={"code": code}, headers=origin)
        assert answer.status_code == 200, answer.text
        secret = str(browser.cookies["detent"])
        with self.core.store.read() as view:
            row = view.rows("tokens")[digest_of(secret)]
        return Session(browser, row["id"], secret)

    def expire(self, token: str) -> None:
        """Let the time of a token be over, in the store and in what the gateway has read."""
        key = digest_of(token)

        def write(tx: WriteTransaction) -> None:
            row = tx.rows("tokens")[key]
            tx.put_rows("tokens", {key: {**row, "expires_at": row["created_at"]}})

        self.core.engine.transaction(write)
        self.server.gateway.tokens.forget()

    def head(self) -> int:
        return feed.head(self.core.store)

    def log(self, after: int = 0) -> list[int]:
        """The positions of the log after one."""
        found: list[int] = []
        while batch := feed.read(self.core.store, found[-1] if found else after):
            found.extend(each.position for each in batch)
        return found

    # -- the worker ------------------------------------------------------------------------

    def claim(self, task_id: str) -> Claimed:
        """Take jobs until the one of this task is among them."""
        for _ in range(100):
            claimed = self.core.engine.claim(ClaimRequest("by-hand", "nonce", 10))
            for each in claimed:
                if each.task is not None and each.task.id == task_id:
                    return each
            assert claimed, "there is nothing to claim"
        raise AssertionError("it never came")

    def report(self, command: c.Command) -> Any:
        return self.core.engine.do(command, WORKER)

    def complete(self, task_id: str, result: Any = None) -> None:
        """Run the task's job to a good end."""
        claimed = self.claim(task_id)
        assert claimed.job.run_id is not None
        self.report(c.CompleteRun(claimed.grant, claimed.job.run_id, result, 0))

    def fail(self, task_id: str) -> None:
        claimed = self.claim(task_id)
        assert claimed.job.run_id is not None
        self.report(c.FailRun(claimed.grant, claimed.job.run_id, "error", "it broke", 1))

    def ask(self, task_id: str, text: str, options: list[str] | None = None) -> None:
        """Let the task's run end with a question."""
        claimed = self.claim(task_id)
        assert claimed.job.run_id is not None
        detail = {"text": text, "options": options}
        self.report(
            c.SuspendRun(claimed.grant, claimed.job.run_id, "ask", "question", detail=detail)
        )


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition, looking often; one that does not come is a failure."""
    end = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.005)


@contextmanager
def installed(
    directory: Path, tools: LoadMcpServer | None = None, *, port: int = 0, **settings: Any
) -> Iterator[Installation]:
    """A gateway in a directory, on a port of its own."""
    chosen = Settings(store_data_dir=str(directory), gateway_port=port, **settings)
    store = open_store(chosen.url)
    core = Core(store, Engine(store), chosen, INTENTS)
    token = ensure_token(core).read_text("ascii").strip()
    server = Server(core, load_mcp=tools, a2a=A2aServer(chosen))
    installation = Installation(core, server, server.start(), token)
    try:
        yield installation
    finally:
        for client in installation.clients:
            client.close()
        server.stop()
        store.close()
