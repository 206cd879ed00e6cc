"""The inbox: everything that waits for a person, with the details that distinguish the items."""

from typing import Any

import pytest

from detent.errors import NotFound, Refused
from detent.kernel import commands as c
from detent.operations.installation import figures
from detent.operations.registry import Caller, Scope
from tests.operations.operations_client import OperationsClient

LEASE_S = 31


def quarantine(client: OperationsClient, **fields: Any) -> str:
    """A task whose workers are lost repeatedly, until it is quarantined."""
    made = client.submit(**fields)
    while client.task(made)["error_class"] is None:
        client.claim()
        client.later(LEASE_S)
    return made


def test_a_quarantine_differs_from_repeated_failures() -> None:
    client = OperationsClient()
    poison = quarantine(client)
    card = quarantine(client, lifecycle="board")
    for _ in range(520):
        client.submit(options={"retry": {"max_attempts": 1}})
        client.fail()
    items = client.call("inbox")["items"]
    assert len(items) == 522
    assert [each["id"] for each in items if each["error_class"] == "lost"] == [poison, card]
    assert {each["error_class"] for each in items} == {"lost", "error"}


def test_a_continued_task_shows_no_failure() -> None:
    client = OperationsClient()
    poison = quarantine(client)
    client.call("retry_task", task_id=poison)
    assert client.task(poison)["error_class"] is None
    (listed,) = client.call("list_tasks")["items"]
    assert listed["error_class"] is None


# ---- jobs without a task -----------------------------------------------------------------------


def asking(client: OperationsClient, kind: str = "question", **fields: Any) -> str:
    """A job without a task that has an open question."""
    made = str(client.call("submit_job", intent="build", **fields)["id"])
    client.suspend(kind, detail={"text": "Which way?", "options": ["left", "right"]})
    return made


def test_a_question_of_a_job_is_in_the_inbox_until_it_is_answered() -> None:
    client = OperationsClient()
    job_id = asking(client, project="ours")
    (question,) = client.call("inbox")["questions"]
    shown = {name: question[name] for name in ("job_id", "name", "kind", "project", "intent")}
    assert shown == {
        "job_id": job_id,
        "name": "question",
        "kind": "question",
        "project": "ours",
        "intent": "build",
    }
    assert question["detail"] == {"text": "Which way?", "options": ["left", "right"]}
    assert question["begun_at"].endswith("Z")
    answer = {"job_id": job_id, "question": question["name"], "answer": "left"}
    assert client.call("answer_job", **answer)["outcome"] == "answered"
    empty = {"count": 0, "snoozed": 0, "items": [], "questions": [], "refused": []}
    assert client.call("inbox") == empty


def test_a_repeated_answer_succeeds_and_a_different_one_is_refused() -> None:
    client = OperationsClient()
    job_id = asking(client)
    answers = [client.call("answer_job", job_id=job_id, answer="left")["outcome"] for _ in range(2)]
    assert answers == ["answered", "repeated"]
    with pytest.raises(Refused, match="was answered before, with 'left'") as refused:
        client.call("answer_job", job_id=job_id, answer="right")
    assert refused.value.code == "already_answered"


def test_questions_of_jobs_count_as_waiting_for_people() -> None:
    client = OperationsClient()
    for kind in ("question", "confirmation", "budget", "timer"):
        asking(client, kind)
    client.submit()
    client.suspend()
    kinds = [each["kind"] for each in client.call("inbox")["questions"]]
    assert sorted(kinds) == ["budget", "confirmation", "question"]
    found = client.call("inbox")
    assert figures(client.core).waiting_for_people == found["count"] == 4


def test_a_request_of_a_live_run_is_in_the_inbox_until_it_is_answered() -> None:
    client = OperationsClient()
    task_id = client.submit(project="ours")
    held = client.claim()
    detail = {"text": "May I?", "options": ["Allow", "Reject"]}
    client.report(c.RequestPermission(held.grant, client.run_id(held), "may-1", detail=detail))
    (question,) = client.call("inbox")["questions"]
    shown = {name: question[name] for name in ("job_id", "task_id", "name", "kind", "state")}
    assert shown == {
        "job_id": held.job.id,
        "task_id": task_id,
        "name": "may-1",
        "kind": "permission",
        "state": "running",
    }
    assert client.call("inbox", kind="question")["count"] == 1
    assert client.call("inbox", kind="review")["count"] == 0
    theirs = Caller("theirs", frozenset(Scope), project="theirs")
    assert client.call("inbox", theirs)["count"] == 0
    reasons = [each["reason"] for each in client.why(task_id)["reasons"]]
    assert reasons == ["wait:permission", "in_work"]
    answered = client.call("answer_job", job_id=held.job.id, question="may-1", answer="Allow")
    assert answered["outcome"] == "answered"
    assert client.call("inbox")["count"] == 0
    client.complete(held)
    assert client.state(task_id) == "ready"


def test_the_inbox_shows_only_the_callers_project() -> None:
    client = OperationsClient()
    asking(client, project="theirs")
    mine = asking(client, project="ours")
    ours = Caller("ours", frozenset(Scope), project="ours")
    assert [each["job_id"] for each in client.call("inbox", ours)["questions"]] == [mine]
    assert [each["job_id"] for each in client.call("inbox", project="ours")["questions"]] == [mine]
    with pytest.raises(NotFound):
        client.call("inbox", ours, project="theirs")
