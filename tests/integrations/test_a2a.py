"""The Agent2Agent protocol with the client of its official SDK."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict

from detent.gateway.server import Server
from detent.integrations.a2a.a2a_notifications import is_over
from detent.integrations.a2a.a2a_server import A2aServer
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.operations.registry import Scope
from detent.operations.webhooks import Webhook, webhooks
from detent.store.types import Query
from tests.docs.pages import ROOT, blocks, imported
from tests.e2e.installation import Installation as Processes
from tests.gateway.installation import Installation
from tests.integrations.a2a_client import (
    ALL,
    connected,
    ended,
    events,
    message,
    result,
    sent,
    shown,
    state,
)
from tests.integrations.receiver import receiving
from tests.integrations.task_tools import working

pytestmark = pytest.mark.anyio
PAGE = ROOT / "docs" / "howto" / "a2a.md"
CONFIGURATION = """
[store]
data_dir = "{}"

[intents.say]
command = ["true"]
tool = "optional"
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    place = tmp_path_factory.mktemp("a2a")
    with working(place, webhooks_allow=("127.0.0.0/8",)) as installation:
        yield installation


# ---- the card --------------------------------------------------------------------------------


async def test_the_card_has_a_skill_for_each_offered_intent(gateway: Installation) -> None:
    card = gateway.client().get("/.well-known/agent-card.json").json()
    skills = {each["id"]: each for each in card["skills"]}
    assert skills["greet"]["description"].startswith("Greet a person.")
    assert "ask_one" not in skills
    assert card["supportedInterfaces"][0]["url"] == f"{gateway.url}/a2a"
    stranger = gateway.client(None).get("/.well-known/agent-card.json")
    assert stranger.status_code == 401


# ---- messages --------------------------------------------------------------------------------


async def test_a_message_is_answered_with_the_task_that_has_ended(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        task = await sent(client, "greet", {"name": "Ada"})
        assert (state(task), result(task)) == ("completed", "Hello, Ada!")
        by_text = await sent(client, "greet", "Eve")
        assert result(by_text) == "Hello, Eve!"


async def test_the_same_message_id_creates_one_task(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        again = message("greet", {"name": "Ada"})
        first, second = [(await events(client, again))[0]["task"]["id"] for _ in range(2)]
        assert first == second
        other = message("greet", {"name": "Bob"}, messageId=again.message.message_id)
        with pytest.raises(errors.InvalidParamsError):
            await events(client, other)
    async with connected(gateway.url, gateway.token_for(*ALL)) as stranger:
        assert (await events(stranger, again))[0]["task"]["id"] != first


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
def test_a_task_has_the_trace_context_of_its_message(gateway: Installation, method: str) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    headers = {"A2A-Version": "1.0", "traceparent": trace}
    request = MessageToDict(message("greet", "Ada"))
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": request}
    text = gateway.client().post("/a2a", json=body, headers=headers).text
    first = json.loads(text.removeprefix("data: ").partition("\n\n")[0])
    with gateway.core.store.read() as view:
        [(task, _)] = view.tasks([first["result"]["task"]["id"]])
    assert task.options["traceparent"] == trace


async def test_a_question_is_answered_by_the_next_message(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        task = await sent(client, "confirm_delete", {"filename": "a.txt"}, contextId="trip-1")
        assert (state(task), task["contextId"]) == ("input_required", "trip-1")
        asked = task["status"]["message"]
        assert asked["parts"] == [{"text": "Delete a.txt?"}]
        assert asked["metadata"]["options"] == [True, False]
        task = await sent(client, None, "yes", taskId=task["id"])
        task = await ended(client, task["id"])
        assert result(task) == "a.txt deleted"
        with pytest.raises(errors.UnsupportedOperationError):
            await sent(client, None, "no", taskId=task["id"])


async def test_a_repeated_message_answers_only_one_question(gateway: Installation) -> None:
    """It need not name the question: its id is enough."""
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        task = await sent(client, "multi_input", {})
        first_asked = task["status"]["message"]["metadata"]["question"]
        yes = message(None, "yes", taskId=task["id"])
        asked = []
        for _ in range(3):
            [only] = await events(client, yes)
            asked.append(only["task"]["status"]["message"]["metadata"]["question"])
        assert asked == [asked[0]] * 3
        assert asked[0] != first_asked
        no = message(None, "no", taskId=task["id"])
        await events(client, no)
        await ended(client, task["id"])
        for again in (yes, no):
            [only] = await events(client, again)
            assert state(only["task"]) == "completed"
        with pytest.raises(errors.UnsupportedOperationError):
            await sent(client, None, "no", taskId=task["id"])
    with gateway.core.store.read() as view:
        (job,) = view.page(Query("jobs", {"task_id": task["id"]}))
    assert sorted(job["result"].values()) == [False, True]


async def test_evidence_is_an_artifact(gateway: Installation) -> None:
    token = gateway.token_for(*ALL)
    async with connected(gateway.url, token) as client:
        task = await sent(client, "measure", {})
    [found] = [each for each in task["artifacts"] if each["name"] == "numbers.json"]
    answer = gateway.client(token).get(found["parts"][0]["url"])
    assert answer.json() == {"size": 3}


async def test_an_error_and_a_cancellation(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), polling=True) as client:
        failed = await ended(client, (await sent(client, "failing_job", {}))["id"], "failed")
        assert "this job always fails" in failed["status"]["message"]["parts"][0]["text"]
        task = await sent(client, "slow_compute", {"seconds": 3600})
        await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))
        await ended(client, task["id"], "canceled")
        with pytest.raises(errors.TaskNotCancelableError):
            await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))


