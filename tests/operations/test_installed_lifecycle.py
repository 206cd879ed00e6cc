"""A lifecycle from a document in the operations that list, explain and move tasks."""

import tomllib
from typing import Any

import pytest

from detent.errors import Refused
from detent.kernel.commands import lifecycle_commands as lc
from detent.operations.registry import Caller
from tests.dashboard import release_lifecycle
from tests.operations.operations_client import OperationsClient

#: A person for whom the row of an event is declared.
CHIEF = Caller("person:chief")


def document(version: int = 1) -> dict[str, Any]:
    return tomllib.loads(release_lifecycle.document(version=version))


def install(client: OperationsClient, given: dict[str, Any]) -> None:
    client.core.engine.do(lc.InstallLifecycle(given), CHIEF.actor)


@pytest.fixture
def client() -> OperationsClient:
    made = OperationsClient()
    install(made, document())
    return made


def built(client: OperationsClient) -> str:
    task_id = client.submit(lifecycle="release")
    client.complete()
    return task_id


def in_inbox(client: OperationsClient, task_id: str) -> Any:
    (found,) = (each for each in client.call("inbox")["items"] if each["id"] == task_id)
    return found


def test_the_events_that_people_may_send_now(client: OperationsClient) -> None:
    task_id = built(client)
    assert client.why(task_id)["events"] == ["task_approved", "task_sent_back"]
    assert in_inbox(client, task_id)["events"] == ["task_approved", "task_sent_back"]
    assert "accept" not in client.why(task_id)["actions"]
    moved = client.call("send_event", task_id=task_id, event="task_sent_back", comment="again")
    assert (moved["state"], moved["outcome"]) == ("queued", "queued")
    assert client.task(task_id)["comment"] == "again"
    assert client.why(task_id)["events"] == []


def test_an_event_that_the_limit_of_rounds_refuses_is_not_offered(
    client: OperationsClient,
) -> None:
    task_id = built(client)
    for _ in range(2):
        client.call("send_event", task_id=task_id, event="task_sent_back")
        client.complete()
    assert client.why(task_id)["events"] == ["task_approved"]
    with pytest.raises(Refused, match="has had 2 rounds, which is its limit") as refused:
        client.call("send_event", task_id=task_id, event="task_sent_back")
    assert refused.value.code == "rounds_used"
    assert client.state(task_id) == "approval"


def test_an_event_on_what_has_changed_since_is_refused(client: OperationsClient) -> None:
    task_id = built(client)
    seen = client.task(task_id)["version"]
    client.call("edit_task", task_id=task_id, title="Another title")
    with pytest.raises(Refused):
        client.call("send_event", task_id=task_id, event="task_approved", seen=seen)
    assert client.state(task_id) == "approval"


def test_an_event_for_one_person_is_offered_to_that_person(client: OperationsClient) -> None:
    own = document(2)
    (approved,) = (row for row in own["rows"] if row["event"] == "task_approved")
    approved["who"] = [CHIEF.name]
    install(client, own)
    task_id = built(client)
    assert client.why(task_id)["events"] == ["task_sent_back"]
    theirs = client.call("why", CHIEF, task_id=task_id)["events"]
    assert theirs == ["task_approved", "task_sent_back"]


def test_tasks_are_listed_by_lifecycle_and_by_version(client: OperationsClient) -> None:
    first = client.submit(lifecycle="release")
    install(client, document(2))
    second = client.submit(lifecycle="release")
    for wanted, expected in (
        ("release", [second, first]),
        ("release@1", [first]),
        ("RELEASE@2", [second]),
    ):
        found = client.call("list_tasks", lifecycle=wanted)["items"]
        assert {each["id"] for each in found} == set(expected), wanted


def test_the_export_has_what_a_board_needs(client: OperationsClient) -> None:
    install(client, {**document(2), "default_for": ["submit"]})
    answer = client.call("list_lifecycles")
    assert answer["defaults"]["submit"] == "release@2"
    by_id = {each["id"]: each for each in answer["lifecycles"]}
    release = by_id["release@2"]
    assert (release["kind"], release["name"], release["version"]) == ("task", "release", 2)
    assert release["phases"]["approval"] == "idle"
    assert release["endings"] == {"released": "done", "cancelled": "cancelled"}
    assert release["columns"]["building"] == "In work"
    assert release["waits_for_person"] == ["approval"]
    assert release["timers"] == [
        {"state": "approval", "after_s": 3 * 86_400, "event": "task_cancelled"}
    ]
    assert release["rounds"] == {"events": ["task_sent_back"], "limit": 2}
    started = {"when": "run_started", "states": ["queued"], "given": [], "then": ["task_started"]}
    assert release["rules"][0] == started
    assert {each["kind"] for each in by_id.values()} == {"task", "job", "step", "run"}
    assert client.call("lifecycle_diagram", name="release@2")["id"] == "release@2"
