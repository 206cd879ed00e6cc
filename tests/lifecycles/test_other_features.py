"""An installed lifecycle in metrics, Notion, webhooks, history, forks, retention and MCP."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from prometheus_client.parser import text_string_to_metric_families

from detent import feed
from detent.app.app import App
from detent.app.run_context import Run as RunContext
from detent.engine import Engine
from detent.integrations.telemetry.metrics import Metrics
from detent.integrations.webhooks.webhook_dispatcher import Dispatcher
from detent.keeper import retention_sweep
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.registry import OWNER, call
from detent.service import mcp_tools
from detent.store.memory import MemoryStore
from detent.testing.audit import audit
from detent.testing.harness import Harness
from tests.gateway.installation import DEADLINE_S, Installation, installed
from tests.integrations.hooks import SETTINGS, put, received_events
from tests.integrations.notion_world import World
from tests.integrations.receiver import Receiver, receiving
from tests.operations.operations_client import OperationsClient

DAY_S = 86_400
FILES = Path(__file__).parent
DELIVERY = FILES / "documents" / "seven_states.toml"
RELEASE = FILES / "tla_documents" / "release.toml"
#: The subtasks of its tasks need no approval.
WITH_PARTS = FILES.parents[1] / "verification" / "fault_injection" / "release.toml"


def install(core: Core, file: Path = DELIVERY) -> None:
    call("install_lifecycle", core, OWNER, document=file.read_text(encoding="utf-8"))


@pytest.fixture
def client() -> OperationsClient:
    made = OperationsClient()
    install(made.core)
    return made


def approved(client: OperationsClient, **fields: Any) -> str:
    """A task that was built, sent back once, built again and approved."""
    task_id = client.submit(lifecycle="delivery", **fields)
    client.complete()
    client.call("send_event", task_id=task_id, event="task_sent_back", comment="again")
    client.complete()
    client.call("send_event", task_id=task_id, event="task_approved")
    return task_id


# ---- metrics ---------------------------------------------------------------------------------


def test_metrics_have_its_states(client: OperationsClient) -> None:
    approved(client)
    client.submit(lifecycle="delivery")
    metrics = Metrics(client.core)
    metrics.observe(list(feed.read(client.core.store, 0)))
    samples = {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(metrics.page().decode())
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        return samples[name, tuple(sorted(labels.items()))]

    assert value("tasks_by_state", state="delivered") == 1
    assert value("tasks_by_state", state="queued") == 1
    moved, build = "task_state_transitions_total", {"intent": "build"}
    for source, target, count in (
        ("none", "draft", 2),
        ("building", "approval", 2),
        ("approval", "queued", 1),
        ("approval", "delivered", 1),
    ):
        assert value(moved, **build, from_state=source, to_state=target) == count, target
    assert value("task_duration_seconds_count", **build, status="delivered") == 1


# ---- Notion and webhooks ---------------------------------------------------------------------


def test_pages_in_notion_have_its_states() -> None:
    world = World()
    install(world.core)
    world.submit("t1", lifecycle="delivery", queue=True)
    world.complete()
    world.run()
    page = world.rows("tasks")["t1"]
    assert (page["State"], page["Lifecycle"]) == ("approval", "delivery")
    world.core.engine.do(c.SendEvent("t1", "task_approved"), c.Actor("person"))
    assert world.run().updated == 1
    assert world.rows("tasks")["t1"]["State"] == "delivered"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as server:
        yield server


def test_a_webhook_delivers_its_events(receiver: Receiver) -> None:
    store = MemoryStore()
    core = Core(store, Engine(store), SETTINGS, {"build": {}})
    install(core)
    put(core, receiver, events=["task_approved", "task_sent_back"])
    client = OperationsClient()
    client.core = core
    task_id = approved(client)
    Dispatcher(core, "here").run_once()
    assert received_events(receiver) == [f"task_sent_back {task_id}", f"task_approved {task_id}"]
    data = json.loads(receiver.received[0].body)["data"]["data"]
    assert (data["comment"], data["round"]) == ("again", 1)


# ---- history and forks -----------------------------------------------------------------------


def test_a_task_is_shown_as_it_was(client: OperationsClient) -> None:
    task_id = approved(client)
    states = {}
    for event in client.call("task_events", task_id=task_id)["events"]:
        then = client.call("task_at", task_id=task_id, position=event["position"])
        states[event["name"]] = then["task"]["state"]
    assert states["task_created"] == "draft"
    assert states["task_started"] == "building"
    assert states["task_sent_back"] == "queued"
    assert states["task_approved"] == "delivered"


def test_a_task_is_shown_as_it_was_before_its_migration(client: OperationsClient) -> None:
    task_id = client.submit(lifecycle="delivery")
    client.complete()
    before = client.head()
    text = DELIVERY.read_text(encoding="utf-8").replace("approval", "signature")
    moved = '\n[migrate]\napproval = "signature"\n'
    client.call("install_lifecycle", document=f"version = 2\n{text}{moved}")
    client.call("migrate_lifecycle", name="delivery")
    then = client.call("task_at", task_id=task_id, position=before)["task"]
    assert (then["state"], then["lifecycle"]) == ("approval", "delivery")
    now = client.call("task_at", task_id=task_id)["task"]
    assert (now["state"], now["lifecycle"]) == ("signature", "delivery@2")


def submitted(harness: Harness, file: Path = DELIVERY) -> str:
    """A task of the document's lifecycle for the intent `work`."""
    install(harness.app.installation(), file)
    name = tomllib.loads(file.read_text(encoding="utf-8"))["name"]
    return str(harness.app.submit("work", lifecycle=name).task_id)


