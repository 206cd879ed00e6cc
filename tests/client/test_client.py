"""The Python client against a real gateway: the words of the embedded API, over HTTP."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from detent import AsyncClient, Client, JobFailed, errors
from detent.client.shared import Address
from detent.engine.claims import ClaimRequest
from detent.http_routes import ROUTES
from detent.kernel import commands as c
from detent.operations import OPERATIONS
from detent.operations.registry import Scope
from tests.gateway.installation import DEADLINE_S, WORKER, Installation, installed
from tests.ports import free_port


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("client")) as installation:
        yield installation


@pytest.fixture
def client(gateway: Installation) -> Iterator[Client]:
    with Client(gateway.url, gateway.token) as made:
        yield made


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def work(gateway: Installation, job_id: str, result: Any = None, error: str | None = None) -> None:
    """Carry a job out by hand."""
    for each in gateway.core.engine.claim(ClaimRequest("by-hand", "nonce", 100)):
        if each.job.id == job_id:
            run_id = str(each.job.run_id)
            if error is None:
                report: c.Command = c.CompleteRun(each.grant, run_id, result, 0)
            else:
                report = c.FailRun(each.grant, run_id, "user_cancel", error, 1)
            gateway.core.engine.do(report, WORKER)
            return
    raise AssertionError(f"{job_id} could not be claimed")


# ---- the table -------------------------------------------------------------------------------


def test_the_table_of_routes_is_current() -> None:
    listed = {each.name: (each.method, each.path, each.whole) for each in OPERATIONS.values()}
    assert dict(ROUTES) == listed, "run ./dev generate"


def test_importing_the_client_imports_no_kernel_and_no_store() -> None:
    program = "import sys, detent.client; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout
    loaded = out.decode().split()
    heavy = ("detent.kernel", "detent.store", "detent.engine", "detent.operations", "pydantic")
    assert not [name for name in loaded if name.startswith((*heavy, "apsw", "fastapi"))]


def test_the_address_comes_from_the_environment(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DETENT_URL", gateway.url + "/")
    monkeypatch.setenv("DETENT_TOKEN", gateway.token)
    with Client() as client:
        assert client.call("status")["queueLength"] >= 0
    monkeypatch.delenv("DETENT_TOKEN")
    with pytest.raises(errors.Misconfigured, match="token"):
        Client()


def test_the_token_of_the_environment_is_sent_only_to_its_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DETENT_TOKEN", "secret")
    sent = {"Authorization": "Bearer secret"}.items()
    for theirs, given in (
        (None, None),
        (None, "https://b.example"),
        ("https://a.example", None),
        ("https://a.example", "https://a.example/"),
    ):
        _set_url(monkeypatch, theirs)
        assert sent <= Address(given, None, 0).options["headers"].items()
    _set_url(monkeypatch, "https://a.example")
    for kind in (Client, AsyncClient):
        with pytest.raises(errors.Misconfigured, match=r"no token for https://b\.example"):
            kind("https://b.example")
    with Client("https://b.example", "own") as client:
        assert client._http.headers["Authorization"] == "Bearer own"


def _set_url(monkeypatch: pytest.MonkeyPatch, url: str | None) -> None:
    if url is None:
        monkeypatch.delenv("DETENT_URL", raising=False)
    else:
        monkeypatch.setenv("DETENT_URL", url)


# ---- submitting and waiting ------------------------------------------------------------------


def test_a_job_from_submission_to_result(gateway: Installation, client: Client) -> None:
    handle = client.submit("runQA", {"n": 1}, priority="P0")
    assert handle.state() == "queued"
    threading.Thread(target=work, args=(gateway, handle.id, {"sum": 3})).start()
    assert handle.result(timeout=DEADLINE_S) == {"sum": 3}
    assert client.job(handle.id).show()["payload"] == {"n": 1}


def test_a_task_from_submission_to_acceptance(gateway: Installation, client: Client) -> None:
    handle = client.submit("runQA", lifecycle="review", title="Look", key="task-1")
    assert client.submit("runQA", lifecycle="review", title="Look", key="task-1").id == handle.id
    gateway.ask(handle.id, "Go on?", ["yes", "no"])
    assert handle.show()["blocked_by"] == "question"
    handle.answer("yes")
    gateway.complete(handle.id, "done")
    assert handle.result(timeout=DEADLINE_S) == "done"
    assert handle.call("accept", comment="good")["state"] == "completed"


def test_a_question_of_a_job_alone_is_answered(gateway: Installation, client: Client) -> None:
    handle = client.submit("runQA")
    (held,) = (
        each
        for each in gateway.core.engine.claim(ClaimRequest("by-hand", "nonce", 100))
        if each.job.id == handle.id
    )
    detail = {"text": "Go on?", "options": ["yes", "no"]}
    run_id = str(held.job.run_id)
    gateway.report(c.SuspendRun(held.grant, run_id, "ask", "question", detail=detail))
    assert "answer" in client.call("job_why", job_id=handle.id)["actions"]
    with pytest.raises(errors.Refused, match="yes, no"):
        handle.answer("perhaps")
    assert handle.answer("yes")["state"] == "queued"
    assert handle.call("answer", answer="yes", question="ask")["outcome"] == "repeated"
    with pytest.raises(errors.Refused, match="answered before, with 'yes'"):
        handle.call("answer", answer="no", question="ask")
    assert "answer" not in client.call("job_why", job_id=handle.id)["actions"]
    handle.cancel()


def test_work_that_did_not_end_well(gateway: Installation, client: Client) -> None:
    handle = client.submit("runQA")
    handle.cancel("not wanted")
    with pytest.raises(JobFailed, match="not wanted") as raised:
        handle.result(timeout=DEADLINE_S)
    assert (raised.value.job_id, raised.value.state) == (handle.id, "cancelled")


def test_waiting_ends_in_time(client: Client) -> None:
    handle = client.submit("runQA")
    with pytest.raises(TimeoutError, match=handle.id):
        handle.wait(timeout=0.05)
    handle.cancel()


# ---- errors ----------------------------------------------------------------------------------


def test_errors_are_detents_own_with_their_fields(gateway: Installation, client: Client) -> None:
    with pytest.raises(errors.Invalid) as invalid:
        client.submit("fly")
    assert (invalid.value.code, invalid.value.field) == ("unknown_intent", "intent")
    assert (invalid.value.given, invalid.value.allowed) == ("fly", ("review", "runQA"))
    assert invalid.value.details["request_id"]
    task = client.task(client.call("submit_task", intent="runQA")["id"])
    with pytest.raises(errors.Refused) as refused:
        task.call("accept")
    assert refused.value.code == "illegal_transition"
    assert "task_queued" in refused.value.legal
    with pytest.raises(errors.NotFound, match="no task"):
        client.task("none").show()
    with pytest.raises(errors.NotFound, match="operation") as unknown:
        client.call("fly_away")
    assert "show_task" in unknown.value.known
    with pytest.raises(errors.Invalid, match="task_id is missing"):
        client.call("show_task")
    stranger = Client(gateway.url, "detent_wrong")
    with pytest.raises(errors.Unauthorized):
        stranger.call("status")
    reader = Client(gateway.url, gateway.token_for(Scope.READ))
    with pytest.raises(errors.Forbidden) as forbidden:
        reader.submit("runQA")
    assert forbidden.value.details["scope"] == "submit"
    with pytest.raises(errors.TooLarge) as large:
        client.submit("runQA", "x" * 2_000_000)
    assert large.value.limit == 1_048_576
    for each in (stranger, reader):
        each.close()


# ---- the feed --------------------------------------------------------------------------------


def test_the_feed_from_a_cursor(gateway: Installation, client: Client) -> None:
    before = gateway.head()
    made = [client.call("submit_task", intent="runQA")["id"] for _ in range(3)]
    found = list(islice(client.follow(before), 3))
    assert [message["stream"] for message in found] == made
    positions = [message["position"] for message in found]
    assert positions == gateway.log(before)
    assert list(client.follow(before, follow=False)) == found
    assert list(client.follow(before, follow=False, task=made[1])) == [found[1]]
    with pytest.raises(errors.Invalid) as raised:
        next(client.follow(10**9))
    assert raised.value.field == "cursor"


def test_the_feed_goes_on_over_a_restart_of_the_gateway(tmp_path: Path) -> None:
    port = free_port()
    with installed(tmp_path, port=port) as first:
        token = first.token
        client = Client(first.url, token)
        feed = client.follow(0)
        client.call("submit_task", intent="runQA")
        found = [next(feed)]
    with installed(tmp_path, port=port) as second:
        with Client(second.url, token) as again:
            again.call("submit_task", intent="runQA")
        found.append(next(feed))
        assert [message["position"] for message in found] == second.log()
    client.close()


# ---- coroutines ------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_same_for_coroutines(gateway: Installation) -> None:
    before = gateway.head()
    async with AsyncClient(gateway.url, gateway.token) as client:
        handle = await client.submit("runQA", {"n": 2})
        assert await handle.state() == "queued"
        threading.Thread(target=work, args=(gateway, handle.id, [1, 2])).start()
        assert await handle.result(timeout=DEADLINE_S) == [1, 2]
        task = await client.submit("runQA", lifecycle="review")
        assert (await task.cancel("enough"))["state"] == "cancelled"
        with pytest.raises(JobFailed, match="enough"):
            await task.result(timeout=DEADLINE_S)
        with pytest.raises(errors.NotFound):
            await client.task("none").show()
        with pytest.raises(errors.Refused):
            await task.signal("go")
        positions = [
            m["position"] async for m in client.follow(before, follow=False) if m["type"] == "event"
        ]
        assert positions == gateway.log(before)
        with pytest.raises(TimeoutError):
            await (await client.submit("runQA")).wait(timeout=0.05)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_an_address_that_is_no_url_is_refused(kind: type[Client] | type[AsyncClient]) -> None:
    with pytest.raises(errors.Misconfigured, match="must begin with http:// or https://"):
        kind("nonsense", "token")
