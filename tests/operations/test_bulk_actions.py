"""Bulk actions: each id has its own outcome, independent of the others, in one transaction."""

from typing import Any

import pytest

from detent.engine import batch
from detent.errors import Forbidden, Unavailable
from detent.operations.bulk import MAX_TOGETHER
from detent.operations.registry import OPERATIONS, Caller, Scope
from tests.operations.operations_client import OperationsClient

ONCE = {"retry": {"max_attempts": 1}}
VERBS = ("run", "cancel", "accept", "reject", "resume", "retry", "delete")


def ready(client: OperationsClient, **fields: Any) -> str:
    made = client.submit(**fields)
    client.complete()
    return made


def job(client: OperationsClient, **fields: Any) -> str:
    return str(client.call("submit_job", intent="build", **fields)["id"])


def codes(answer: Any) -> dict[str, str]:
    return {each["id"]: each["code"] for each in answer["refused"]}


def test_each_has_its_own_outcome() -> None:
    client = OperationsClient()
    first, accepted, second = ready(client), ready(client), ready(client)
    client.call("accept_task", task_id=accepted)
    answer = client.call("accept_many", ids=[first, "missing", accepted, second, first])
    assert [(each["id"], each["state"]) for each in answer["items"]] == [
        (first, "completed"),
        (second, "completed"),
    ]
    assert answer["items"][0]["version"] == client.task(first)["version"]
    assert codes(answer) == {"missing": "unknown_task", accepted: "illegal_transition"}
    assert "There is no task 'missing'." in [each["detail"] for each in answer["refused"]]


def test_a_repeated_bulk_action_changes_nothing() -> None:
    client = OperationsClient()
    ids = [client.submit() for _ in range(3)]
    assert len(client.call("cancel_many", ids=ids)["items"]) == 3
    before = client.head()
    again = client.call("cancel_many", ids=ids)
    assert codes(again) == dict.fromkeys(ids, "illegal_transition")
    assert client.head() == before


def test_tasks_and_jobs_may_be_mixed() -> None:
    client = OperationsClient()
    task, of_task, alone = client.submit(), client.submit(), job(client)
    answer = client.call("cancel_many", ids=[task, f"{of_task}-j1", alone], reason="not now")
    assert {each["id"]: each["state"] for each in answer["items"]} == {
        task: "cancelled",
        f"{of_task}-j1": "cancelled",
        alone: "cancelled",
    }
    assert client.task(of_task)["state"] == "cancelled"  # the job of a task moves with it
    last = client.call("task_events", task_id=task)["events"][-1]
    assert (last["name"], last["data"]["reason"]) == ("task_cancelled", "not now")
    refused = client.call("accept_many", ids=[alone])
    assert codes(refused) == {alone: "unknown_task"}


def test_an_action_that_changes_other_ids_of_the_list() -> None:
    client = OperationsClient()
    parent = client.submit()
    child = client.submit(parent_id=parent)
    answer = client.call("cancel_many", ids=[parent, child])
    assert [each["id"] for each in answer["items"]] == [parent]
    assert codes(answer) == {child: "illegal_transition"}
    answer = client.call("delete_many", ids=[child, parent])
    assert [each["outcome"] for each in answer["items"]] == ["deleted", "deleted"]
    assert answer["items"][0] == {
        "id": child,
        "state": None,
        "version": None,
        "outcome": "deleted",
    }
    assert client.call("list_tasks")["items"] == []


def test_what_failed_is_retried_together() -> None:
    client = OperationsClient()
    tasks = [client.submit(options=ONCE) for _ in range(2)]
    alone = job(client, options=ONCE)
    for _ in range(3):
        client.fail()
    answer = client.call("retry_many", ids=[*tasks, alone])
    assert [each["state"] for each in answer["items"]] == ["queued"] * 3


def test_a_verdict_is_bound_to_what_was_seen() -> None:
    client = OperationsClient()
    same, changed = ready(client), ready(client)
    seen = {each: client.task(each)["version"] for each in (same, changed)}
    client.call("edit_task", task_id=changed, title="Another")
    answer = client.call("reject_many", ids=[same, changed], comment="no", run=True, seen=seen)
    assert [(each["id"], each["state"]) for each in answer["items"]] == [(same, "queued")]
    assert list(codes(answer)) == [changed]
    assert client.state(changed) == "ready"


def test_all_of_it_is_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    client = OperationsClient()
    ids = [client.submit() for _ in range(50)]
    sizes: list[int] = []
    run = batch.run

    def counted(tx: Any, asks: Any, *more: Any) -> Any:
        sizes.append(len(asks))
        return run(tx, asks, *more)

    monkeypatch.setattr(batch, "run", counted)
    assert len(client.call("cancel_many", ids=[*ids, "missing"])["items"]) == 50
    assert sizes == [50]


def test_an_unavailable_store_fails_the_whole_request(monkeypatch: pytest.MonkeyPatch) -> None:
    client = OperationsClient()
    made = client.submit()

    def away(*_: Any) -> Any:
        raise Unavailable("the database does not answer", retry_after_s=1)

    monkeypatch.setattr(batch, "run", away)
    with pytest.raises(Unavailable):
        client.call("cancel_many", ids=[made])


def test_ids_of_another_project_are_unknown() -> None:
    client = OperationsClient()
    theirs, mine = client.submit(project="theirs"), client.submit(project="ours")
    ours = Caller("ours", frozenset(Scope), project="ours")
    answer = client.call("cancel_many", ours, ids=[theirs, mine])
    assert [each["id"] for each in answer["items"]] == [mine]
    assert codes(answer) == {theirs: "unknown_task"}
    assert client.state(theirs) == "queued"


def test_an_agent_cannot_review_its_own_work_in_bulk() -> None:
    client = OperationsClient()
    own, other = ready(client), ready(client)
    agent = Caller("agent", frozenset({Scope.REVIEW}), root_id=own)
    answer = client.call("accept_many", agent, ids=[own, other])
    assert codes(answer) == {own: "own_work"}
    assert client.state(own) == "ready"


@pytest.mark.parametrize("verb", VERBS)
def test_the_scope_is_that_of_the_single_action(verb: str) -> None:
    single, many = OPERATIONS[f"{verb}_task"], OPERATIONS[f"{verb}_many"]
    assert many.scope is single.scope
    client = OperationsClient()
    others = frozenset(Scope) - {many.scope, Scope.ADMIN}
    with pytest.raises(Forbidden):
        client.call(many.name, Caller("someone", others), ids=["x"])


def test_the_maximum_is_that_of_an_engine_transaction() -> None:
    from detent.engine.engine import MAX_COMMANDS

    assert MAX_TOGETHER == MAX_COMMANDS