# ---- streams ---------------------------------------------------------------------------------


async def test_a_stream_has_the_task_its_progress_and_its_end(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), streaming=True) as client:
        request = message("slow_compute", {"seconds": 1, "label": "sum"})
        found = await events(client, request)
    assert "task" in found[0]
    updates = [each["statusUpdate"]["status"] for each in found if "statusUpdate" in each]
    texts = [each["message"]["parts"][0]["text"] for each in updates if "message" in each]
    assert "computing sum" in texts
    assert updates[-1]["state"] == "TASK_STATE_COMPLETED"
    [artifact] = [each["artifactUpdate"] for each in found if "artifactUpdate" in each]
    assert artifact["artifact"]["parts"] == [{"text": "sum took 1.0 s"}]


async def test_a_stream_that_was_cut_is_continued(gateway: Installation) -> None:
    """The client disappears in the middle; the task continues, and another stream shows its end."""
    token = gateway.token_for(*ALL)
    async with connected(gateway.url, token, streaming=True) as client:
        stream = client.send_message(message("slow_compute", {"seconds": 1, "label": "cut"}))
        first = await anext(aiter(stream))
        task_id = first.task.id
    async with connected(gateway.url, token, streaming=True) as client:
        wanted = pb.SubscribeToTaskRequest(id=task_id)
        found = [MessageToDict(each) async for each in client.subscribe(wanted)]
        assert found[0]["task"]["id"] == task_id
        assert found[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        with pytest.raises(errors.UnsupportedOperationError):
            [each async for each in client.subscribe(wanted)]


# ---- push notifications ----------------------------------------------------------------------


def hooks_of(gateway: Installation, task_id: str) -> list[Webhook]:
    with gateway.core.store.read() as view:
        return [each for each in webhooks(view.rows("webhooks")) if each.task == task_id]


async def test_notifications_are_sent_until_the_task_has_ended(gateway: Installation) -> None:
    dispatcher = Dispatcher(gateway.core, "here")
    with receiving() as receiver:
        async with connected(gateway.url, gateway.token_for(*ALL), polling=True) as client:
            task = await sent(client, "confirm_delete", {"filename": "b.txt"})
            await ended(client, task["id"], "input_required")
            wanted = pb.TaskPushNotificationConfig(task_id=task["id"], url=receiver.url, token="t1")
            made = await client.create_task_push_notification_config(wanted)
            assert (made.id, made.url) == ("default", receiver.url)
            listed = await client.list_task_push_notification_configs(
                pb.ListTaskPushNotificationConfigsRequest(task_id=task["id"])
            )
            assert [each.id for each in listed.configs] == ["default"]
            await sent(client, None, "no", taskId=task["id"])
            await ended(client, task["id"])
        [hook] = hooks_of(gateway, task["id"])
        assert not is_over(gateway.core, hook), "the last event is not in the outbox yet"
        await anyio.to_thread.run_sync(dispatcher.run_once)
        last = receiver.received[-1]
        assert json.loads(last.body)["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
        assert last.headers["x-a2a-notification-token"] == "t1"
    await anyio.to_thread.run_sync(dispatcher.work, 0)
    assert hooks_of(gateway, task["id"]) == []


@pytest.mark.parametrize("url", ["http://10.0.0.1/x", "file:///etc/passwd", "https://a:b@x.org/"])
async def test_a_target_that_is_not_allowed_is_refused(gateway: Installation, url: str) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        task = await sent(client, "greet", "Ada")
        before = gateway.head()
        wanted = pb.TaskPushNotificationConfig(task_id=task["id"], url=url)
        with pytest.raises(errors.InvalidParamsError):
            await client.create_task_push_notification_config(wanted)
        request = message("greet", "Ada")
        request.configuration.task_push_notification_config.url = url
        with pytest.raises(errors.InvalidParamsError):
            await events(client, request)
        assert gateway.head() == before


# ---- requests that are refused ---------------------------------------------------------------


async def test_a_foreign_task_does_not_exist(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        task_id = (await sent(client, "confirm_delete", {"filename": "c.txt"}))["id"]
    before = gateway.head()
    async with connected(gateway.url, gateway.token_for(*ALL), streaming=True) as stranger:
        push = pb.TaskPushNotificationConfig(task_id=task_id, url="http://127.0.0.1:9/")
        for ident in (task_id, "unknown", "../x"):
            with pytest.raises(errors.TaskNotFoundError):
                await shown(stranger, ident)
            with pytest.raises(errors.TaskNotFoundError):
                await stranger.cancel_task(pb.CancelTaskRequest(id=ident))
            with pytest.raises(errors.TaskNotFoundError):
                await events(stranger, message(None, "yes", taskId=ident))
            with pytest.raises(errors.TaskNotFoundError):
                [_ async for _ in stranger.subscribe(pb.SubscribeToTaskRequest(id=ident))]
        with pytest.raises(errors.TaskNotFoundError):
            await stranger.create_task_push_notification_config(push)
        assert list((await stranger.list_tasks(pb.ListTasksRequest())).tasks) == []
    assert gateway.head() == before


async def test_scopes_are_those_of_the_operations(gateway: Installation) -> None:
    token = gateway.token_for(Scope.READ, Scope.SUBMIT)
    async with connected(gateway.url, token) as client:
        task = await sent(client, "confirm_delete", {"filename": "d.txt"})
        before = gateway.head()
        with pytest.raises(errors.InvalidRequestError, match="review"):
            await sent(client, None, "yes", taskId=task["id"])
        with pytest.raises(errors.InvalidRequestError, match="operate"):
            await client.cancel_task(pb.CancelTaskRequest(id=task["id"]))
        assert gateway.head() == before


SEND = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
TEXT = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
FILE = {**TEXT, "parts": [{"url": "file:///etc/passwd"}]}
GREET = {"metadata": {"skill": "greet"}}
BAD: dict[str, tuple[Any, str | None, int]] = {
    "no JSON": (b"{", "1.0", -32700),
    "a batch": ([SEND], "1.0", -32600),
    "no method": ({"jsonrpc": "2.0", "id": 1}, "1.0", -32600),
    "unknown method": ({**SEND, "method": "FlyToMoon"}, "1.0", -32601),
    "old version": (SEND, "0.3", -32009),
    "no version": (SEND, None, -32009),
    "later version": (SEND, "2.0", -32009),
    "no params": (SEND, "1.0", -32602),
    "wrong type": ({**SEND, "params": {"message": 5}}, "1.0", -32602),
    "no skill": ({**SEND, "params": {"message": TEXT}}, "1.0", -32602),
    "a file": ({**SEND, "params": {"message": {**FILE, **GREET}}}, "1.0", -32005),
    "no id": ({**SEND, "params": {"message": {**TEXT, "messageId": "", **GREET}}}, "1.0", -32602),
    "an unknown status": (
        {**SEND, "method": "ListTasks", "params": {"status": "TASK_STATE_LOST"}},
        "1.0",
        -32602,
    ),
    "no time": (
        {**SEND, "method": "ListTasks", "params": {"statusTimestampAfter": "yesterday"}},
        "1.0",
        -32602,
    ),
    "no part": ({**SEND, "params": {"message": {**TEXT, "parts": [], **GREET}}}, "1.0", -32602),
}


@pytest.mark.parametrize("flaw", BAD)
def test_a_bad_request_gets_the_error_of_the_protocol(gateway: Installation, flaw: str) -> None:
    body, version, code = BAD[flaw]
    before = gateway.head()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if version is not None:
        headers["A2A-Version"] = version
    answer = gateway.client().post("/a2a", content=content, headers=headers)
    assert answer.status_code == 200
    assert answer.json()["error"]["code"] == code
    assert gateway.head() == before


# ---- any gateway answers ---------------------------------------------------------------------


async def test_another_gateway_answers(gateway: Installation) -> None:
    token = gateway.token_for(*ALL)
    other = Server(gateway.core, a2a=A2aServer(gateway.core.settings))
    try:
        address = f"http://127.0.0.1:{other.start()}"
        async with connected(gateway.url, token) as client:
            task = await sent(client, "confirm_delete", {"filename": "e.txt"})
        async with connected(address, token) as client:
            await sent(client, None, "yes", taskId=task["id"])
            assert result(await ended(client, task["id"])) == "e.txt deleted"
    finally:
        other.stop()


async def test_the_client_of_the_page(
    gateway: Installation, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [client] = [each for each in blocks(PAGE.read_text("utf-8")) if each.title == "client.py"]
    await imported(client, tmp_path).main(gateway.url, gateway.token_for(*ALL))
    assert capsys.readouterr().out == "Delete a.txt?\na.txt deleted\n"


async def test_a_gateway_is_killed_after_the_message(tmp_path: Path) -> None:
    """The gateway that is started next knows the task."""
    detent = Processes(tmp_path)
    (detent.project / "detent.toml").write_text(CONFIGURATION.format(detent.data))
    detent.start()
    try:
        async with connected(detent.url, detent.token, polling=True) as client:
            task_id = (await sent(client, "say", "hello"))["id"]
            detent.kill()
        detent.start()
        async with connected(detent.url, detent.token) as client:
            assert (await shown(client, task_id))["id"] == task_id
    finally:
        detent.stop()
