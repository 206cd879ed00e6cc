"""MCP with its public client library: over HTTP with a real gateway and tokens of every kind."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import mcp_types as types
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from detent.integrations.mcp.mcp_tools import OFFERED, WAIT
from detent.kernel import commands as c
from detent.operations import registry
from detent.operations.registry import OPERATIONS, Scope
from detent.operations.run_reports import recorded_question
from detent.operations.run_tokens import issue_run_token
from detent.service import mcp_tools
from tests.gateway.installation import DEADLINE_S, Installation, installed, until
from tests.operations.commented_task import FIRST, SECOND

pytestmark = pytest.mark.anyio
LEGACY, MODERN = "legacy", "2026-07-28"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("mcp"), mcp_tools) as installation:
        yield installation


@asynccontextmanager
async def guest(gateway: Installation, *scopes: Scope, mode: str = "auto") -> AsyncIterator[Client]:
    """A client with a token of these scopes; with the owner's token if there are none."""
    token = gateway.token_for(*scopes) if scopes else gateway.token
    async with holder_of(gateway, token, mode) as client:
        yield client


@asynccontextmanager
async def holder_of(gateway: Installation, token: str, mode: str = "auto") -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=DEADLINE_S) as http:
        transport = streamable_http_client(f"{gateway.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, types.CallToolResult)
    assert not result.is_error, result.content
    found: dict[str, Any] = result.structured_content
    assert isinstance(result.content[0], types.TextContent)
    assert json.loads(result.content[0].text) == found
    return found


async def refused(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, types.CallToolResult)
    assert result.is_error
    problem: dict[str, Any] = result.structured_content
    return problem


# ---- tools -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [LEGACY, MODERN])
async def test_a_task_from_submission_to_acceptance(gateway: Installation, mode: str) -> None:
    async with guest(gateway, mode=mode) as client:
        task_id = (await call(client, "submit_task", intent="runQA", run=True))["id"]
        assert (await call(client, "show_task", task_id=task_id))["state"] == "queued"
        listed = await call(client, "list_tasks", state="queued")
        assert task_id in [task["id"] for task in listed["items"]]
        assert (await call(client, "why", task_id=task_id))["actions"]
        gateway.ask(task_id, "Which colour?", ["red", "blue"])
        assert (await call(client, "wait_task", task_id=task_id))["state"] == "blocked"
        await call(client, "answer_task", task_id=task_id, answer="red")
        gateway.complete(task_id)
        assert (await call(client, "wait_task", task_id=task_id))["state"] == "ready"
        moved = await call(client, "reject_task", task_id=task_id, comment="again", run=True)
        assert moved["state"] == "queued"
        gateway.complete(task_id)
        assert (await call(client, "accept_task", task_id=task_id))["state"] == "completed"


def leave_diff(gateway: Installation, task_id: str, diff: str) -> None:
    """A run that leaves this diff and completes."""
    claimed = gateway.claim(task_id)
    run_id, blob = str(claimed.job.run_id), gateway.core.store.blobs.put(BytesIO(diff.encode()))
    gateway.report(c.AddEvidence(claimed.grant, run_id, "changes.diff", "unknown", *blob))
    gateway.report(c.CompleteRun(claimed.grant, run_id, None, 0))


async def test_a_review_over_two_rounds(gateway: Installation) -> None:
    async with guest(gateway, Scope.READ, Scope.REVIEW, Scope.SUBMIT) as client:
        task = {"task_id": (await call(client, "submit_task", intent="runQA", run=True))["id"]}
        leave_diff(gateway, task["task_id"], FIRST)
        first = (await call(client, "review", **task))["diff"]["sha256"]
        assert (await call(client, "review_file", **task, path="app.py"))["hunks"]
        place = {"diff": first, "file": "app.py", "start": 2, "end": 2}
        added = await call(client, "add_comment", **task, **place, text="Why 3?")
        await call(client, "save_draft", **task, **place, draft_id="d1", text="Unused.")
        await call(client, "save_draft", **task, **place, draft_id="d2", text="Never mind.")
        await call(client, "delete_draft", **task, draft_id="d2")
        assert (await call(client, "publish_drafts", **task))["published"] == ["d1"]
        await call(client, "mark_viewed", **task, diff=first, path="app.py")
        assert (await call(client, "request_changes", **task, diff=first))["state"] == "queued"
        leave_diff(gateway, task["task_id"], SECOND)
        between = await call(client, "review_between", **task, since=first)
        assert [each["path"] for each in between["files"]] == ["app.py", "other.py"]
        thread = {**task, "comment_id": added["comment_id"]}
        await call(client, "reply_to_comment", **thread, text="Good.")
        await call(client, "resolve_comment", **thread)
        problem = await refused(client, "accept_task", **task, diff=first)
        assert (problem["code"], problem["files"]) == ("diff_changed", ["app.py", "other.py"])
        shown = await call(client, "review", **task)
        assert (shown["rounds"], shown["open_comments"]) == (1, 1)
        assert (await call(client, "run_transcript", run_id=shown["diff"]["run_id"]))["ended"]
        accepted = await call(client, "accept_task", **task, diff=shown["diff"]["sha256"])
        assert accepted["state"] == "completed"


async def test_tools_are_the_operations_with_their_inputs(gateway: Installation) -> None:
    async with guest(gateway) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    runs = {each.name for each in OPERATIONS.values() if each.scope is Scope.RUN}
    assert set(tools) == {*OFFERED, WAIT} | runs
    for name in OFFERED:
        properties = tools[name].input_schema["properties"]
        assert set(properties) == {each.name for each in OPERATIONS[name].parameters}
        assert all(each["description"] for each in properties.values())
        assert tools[name].input_schema["additionalProperties"] is False
        hints = tools[name].annotations
        assert hints is not None
        assert hints.read_only_hint == (OPERATIONS[name].method == "GET")


@pytest.mark.parametrize(
    ("scope", "tool", "closed"),
    [
        (Scope.READ, "show_task", "submit_task"),
        (Scope.SUBMIT, "submit_task", "show_task"),
        (Scope.REVIEW, "accept_task", "cancel_task"),
        (Scope.OPERATE, "cancel_task", "accept_task"),
        (Scope.RUN, None, "accept_task"),
    ],
)
async def test_a_tool_without_its_scope_is_neither_shown_nor_called(
    gateway: Installation, scope: Scope, tool: str | None, closed: str
) -> None:
    before = gateway.head()
    async with guest(gateway, scope) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert tool is None or tool in names
        assert closed not in names
        problem = await refused(client, closed, task_id="none", intent="runQA")
    assert (problem["code"], problem["scope"]) == ("forbidden", OPERATIONS[closed].scope.value)
    assert gateway.head() == before


async def test_an_agent_cannot_review_its_own_work(gateway: Installation) -> None:
    async with guest(gateway) as client:
        task_id = (await call(client, "submit_task", intent="runQA", run=True))["id"]
    gateway.complete(task_id)
    token = gateway.token_for(Scope.READ, Scope.REVIEW, root_id=task_id)
    before = gateway.head()
    async with holder_of(gateway, token) as client:
        for tool in ("accept_task", "reject_task"):
            assert (await refused(client, tool, task_id=task_id))["code"] == "own_work"
    assert gateway.head() == before


async def test_a_run_token_has_only_its_own_tools(gateway: Installation) -> None:
    made = gateway.client().post("/api/tasks", json={"intent": "runQA", "run": True}).json()["id"]
    claimed = gateway.claim(made)
    run_id = str(claimed.job.run_id)
    token = issue_run_token(gateway.core, claimed.grant, run_id)
    async with holder_of(gateway, token) as client:
        names = [each.name for each in (await client.list_tools()).tools]
        assert set(names) == {each.name for each in OPERATIONS.values() if each.scope is Scope.RUN}
        assert (await call(client, "own_run"))["run_id"] == run_id
        await call(client, "own_progress", progress=0.5)
        await call(client, "own_evidence", name="notes.log", text="all well")
        child = (await call(client, "own_subtask", intent="runQA"))["id"]
        await call(
            client, "own_question", text="Which colour?", options=["red", "blue"], other=True
        )
        with gateway.core.store.read() as view:
            question = recorded_question(view, claimed.job.id, run_id)
        assert question == {"text": "Which colour?", "options": ["red", "blue"], "other": True}
        for tool in ("show_task", "accept_task", "answer_task", "cancel_task"):
            problem = await refused(client, tool, task_id=made)
            assert problem["code"] == "forbidden"
        gateway.report(c.CompleteRun(claimed.grant, run_id, None, 0))
        late = await refused(client, "own_progress", progress=0.9)
        assert late["code"] == "unauthorized", "the token dies with its run"
    owner = gateway.client()
    assert owner.get(f"/api/tasks/{child}").json()["parent_id"] == made
    assert owner.get(f"/api/runs/{run_id}/evidence").json()["items"][0]["file"] == "notes.log"


async def test_a_refusal_lists_the_legal_actions(gateway: Installation) -> None:
    async with guest(gateway) as client:
        task_id = (await call(client, "submit_task", intent="runQA"))["id"]
        problem = await refused(client, "accept_task", task_id=task_id)
        assert problem["code"] == "illegal_transition"
        assert "task_queued" in problem["legal"]
        unknown = await refused(client, "submit_task", intent="fly")
        assert (unknown["field"], unknown["allowed"]) == ("intent", ["review", "runQA"])
        assert (await refused(client, "no_such_tool"))["code"] == "not_found"


async def test_waiting_is_bounded(gateway: Installation) -> None:
    async with guest(gateway) as client:
        task_id = (await call(client, "submit_task", intent="runQA", run=True))["id"]
        assert (await call(client, "wait_task", task_id=task_id, timeout_s=0))["state"] == "queued"
        assert (await refused(client, "wait_task", task_id=task_id, timeout_s=301))["field"] == (
            "timeout_s"
        )


async def test_a_stop_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway stops within its grace period although a tool still waits."""
    looks: list[str] = []

    def looked(name: str, *rest: Any, **arguments: Any) -> Any:
        looks.append(name)
        return registry.call(name, *rest, **arguments)

    monkeypatch.setattr("detent.gateway.operation_dispatcher.call", looked)
    monkeypatch.setattr("detent.gateway.server.GRACE_S", DEADLINE_S)
    states: list[str] = []
    with installed(tmp_path, mcp_tools) as gateway:
        async with guest(gateway) as client:
            task_id = (await call(client, "submit_task", intent="runQA"))["id"]

            async def wait() -> None:
                task = await call(client, "wait_task", task_id=task_id, timeout_s=300)
                states.append(task["state"])

            with anyio.fail_after(2 * DEADLINE_S):
                async with anyio.create_task_group() as group:
                    group.start_soon(wait)
                    await anyio.to_thread.run_sync(until, lambda: looks.count("show_task") > 1)
                    await anyio.to_thread.run_sync(gateway.server.stop)
    assert states == ["pending"]


# ---- hostile arguments -----------------------------------------------------------------------

HOSTILE: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown field": ("submit_task", {"intent": "runQA", "colour": "red"}, "colour"),
    "missing": ("submit_task", {}, "intent"),
    "wrong type": ("submit_task", {"intent": 5}, "intent"),
    "no coercion": ("submit_task", {"intent": "runQA", "run": "true"}, "run"),
    "too long": ("submit_task", {"intent": "runQA", "title": "x" * 501}, "title"),
    "id like a path": ("submit_task", {"intent": "runQA", "id": "../../etc"}, "id"),
    "foreign option": (
        "submit_task",
        {"intent": "runQA", "options": {"shell": "rm"}},
        "options.shell",
    ),
    "core": ("show_task", {"task_id": "x", "core": 1}, "core"),
    "caller": ("show_task", {"task_id": "x", "caller": {"scopes": ["admin"]}}, "caller"),
    "text as number": ("list_tasks", {"limit": "5"}, "limit"),
    "foreign cursor": ("list_tasks", {"cursor": "abc"}, "cursor"),
    "offset": ("task_logs", {"task_id": "x", "offset": -1}, "offset"),
}


@pytest.mark.parametrize("flaw", HOSTILE)
async def test_hostile_arguments_are_named_and_change_nothing(
    gateway: Installation, flaw: str
) -> None:
    tool, arguments, field = HOSTILE[flaw]
    before = gateway.head()
    async with guest(gateway) as client:
        problem = await refused(client, tool, **arguments)
    assert problem["field"] == field
    assert gateway.head() == before


async def test_an_error_of_our_own_shows_no_traceback(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of the program")

    async with guest(gateway) as client:
        monkeypatch.setattr("detent.gateway.operation_dispatcher.call", broken)
        problem = await refused(client, "status")
        with pytest.raises(MCPError) as raised:
            await client.read_resource("detent://tasks/x")
    assert problem["code"] == "internal"
    assert "secret" not in str(problem) + str(raised.value)


async def test_a_refusal_repeats_no_secret(gateway: Installation) -> None:
    token = f"detent_{'a' * 43}"
    async with guest(gateway) as client:
        problem = await refused(client, "show_task", task_id=token)
        with pytest.raises(MCPError) as raised:
            await client.read_resource(f"detent://tasks/{token}")
    assert problem["code"] == "unknown_task"
    assert token not in str(problem) + str(raised.value)


# ---- resources -------------------------------------------------------------------------------


async def text_of(client: Client, uri: str) -> str:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, types.TextResourceContents)
    return contents.text


async def test_tasks_and_logs_are_resources(gateway: Installation) -> None:
    async with guest(gateway) as client:
        task_id = (await call(client, "submit_task", intent="runQA", run=True))["id"]
        run_id = gateway.claim(task_id).job.run_id
        file = gateway.core.settings.data_dir / "runs" / str(run_id) / "output.log"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("hello from the run\n", "utf-8")
        resources = (await client.list_resources()).resources
        assert f"detent://tasks/{task_id}" in [each.uri for each in resources]
        templates = (await client.list_resource_templates()).resource_templates
        assert "detent://tasks/{task_id}/logs" in [each.uri_template for each in templates]
        assert json.loads(await text_of(client, f"detent://tasks/{task_id}"))["id"] == task_id
        assert await text_of(client, f"detent://tasks/{task_id}/logs") == "hello from the run\n"
        for part in ("why", "events", "evidence"):
            assert json.loads(await text_of(client, f"detent://tasks/{task_id}/{part}"))


async def test_resources_come_in_pages(gateway: Installation) -> None:
    owner = gateway.client()
    owner.post("/api/bulk", json=[{"intent": "runQA"} for _ in range(60)])
    async with guest(gateway) as client:
        first = await client.list_resources()
        second = await client.list_resources(cursor=first.next_cursor)
    assert len(first.resources) == 50
    assert not {each.uri for each in first.resources} & {each.uri for each in second.resources}


@pytest.mark.parametrize(
    "uri",
    [
        "detent://tasks/none",
        "detent://tasks/../tokens",
        "detent://tokens",
        "file:///etc/passwd",
        "detent://tasks/a%00b",
    ],
)
async def test_an_unknown_resource_is_refused(gateway: Installation, uri: str) -> None:
    async with guest(gateway) as client:
        with pytest.raises(MCPError):
            await client.read_resource(uri)


async def test_resources_need_the_scope_too(gateway: Installation) -> None:
    async with guest(gateway) as client:
        task_id = (await call(client, "submit_task", intent="runQA"))["id"]
    async with guest(gateway, Scope.SUBMIT) as client:
        assert (await client.list_resources()).resources == []
        with pytest.raises(MCPError, match="needs the scope read"):
            await client.read_resource(f"detent://tasks/{task_id}")


# ---- MCP and A2A tasks -----------------------------------------------------------------------


async def test_a_task_has_its_mcp_and_a2a_states(gateway: Installation) -> None:
    async with guest(gateway) as client:
        task_id = (await call(client, "submit_task", intent="runQA", run=True))["id"]
        gateway.complete(task_id)
        shown = await client.call_tool("show_task", {"task_id": task_id})
    assert isinstance(shown, types.CallToolResult)
    assert shown.meta is not None
    task = types.Task.model_validate(shown.meta["detent/mcp-task"])
    assert (task.task_id, task.status) == (task_id, "input_required")
    a2a = shown.meta["detent/a2a-task"]
    assert a2a["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_another_project_is_not_accessible(gateway: Installation) -> None:
    theirs = gateway.client().post("/api/tasks", json={"intent": "runQA", "project": "theirs"})
    token = gateway.token_for(*Scope, project="ours")
    async with holder_of(gateway, token) as client:
        problem = await refused(client, "show_task", task_id=theirs.json()["id"])
        assert problem["code"] == "unknown_task"
        assert (await client.list_resources()).resources == []
