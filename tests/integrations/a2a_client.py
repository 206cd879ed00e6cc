"""The client of the official SDK of A2A, as the tests use it."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
from a2a.client import ClientConfig, create_client
from a2a.client.client import Client
from a2a.types import a2a_pb2 as pb
from google.protobuf.json_format import MessageToDict, ParseDict

from detent.operations.registry import Scope
from tests.gateway.installation import DEADLINE_S

ALL = (Scope.READ, Scope.SUBMIT, Scope.OPERATE, Scope.REVIEW)


@asynccontextmanager
async def connected(
    url: str, token: str, *, streaming: bool = False, polling: bool = False
) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=DEADLINE_S, trust_env=False) as http:
        config = ClientConfig(streaming=streaming, polling=polling, httpx_client=http)
        yield await create_client(url, config)


def message(skill: str | None, content: Any, **fields: Any) -> pb.SendMessageRequest:
    part = {"text": content} if isinstance(content, str) else {"data": content}
    whole = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [part], **fields}
    if skill is not None:
        whole["metadata"] = {"skill": skill}
    return ParseDict({"message": whole}, pb.SendMessageRequest())


async def events(client: Client, request: pb.SendMessageRequest) -> list[dict[str, Any]]:
    return [MessageToDict(each) async for each in client.send_message(request)]


async def sent(client: Client, *given: Any, **fields: Any) -> dict[str, Any]:
    """The task that a message has created or continued."""
    [only] = await events(client, message(*given, **fields))
    found: dict[str, Any] = only["task"]
    return found


async def shown(client: Client, task_id: str) -> dict[str, Any]:
    return MessageToDict(await client.get_task(pb.GetTaskRequest(id=task_id)))


def state(task: dict[str, Any]) -> str:
    return str(task["status"]["state"]).removeprefix("TASK_STATE_").lower()


def result(task: dict[str, Any]) -> Any:
    [found] = [each for each in task["artifacts"] if each["artifactId"] == "result"]
    part = found["parts"][0]
    return part.get("text", part.get("data"))


async def ended(client: Client, task_id: str, *states: str) -> dict[str, Any]:
    with anyio.fail_after(DEADLINE_S):
        while state(found := await shown(client, task_id)) not in (states or ("completed",)):
            await anyio.sleep(0.02)
    return found
