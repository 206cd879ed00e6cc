"""The tasks of an A2A client, listed by page, context, status and time."""

from collections.abc import Iterator, Mapping
from typing import Any

import anyio
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf.json_format import ParseDict

from detent.gateway.a2a_routes import A2aClient
from detent.integrations.a2a.a2a_server import list_tasks
from detent.kernel.state_mapping import A2aState
from tests.gateway.installation import Installation
from tests.integrations.a2a_client import ALL, connected, ended, sent, state
from tests.integrations.task_tools import working

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with working(tmp_path_factory.mktemp("a2a-lists")) as installation:
        yield installation


async def test_tasks_are_listed_by_page_context_and_status(gateway: Installation) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL)) as client:
        made = [(await sent(client, "greet", "Ada", contextId="c"))["id"] for _ in range(3)]
        await sent(client, "greet", "Ada")
        wanted = pb.ListTasksRequest(context_id="c", page_size=2)
        page = await client.list_tasks(wanted)
        wanted.page_token = page.next_page_token
        rest = await client.list_tasks(wanted)
        assert [each.id for each in (*page.tasks, *rest.tasks)] == list(reversed(made))
        assert (page.total_size, rest.next_page_token) == (3, "")
        none = await client.list_tasks(pb.ListTasksRequest(status=pb.TASK_STATE_FAILED))
        assert list(none.tasks) == []


def outcome(name: str, mapped: A2aState, **fields: Any) -> dict[str, Any]:
    common = {"id": name, "tags": ["a2a"], "intent": "buy", "state": "blocked", "version": 1}
    empty: dict[str, Any] = {
        "questions": [],
        "evidence": [],
        "ending": None,
        "progress": None,
        "note": None,
    }
    state = {"elsewhere": {"a2a": mapped.value}, "state_at": "2026-01-01T00:00:00Z"}
    return {**common, **empty, **state, "blocked_by": "budget", **fields}


async def test_tasks_are_listed_by_the_status_that_they_show() -> None:
    """A task that waits for a person without a question is shown, and listed, as working."""
    question = {"key": "q@1", "name": "q", "text": "Buy it?", "options": []}
    rows = [
        outcome("budget", A2aState.INPUT_REQUIRED),
        outcome("question", A2aState.INPUT_REQUIRED, questions=[question]),
        outcome("permission", A2aState.WORKING, questions=[question]),
    ]

    async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
        if operation == "list_tasks":
            return {"items": rows}
        return next(each for each in rows if each["id"] == arguments["task_id"])

    client = A2aClient(call, "ada", "http://127.0.0.1", anyio.Event())
    for status, names in {
        "WORKING": ["budget"],
        "INPUT_REQUIRED": ["question", "permission"],
        "REJECTED": [],
    }.items():
        found = await list_tasks(client, {"status": f"TASK_STATE_{status}"})
        assert [each["id"] for each in found["tasks"]] == names
        assert {state(each) for each in found["tasks"]} <= {status.lower()}


async def test_tasks_are_listed_from_a_time_and_from_the_place_of_a_page(
    gateway: Installation,
) -> None:
    async with connected(gateway.url, gateway.token_for(*ALL), polling=True) as client:
        names = [f"{each}.txt" for each in "abc"]
        made = [(await sent(client, "confirm_delete", {"filename": each}))["id"] for each in names]
        for each in made:
            await ended(client, each, "input_required")
        wanted = pb.ListTasksRequest(status=pb.TASK_STATE_INPUT_REQUIRED, page_size=1)
        page = await client.list_tasks(wanted)
        assert [each.id for each in page.tasks] == made[2:]
        await sent(client, None, "yes", taskId=made[2])  # it leaves the list between two pages
        finished = await ended(client, made[2])
        wanted.page_token = page.next_page_token
        assert [each.id for each in (await client.list_tasks(wanted)).tasks] == [made[1]]
        late = ParseDict(
            {"statusTimestampAfter": finished["status"]["timestamp"]}, pb.ListTasksRequest()
        )
        assert [each.id for each in (await client.list_tasks(late)).tasks] == [made[2]]
        with pytest.raises(errors.InvalidParamsError, match="first page"):
            await client.list_tasks(pb.ListTasksRequest(page_token="of another list"))
