"""The rules of tasks, tested through the operations that people use."""

from typing import Any

import pytest

from detent.errors import Invalid, Refused
from tests.operations.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk({"build": {}, "deploy": {"max_rounds": 1}})


# ---- priorities, projects, tags --------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"), [("high", "P0"), ("Normal", "P2"), ("low", "P3"), ("p1", "P1")]
)
def test_priorities_by_every_name(desk: Desk, given: str, kept: str) -> None:
    assert desk.task(desk.submit(priority=given))["priority"] == kept
    assert len(desk.ask("list_tasks", priority=given)["items"]) == 1


def test_the_highest_priority_is_claimed_first(desk: Desk) -> None:
    made = {name: desk.submit(priority=name) for name in ("low", "normal", "high")}
    order = [each.job.task_id for each in desk.claims(3)]
    assert order == [made["high"], made["normal"], made["low"]]


def test_a_new_priority_reorders_the_queue(desk: Desk) -> None:
    desk.submit(priority="P1")
    last = desk.submit(priority="P3")
    desk.ask("edit_task", task_id=last, priority="high")
    assert desk.claim().job.task_id == last


def test_tags_and_projects_are_found(desk: Desk) -> None:
    made = desk.submit(tags=["red", "red", "blue"], project="barn")
    desk.submit(project="barn")
    assert desk.task(made)["tags"] == ["red", "blue"]
    found = desk.ask("list_tasks", tag="red", project="barn")["items"]
    assert [each["id"] for each in found] == [made]


# ---- dependencies ----------------------------------------------------------------------------


def test_a_dependency_on_itself_or_on_a_missing_task(desk: Desk) -> None:
    for name, said in (("me", "itself"), ("missing", "no task missing")):
        with pytest.raises(Invalid, match=said):
            desk.submit(id="me", depends_on=[name])
    assert desk.head() == 0


def test_a_dependency_cycle_is_reported_with_its_path(desk: Desk) -> None:
    desk.submit(id="top")
    desk.submit(id="middle", parent_id="top")
    desk.submit(id="beside", depends_on=["top"])
    before = desk.head()
    for parent, on, path in (
        ("top", "top", "new -> top -> new"),
        ("middle", "top", "new -> top -> middle -> new"),
        ("middle", "beside", "new -> beside -> top -> middle -> new"),
    ):
        with pytest.raises(Invalid) as refused:
            desk.submit(id="new", parent_id=parent, depends_on=[on])
        assert path in refused.value.message
        assert refused.value.field == "depends_on"
    assert desk.head() == before
    desk.submit(id="sibling", parent_id="top", depends_on=["middle"])


def test_a_task_waits_for_its_dependency_and_names_it(desk: Desk) -> None:
    first = desk.submit()
    second = desk.submit(depends_on=[first])
    assert [each.job.task_id for each in desk.claims()] == [first]
    reason = desk.reasons(second)["dependency"]
    assert reason["detail"]["tasks"] == [{"id": first, "state": "running"}]
    assert (reason["cleared_by"], "300 s" in reason["looks_again"]) == (
        "the tasks that it depends on",
        True,
    )


def test_a_failed_dependency_says_what_to_run_again(desk: Desk) -> None:
    first = desk.submit(lifecycle="board", options={"retry": {"max_attempts": 1}})
    second = desk.submit(lifecycle="board", depends_on=[first])
    desk.fail()
    reason = desk.reasons(second)["dependency"]
    assert (reason["cleared_by"], reason["how"]) == ("a person", f"retry {first}, or cancel")


# ---- subtasks --------------------------------------------------------------------------------


def test_a_parent_waits_for_its_subtasks_and_names_them(desk: Desk) -> None:
    parent = desk.submit()
    top = desk.claim()
    child = desk.submit(parent_id=parent)
    desk.complete(top)
    assert desk.reasons(parent)["subtasks"]["detail"]["subtasks"] == [
        {"id": child, "state": "queued"}
    ]
    desk.fail()
    failed = desk.reasons(parent)["failed_subtask"]
    assert failed["detail"] == {"task": child, "state": "failed"}
    assert failed["how"] == f"retry or dismiss {child}"
    assert [each["command"] for each in failed["actions"]] == [
        f"detent retry {child}",
        f"detent dismiss {child}",
    ]
    desk.ask("retry_task", task_id=child)
    desk.complete()
    assert (desk.state(child), desk.state(parent)) == ("completed", "ready")


# ---- why, in the queue -----------------------------------------------------------------------


