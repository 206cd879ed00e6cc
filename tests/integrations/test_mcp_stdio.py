"""`detent mcp` as a real process: the public client library talks to its pipes."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from click.testing import CliRunner
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from detent.cli.main import cli
from detent.cli.mcp import SCOPES
from detent.operations.registry import Scope
from tests.gateway.installation import Installation, installed

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def started(
    directory: Path, *arguments: str, **environment: str
) -> AsyncIterator[tuple[Client, Any]]:
    """The command in its own directory, and a client on its pipes."""
    (directory / "detent.toml").write_text('[intents.runQA]\ncommand = ["true"]\n', "utf-8")
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "detent", "mcp", *arguments],
        env={"DETENT_STORE_DATA_DIR": str(directory / "data"), **environment},
        cwd=directory,
    )
    async with Client(stdio_client(parameters)) as client:
        yield client, [tool.name for tool in (await client.list_tools()).tools]


async def called(client: Client, tool: str, /, **arguments: Any) -> types.CallToolResult:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result, types.CallToolResult)
    return result


async def test_it_works_without_a_gateway_and_with_few_scopes(tmp_path: Path) -> None:
    async with started(tmp_path) as (client, names):
        assert {"submit_task", "show_task", "wait_task"} <= set(names)
        assert not {"accept_task", "cancel_task"} & set(names)
        made = await called(client, "submit_task", intent="runQA")
        task_id = made.structured_content["id"]
        shown = await called(client, "show_task", task_id=task_id)
        assert shown.structured_content["state"] == "pending"
        refused = await called(client, "accept_task", task_id=task_id)
        assert refused.is_error
        assert refused.structured_content["scope"] == "review"
        hostile = await called(client, "submit_task", intent=["runQA"])
        assert (hostile.is_error, hostile.structured_content["field"]) == (True, "intent")


async def test_a_scope_is_offered_when_it_is_named(tmp_path: Path) -> None:
    async with started(tmp_path, "--scope", "review") as (_, names):
        assert "accept_task" in names
        assert "submit_task" not in names


async def test_through_a_gateway_the_token_decides(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    with installed(tmp_path / "server") as gateway:
        await _only_what_the_token_allows(gateway, tmp_path)


async def _only_what_the_token_allows(gateway: Installation, directory: Path) -> None:
    token = gateway.token_for(Scope.READ)
    remote = {"DETENT_URL": gateway.url, "DETENT_TOKEN": token}
    made = gateway.client().post("/api/tasks", json={"intent": "runQA"}).json()["id"]
    async with started(directory, **remote) as (client, names):
        assert "show_task" in names
        assert "submit_task" not in names
        shown = await called(client, "show_task", task_id=made)
        assert shown.structured_content["id"] == made
        unknown = await called(client, "show_task", task_id="none")
        assert unknown.structured_content["code"] == "unknown_task"
    remote["DETENT_TOKEN"] = gateway.token_for(Scope.RUN)
    async with started(directory, **remote) as (_, names):
        assert not {"show_task", "submit_task", "accept_task"} & set(names)


def test_a_gateway_without_a_token_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DETENT_TOKEN", raising=False)
    assert "DETENT_TOKEN" not in os.environ
    result = CliRunner().invoke(cli, ["mcp", "--url", "http://127.0.0.1:1"])
    assert result.exit_code == 7
    assert "set DETENT_TOKEN; `detent tokens create` creates a token" in result.output


def test_the_command_accepts_every_scope() -> None:
    assert set(SCOPES) == {scope.value for scope in Scope}