def state(harness: Harness, task_id: str) -> str:
    return str(call("show_task", harness.app.installation(), OWNER, task_id=task_id)["state"])


def test_a_run_of_its_task_gathers_subtasks() -> None:
    """What counts is how they ended, not the name of their last state."""
    app = App()

    @app.intent("part")
    def part(number: int) -> int:
        if number < 0:
            raise ValueError("negative")
        return number + 1

    @app.intent("work")
    def work(run: RunContext) -> list[Any]:
        first = run.subtask(part, number=1, name="first")
        broken = run.subtask(part, number=-1, name="broken")
        more = run.map("part", [{"number": 2}], name="more")
        (outcome,) = run.gather([broken], name="outcomes", outcomes=True)
        return [*run.gather([first]), *more, outcome.state, outcome.succeeded]

    harness = Harness(app)
    task_id = submitted(harness, WITH_PARTS)
    harness.drain(advance=True)
    found = call("subtasks", app.installation(), OWNER, task_id=task_id)["items"]
    assert {each["lifecycle"] for each in found} == {"release"}
    assert sorted(each["state"] for each in found) == ["broken", "released", "released"]
    assert harness.job(f"{task_id}-j1").result == [2, 3, "broken", False]
    assert state(harness, task_id) == "approval"


def test_a_job_of_its_task_is_forked() -> None:
    app = App()
    done: list[str] = []

    def doing(name: str) -> str:
        done.append(name)
        return f"{name} {len(done)}"

    @app.intent("work")
    def work(run: RunContext) -> list[Any]:
        return [run.step("a", doing, "a"), run.step("b", doing, "b")]

    harness = Harness(app)
    task_id = submitted(harness)
    harness.drain()
    assert state(harness, task_id) == "approval"
    given = {"job_id": f"{task_id}-j1", "step": "b", "id": "again"}
    fork = call("fork_job", harness.app.installation(), OWNER, **given)
    assert fork["kept"] == ["a"]
    harness.drain()
    assert harness.job("again").result == ["a 1", "b 3"]
    assert state(harness, task_id) == "approval"
    audit(harness.store)


# ---- retention -------------------------------------------------------------------------------


def test_its_tasks_are_kept_as_long_as_their_retention_says() -> None:
    client = OperationsClient()
    install(client.core, RELEASE)
    client.call("submit_task", intent="build", lifecycle="release", id="kept")
    for name in ("done", "failed", "cancelled"):
        client.call("submit_task", intent="build", lifecycle="release", id=name)
        client.call("send_event", task_id=name, event="task_requested")
        if name == "done":
            client.complete()
            for event in ("task_proposed", "task_approved"):
                client.call("send_event", task_id=name, event=event)
        elif name == "failed":
            client.fail(kind="budget")
        else:
            client.call("cancel_task", task_id=name)
    states = {each["id"]: each["state"] for each in client.call("list_tasks")["items"]}
    assert states == {
        "kept": "draft",
        "done": "released",
        "failed": "broken",
        "cancelled": "withdrawn",
    }
    for days, left in (
        (6, {"done", "failed", "cancelled", "kept"}),
        (2, {"done", "failed", "kept"}),
        (7, {"done", "kept"}),
        (16, {"kept"}),
        (400, {"kept"}),
    ):
        client.clock.advance(seconds=days * DAY_S)
        retention_sweep.run_all(client.core)
        assert {each["id"] for each in client.call("list_tasks")["items"]} == left
    audit(client.core.store)


# ---- MCP -------------------------------------------------------------------------------------


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Installation]:
    with installed(tmp_path, mcp_tools) as installation:
        install(installation.core)
        yield installation


@pytest.mark.anyio
async def test_an_agent_drives_a_task_of_it_over_mcp(gateway: Installation) -> None:
    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http:
        transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
        async with Client(transport) as client:

            async def tool(name: str, **arguments: Any) -> Any:
                result = await client.call_tool(name, arguments)
                assert isinstance(result, CallToolResult)
                assert not result.is_error, result.content
                return result.structured_content

            given = {"intent": "runQA", "lifecycle": "delivery", "run": True}
            task_id = (await tool("submit_task", **given))["id"]
            gateway.complete(task_id)
            assert (await tool("wait_task", task_id=task_id))["state"] == "approval"
            assert [each["id"] for each in (await tool("inbox"))["items"]] == [task_id]
            offered = (await tool("why", task_id=task_id))["events"]
            assert offered == ["task_approved", "task_sent_back"]
            sent = await tool("send_event", task_id=task_id, event="task_sent_back", comment="x")
            assert sent["state"] == "queued"
            gateway.complete(task_id)
            sent = await tool("send_event", task_id=task_id, event="task_approved")
            assert sent["state"] == "delivered"
            shown = await tool("show_task", task_id=task_id)
            assert (shown["state"], shown["ending"]) == ("delivered", "done")