def reasons_in_queue(desk: Desk, task_id: str, **rows: Any) -> dict[str, Any]:
    desk.core.engine.within(lambda tx: tx.put_rows("limits", rows))
    return desk.reasons(task_id)


def test_why_a_queued_task_is_not_claimed(desk: Desk) -> None:
    desk.submit()
    desk.later(1)
    made = desk.submit(options={"concurrency_key": "saw"})
    assert desk.reasons(made)["no_worker"]["detail"] == {"intent": "build"}
    worker = {"w": {"intents": ["build"], "seen_at": desk.clock.now}}
    desk.core.engine.within(lambda tx: tx.put_rows("workers", worker))
    assert desk.reasons(made)["queued"]["detail"] == {"intent": "build", "ahead": 1}
    paused = reasons_in_queue(desk, made, **{"intent:build": {"paused": True}})
    assert paused["paused"]["detail"] == {"limit": "intent:build"}
    paused = reasons_in_queue(desk, made, **{"intent:build": None, "all": {"paused": True}})
    assert paused["paused"]["detail"] == {"limit": "all"}
    desk.core.engine.within(lambda tx: tx.put_rows("limits", {"all": None}))
    desk.claims(1)
    full = reasons_in_queue(desk, made, **{"intent:build": {"running": 1}})
    assert full["limit"]["detail"] == {"limit": "intent:build", "most": 1, "running": 1}


def test_why_names_a_rate_limit_or_a_concurrency_key(desk: Desk) -> None:
    worker = {"w": {"intents": ["build"], "seen_at": desk.clock.now}}
    desk.core.engine.within(lambda tx: tx.put_rows("workers", worker))
    desk.submit(options={"concurrency_key": "saw"})
    made = desk.submit(options={"concurrency_key": "saw"})
    desk.claims()
    assert desk.reasons(made)["limit"]["detail"]["limit"] == "key:saw"
    rated = desk.submit()
    rows = {"intent:build": {"rate": 1, "per_s": 60}}
    desk.core.engine.within(lambda tx: tx.put_rows("limits", rows))
    assert len(desk.claims()) == 1
    last = desk.submit()
    assert desk.claims() == []
    reason = desk.reasons(last)["rate"]
    assert reason["looks_again_at"] is not None
    assert desk.state(rated) == "running"


def test_why_tells_when_the_next_attempt_is_due(desk: Desk) -> None:
    made = desk.submit()
    desk.fail(kind="network")
    reason = desk.reasons(made)["retry"]
    assert reason["looks_again_at"] == reason["detail"]["due_at"]
    assert reason["detail"]["retries_left"] == 3


def test_running_and_ended_tasks_have_no_reasons(desk: Desk) -> None:
    made = desk.submit(lifecycle="board")
    held = desk.claim()
    assert list(desk.reasons(made)) == ["in_work"]
    desk.complete(held)
    assert desk.reasons(made) == {}


# ---- review ----------------------------------------------------------------------------------


def test_rounds_are_counted_and_capped(desk: Desk) -> None:
    made = desk.submit(intent="deploy")
    desk.complete()
    desk.ask("reject_task", task_id=made, comment="no", run=True)
    assert (desk.task(made)["rounds"], desk.task(made)["comment"]) == (1, "no")
    desk.complete()
    with pytest.raises(Refused) as refused:
        desk.ask("reject_task", task_id=made)
    assert (refused.value.code, desk.state(made)) == ("rounds_used", "ready")
    desk.ask("edit_task", task_id=made, options={"max_rounds": 2})
    desk.ask("reject_task", task_id=made)
    assert (desk.task(made)["rounds"], desk.state(made)) == (2, "pending")


def test_a_verdict_is_bound_to_what_was_seen(desk: Desk) -> None:
    made = desk.submit()
    desk.complete()
    version = desk.task(made)["version"]
    desk.ask("edit_task", task_id=made, title="other")
    with pytest.raises(Refused) as refused:
        desk.ask("accept_task", task_id=made, seen=version)
    assert refused.value.code == "version_conflict"


# ---- questions -------------------------------------------------------------------------------


def ask(desk: Desk, **more: Any) -> str:
    made = desk.submit()
    detail = {"text": "Which?", "options": ["a", "b"], **more.pop("detail", {})}
    desk.suspend("question", detail=detail, **more)
    return made


def test_only_an_option_is_an_answer(desk: Desk) -> None:
    made = ask(desk)
    with pytest.raises(Refused) as refused:
        desk.ask("answer_task", task_id=made, answer="c")
    assert (refused.value.code, refused.value.legal) == ("not_an_option", ("a", "b"))
    assert desk.task(made)["blocked_detail"]["options"] == ["a", "b"]


