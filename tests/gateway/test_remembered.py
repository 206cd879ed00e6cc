"""What the gateway keeps between submissions: contexts and principals, for a second."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from detent import App
from detent.gateway import auth, operation_dispatcher
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope
from detent.worker.worker import Worker
from tests.gateway.installation import DEADLINE_S, Installation, installed

HOUR_S = 3_600.0


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """A gateway that keeps what it has read."""
    for module in (auth, operation_dispatcher):
        monkeypatch.setattr(module, "FRESH_S", HOUR_S)
    with installed(tmp_path) as made:
        yield made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the callers whose contexts were read."""
    found: list[str] = []
    made = Core.submission_context

    def noted(self: Core, caller: Caller) -> Any:
        found.append(caller.name)
        return made(self, caller)

    monkeypatch.setattr(Core, "submission_context", noted)
    return found


def register(gateway: Installation, **rows: Any) -> None:
    """Change intents as a worker of another process does."""
    gateway.core.engine.transaction(lambda tx: tx.put_rows("intents", rows))


def submit(client: httpx2.Client, **fields: Any) -> Any:
    return client.post("/api/tasks", json={"intent": "dig", "run": True, **fields})


def options(client: httpx2.Client, answer: Any) -> Any:
    assert answer.status_code == 201, answer.text
    return client.get(f"/api/tasks/{answer.json()['id']}").json()["options"]


def test_a_context_is_read_once_for_many_submissions(
    gateway: Installation, reads: list[str]
) -> None:
    client = gateway.client()
    for _ in range(3):
        assert submit(client, intent="runQA").status_code == 201
    assert reads == ["owner"]


def test_a_submission_is_not_refused_by_what_was_read_before(
    gateway: Installation, reads: list[str]
) -> None:
    client = gateway.client()
    assert submit(client).json()["code"] == "unknown_intent"
    register(gateway, dig={})
    assert submit(client).status_code == 201
    assert len(reads) == 2
    assert submit(client, intent="unknown").json()["code"] == "unknown_intent"
    assert len(reads) == 3


def test_changed_options_apply_after_a_second(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(gateway, dig={"max_rounds": 2})
    client = gateway.client()
    assert options(client, submit(client)) == {"max_rounds": 2}
    register(gateway, dig={"max_rounds": 5})
    assert options(client, submit(client)) == {"max_rounds": 2}
    monkeypatch.setattr(operation_dispatcher, "FRESH_S", 0.0)
    assert options(client, submit(client)) == {"max_rounds": 5}


def test_a_worker_of_the_same_process_is_seen_immediately(gateway: Installation) -> None:
    register(gateway, dig={"max_rounds": 2})
    client = gateway.client()
    assert options(client, submit(client, run=False)) == {"max_rounds": 2}
    app = App()

    @app.intent("dig", max_rounds=7)
    def dig() -> None: ...

    with Worker(gateway.core, app):
        assert options(client, submit(client, run=False)) == {"max_rounds": 7}


def test_tokens_do_not_share_what_was_checked(gateway: Installation) -> None:
    mine, theirs = (
        gateway.client(),
        gateway.client(gateway.token_for(Scope.SUBMIT, Scope.READ, project="yard")),
    )
    for client, project in ((mine, "default"), (theirs, "yard")) * 2:
        made = submit(client, intent="runQA").json()["id"]
        assert client.get(f"/api/tasks/{made}").json()["project"] == project
    refused = submit(theirs, intent="runQA", project="barn")
    assert (refused.status_code, refused.json()["field"]) == (422, "project")


def test_a_principal_is_forgotten_when_a_token_is_revoked(gateway: Installation) -> None:
    client = gateway.client(gateway.token_for(Scope.READ))
    assert client.get("/api/me").status_code == 200
    name = client.get("/api/me").json()["name"]
    assert gateway.client().delete(f"/api/tokens/{name}").status_code == 200
    assert client.get("/api/me").status_code == 401


def test_a_token_in_a_cookie_is_refused_although_it_is_known(gateway: Installation) -> None:
    client = gateway.client()
    assert client.get("/api/me").status_code == 200
    with httpx2.Client(base_url=gateway.url, cookies={auth.COOKIE: gateway.token}) as browser:
        assert browser.get("/api/me").status_code == 401


@pytest.mark.parametrize(("read_first", "count"), [(False, 1), (True, 2)])
def test_requests_that_wait_for_the_tokens_share_a_read(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch, read_first: bool, count: int
) -> None:
    """Those that arrive before the read share it; a token that is new since then is found too."""
    tokens = auth.Tokens(gateway.core.store)
    known = auth.Credentials(gateway.token, cookie=False)
    begun, may_end = threading.Event(), threading.Event()
    reads: list[float] = []
    read = auth.Tokens.read

    def slow(self: auth.Tokens) -> None:
        reads.append(time.monotonic())
        if read_first:
            read(self)
        begun.set()
        assert may_end.wait(DEADLINE_S)
        if not read_first or len(reads) > 1:
            read(self)

    async def find() -> list[auth.Principal]:
        first = asyncio.create_task(tokens.find(known))
        await asyncio.to_thread(begun.wait, DEADLINE_S)
        made = await asyncio.to_thread(gateway.token_for, Scope.READ)
        later = [auth.Credentials(made, cookie=False), *[known] * 50]
        others = [asyncio.create_task(tokens.find(each)) for each in later]
        await asyncio.sleep(0)  # each of them has begun
        may_end.set()
        await others[0]
        for _ in range(5):  # and not one after the other, each in a turn of the event loop
            await asyncio.sleep(0)
        assert all(each.done() for each in others)
        return await asyncio.gather(first, *others)

    monkeypatch.setattr(auth.Tokens, "read", slow)
    found = asyncio.run(find())
    assert [each.caller.name for each in found] == ["owner", "tester-1", *["owner"] * 50]
    assert len(reads) == count
