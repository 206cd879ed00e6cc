"""The inbox: everything that waits for a person, with the details that distinguish the items."""

from typing import Any

import pytest

from detent.errors import NotFound, Refused
from detent.operations.installation import figures
from detent.operations.registry import Caller, Scope
from tests.operations.desk import Desk

LEASE_S = 31


def quarantine(desk: Desk, **fields: Any) -> str:
    """A task whose workers are lost repeatedly, until it is quarantined."""
    made = desk.submit(**fields)
    while desk.task(made)["error_class"] is None:
        desk.claim()
        desk.later(LEASE_S)
    return made


def test_a_quarantine_differs_from_repeated_failures() -> None:
    desk = Desk()
    poison = quarantine(desk)
    card = quarantine(desk, lifecycle="board")
    for _ in range(520):
        desk.submit(options={"retry": {"max_attempts": 1}})
        desk.fail()
    items = desk.ask("inbox")["items"]
    assert len(items) == 522
    assert [each["id"] for each in items if each["error_class"] == "lost"] == [poison, card]
    assert {each["error_class"] for each in items} == {"lost", "error"}


def test_a_continued_task_shows_no_failure() -> None:
    desk = Desk()
    poison = quarantine(desk)
    desk.ask("retry_task", task_id=poison)
    assert desk.task(poison)["error_class"] is None
    (listed,) = desk.ask("list_tasks")["items"]
    assert listed["error_class"] is None


# ---- jobs without a task -----------------------------------------------------------------------


def asking(desk: Desk, kind: str = "question", **fields: Any) -> str:
    """A job without a task that has an open question."""
    made = str(desk.ask("submit_job", intent="build", **fields)["id"])
    desk.suspend(kind, detail={"text": "Which way?", "options": ["left", "right"]})
    return made


def test_a_question_of_a_job_is_in_the_inbox_until_it_is_answered() -> None:
    desk = Desk()
    job_id = asking(desk, project="ours")
    (question,) = desk.ask("inbox")["questions"]
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
    assert desk.ask("answer_job", **answer)["outcome"] == "answered"
    assert desk.ask("inbox") == {"items": [], "questions": [], "refused": []}


def test_a_repeated_answer_succeeds_and_a_different_one_is_refused() -> None:
    desk = Desk()
    job_id = asking(desk)
    answers = [desk.ask("answer_job", job_id=job_id, answer="left")["outcome"] for _ in range(2)]
    assert answers == ["answered", "repeated"]
    with pytest.raises(Refused, match="was answered before, with 'left'") as refused:
        desk.ask("answer_job", job_id=job_id, answer="right")
    assert refused.value.code == "already_answered"


def test_questions_of_jobs_count_as_waiting_for_people() -> None:
    desk = Desk()
    for kind in ("question", "confirmation", "budget", "timer"):
        asking(desk, kind)
    desk.submit()
    desk.suspend()
    kinds = [each["kind"] for each in desk.ask("inbox")["questions"]]
    assert sorted(kinds) == ["budget", "confirmation", "question"]
    assert figures(desk.core).waiting_for_people == 3  # a spent budget is not counted, as for tasks


def test_the_inbox_shows_only_the_callers_project() -> None:
    desk = Desk()
    asking(desk, project="theirs")
    mine = asking(desk, project="ours")
    ours = Caller("ours", frozenset(Scope), project="ours")
    assert [each["job_id"] for each in desk.ask("inbox", ours)["questions"]] == [mine]
    assert [each["job_id"] for each in desk.ask("inbox", project="ours")["questions"]] == [mine]
    with pytest.raises(NotFound):
        desk.ask("inbox", ours, project="theirs")