def test_a_second_answer_is_refused_with_the_first(desk: Desk) -> None:
    made = ask(desk)
    assert desk.ask("answer_task", task_id=made, answer="a")["outcome"] == "answered"
    assert desk.ask("answer_task", task_id=made, answer="a")["outcome"] == "repeated"
    with pytest.raises(Refused) as refused:
        desk.ask("answer_task", task_id=made, answer="b")
    assert (refused.value.code, refused.value.status) == ("already_answered", 409)
    assert refused.value.details["answer"] == "a"


@pytest.mark.parametrize("detail", [{"default": "b"}, {}])
def test_a_question_expires_with_its_default(desk: Desk, detail: dict[str, Any]) -> None:
    made = ask(desk, detail=detail, due_at=desk.clock.now + 60_000_000)
    assert desk.reasons(made)["question"]["looks_again_at"] is not None
    desk.later(61)
    assert desk.state(made) == "queued"
    wanted = {"question": "question", "answer": "b"} if detail else None
    assert desk.task(made)["answered"] == wanted


def test_cancel_and_retry_clear_an_open_question(desk: Desk) -> None:
    made = ask(desk)
    desk.ask("cancel_task", task_id=made)
    task = desk.task(made)
    assert (task["state"], task["blocked_by"], task["blocked_detail"]) == ("cancelled", None, {})
    with pytest.raises(Refused) as refused:
        desk.ask("answer_task", task_id=made, answer="a")
    assert refused.value.code == "no_question"


# ---- retry and resume ------------------------------------------------------------------------


def test_a_retry_may_bring_a_new_payload(desk: Desk) -> None:
    made = desk.submit(payload={"n": 1})
    desk.fail()
    desk.ask("retry_task", task_id=made, payload={"n": 2})
    assert desk.task(made)["payload"] == {"n": 2}
    assert desk.events(made)[-3:-1] == ["task_edited", "task_retried"]
    assert desk.claim().payload == {"n": 2}


def test_a_retry_that_is_refused_changes_no_payload(desk: Desk) -> None:
    made = desk.submit(payload={"n": 1})
    before = desk.head()
    with pytest.raises(Refused):
        desk.ask("retry_task", task_id=made, payload={"n": 2})
    assert (desk.task(made)["payload"], desk.head()) == ({"n": 1}, before)


def test_resume_is_for_what_timed_out(desk: Desk) -> None:
    made = desk.submit()
    desk.time_out()
    assert desk.state(made) == "timed_out"
    desk.ask("resume_task", task_id=made)
    assert desk.claim().job.attempt == 1


# ---- deletion --------------------------------------------------------------------------------


def test_deletion_is_refused_with_every_reason(desk: Desk) -> None:
    parent = desk.submit()
    child = desk.submit(parent_id=parent)
    other = desk.submit(depends_on=[parent])
    with pytest.raises(Refused) as refused:
        desk.ask("delete_task", task_id=parent)
    assert refused.value.details["reasons"] == [
        "it is queued",
        f"its job {parent}-j1 is queued",
        f"its subtask {child} is queued",
        f"task {other} depends on it",
    ]


def test_a_deleted_task_is_gone_with_its_subtasks(desk: Desk) -> None:
    parent = desk.submit()
    desk.submit(parent_id=parent)
    desk.ask("cancel_task", task_id=parent)
    assert desk.ask("delete_task", task_id=parent)["outcome"] == "deleted"
    assert desk.ask("list_tasks")["items"] == []


# ---- other protocols -------------------------------------------------------------------------


def test_each_task_shows_its_state_in_other_protocols(desk: Desk) -> None:
    made = desk.submit()
    assert desk.task(made)["elsewhere"]["other"] == "todo"
    desk.fail()
    assert desk.task(made)["elsewhere"] == {
        "other": "blocked",
        "mcp": "failed",
        "a2a": "TASK_STATE_FAILED",
    }
    board = desk.submit(lifecycle="board", options={"retry": {"max_attempts": 1}})
    desk.fail()
    assert desk.task(board)["elsewhere"]["other"] == "failed"


def test_the_whole_mapping_is_an_operation(desk: Desk) -> None:
    rows = desk.ask("state_mapping")["items"]
    (row,) = [row for row in rows if row["failed"] and row["reason"] == "budget"]
    assert (row["lifecycle"], row["other"], row["mcp"]) == ("board", "budget_exceeded", "failed")
    assert len([row for row in rows if row["state"] == "blocked" and not row["failed"]]) == 18
