"""The rules of tasks, tested through the operations that people use."""

from typing import Any

import pytest

from detent.errors import Invalid, Refused
from detent.kernel.commands import Actor
from detent.kernel.commands import limit_commands as lc
from detent.views import utc
from tests.operations.operations_client import OperationsClient


@pytest.fixture
def client() -> OperationsClient:
    return OperationsClient({"build": {}, "deploy": {"max_rounds": 1}})


# ---- priorities, projects, tags --------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "kept"), [("high", "P0"), ("Normal", "P2"), ("low", "P3"), ("p1", "P1")]
)
def test_priorities_by_every_name(client: OperationsClient, given: str, kept: str) -> None:
    assert client.task(client.submit(priority=given))["priority"] == kept
    assert len(client.call("list_tasks", priority=given)["items"]) == 1


def test_the_highest_priority_is_claimed_first(client: OperationsClient) -> None:
    made = {name: client.submit(priority=name) for name in ("low", "normal", "high")}
    order = [each.job.task_id for each in client.claims(3)]
    assert order == [made["high"], made["normal"], made["low"]]


def test_a_new_priority_reorders_the_queue(client: OperationsClient) -> None:
    client.submit(priority="P1")
    last = client.submit(priority="P3")
    client.call("edit_task", task_id=last, priority="high")
    assert client.claim().job.task_id == last


def test_tags_and_projects_are_found(client: OperationsClient) -> None:
    made = client.submit(tags=["red", "red", "blue"], project="barn")
    client.submit(project="barn")
    assert client.task(made)["tags"] == ["red", "blue"]
    found = client.call("list_tasks", tag="red", project="barn")["items"]
    assert [each["id"] for each in found] == [made]


# ---- dependencies ----------------------------------------------------------------------------


def test_a_dependency_on_itself_or_on_a_missing_task(client: OperationsClient) -> None:
    for name, message in (("me", "itself"), ("missing", "no task missing")):
        with pytest.raises(Invalid, match=message):
            client.submit(id="me", depends_on=[name])
    assert client.head() == 0


def test_a_dependency_cycle_is_reported_with_its_path(client: OperationsClient) -> None:
    client.submit(id="top")
    client.submit(id="middle", parent_id="top")
    client.submit(id="beside", depends_on=["top"])
    before = client.head()
    for parent, on, path in (
        ("top", "top", "new -> top -> new"),
        ("middle", "top", "new -> top -> middle -> new"),
        ("middle", "beside", "new -> beside -> top -> middle -> new"),
    ):
        with pytest.raises(Invalid) as refused:
            client.submit(id="new", parent_id=parent, depends_on=[on])
        assert path in refused.value.message
        assert refused.value.field == "depends_on"
    assert client.head() == before
    client.submit(id="sibling", parent_id="top", depends_on=["middle"])


def test_a_task_waits_for_its_dependency_and_names_it(client: OperationsClient) -> None:
    first = client.submit()
    second = client.submit(depends_on=[first])
    assert [each.job.task_id for each in client.claims()] == [first]
    reason = client.reasons(second)["dependency"]
    assert reason["detail"]["tasks"] == [{"id": first, "state": "running"}]
    assert (reason["cleared_by"], "300 s" in reason["looks_again"]) == (
        "the tasks that it depends on",
        True,
    )


def test_a_failed_dependency_says_what_to_run_again(client: OperationsClient) -> None:
    first = client.submit(lifecycle="board", options={"retry": {"max_attempts": 1}})
    second = client.submit(lifecycle="board", depends_on=[first])
    client.fail()
    reason = client.reasons(second)["dependency"]
    assert (reason["cleared_by"], reason["how"]) == ("a person", f"retry {first}, or cancel")


# ---- subtasks --------------------------------------------------------------------------------


def test_a_parent_waits_for_its_subtasks_and_names_them(client: OperationsClient) -> None:
    parent = client.submit()
    top = client.claim()
    child = client.submit(parent_id=parent)
    client.complete(top)
    assert client.reasons(parent)["subtasks"]["detail"]["subtasks"] == [
        {"id": child, "state": "queued"}
    ]
    client.fail()
    failed = client.reasons(parent)["failed_subtask"]
    assert failed["detail"] == {"task": child, "state": "failed"}
    assert failed["how"] == f"retry or dismiss {child}"
    assert [each["command"] for each in failed["actions"]] == [
        f"detent retry {child}",
        f"detent dismiss {child}",
    ]
    client.call("retry_task", task_id=child)
    client.complete()
    assert (client.state(child), client.state(parent)) == ("completed", "ready")


# ---- why, in the queue -----------------------------------------------------------------------


def reasons_in_queue(
    client: OperationsClient, task_id: str, *commands: lc.LimitCommand
) -> dict[str, Any]:
    for command in commands:
        client.core.engine.do(command, Actor("anna"))
    return client.reasons(task_id)


def test_why_a_queued_task_is_not_claimed(client: OperationsClient) -> None:
    client.submit()
    client.later(1)
    made = client.submit(options={"concurrency_key": "saw"})
    assert client.reasons(made)["no_worker"]["detail"] == {"intent": "build"}
    worker = {"w": {"intents": ["build"], "seen_at": client.clock.now}}
    client.core.engine.transaction(lambda tx: tx.put_rows("workers", worker))
    assert client.reasons(made)["queued"]["detail"] == {"intent": "build", "ahead": 1}
    paused = reasons_in_queue(client, made, lc.SetPause("intent:build", "no wood"))
    pause = {"paused_by": "anna", "paused_at": utc(client.clock.now), "reason": "no wood"}
    assert paused["paused"]["detail"] == {"limit": "intent:build", **pause}
    paused = reasons_in_queue(
        client, made, lc.EndPause("intent:build"), lc.SetPause("all", for_us=60_000_000)
    )
    until = utc(client.clock.now + 60_000_000)
    assert (paused["paused"]["detail"]["limit"], paused["paused"]["looks_again_at"]) == (
        "all",
        until,
    )
    paused = reasons_in_queue(client, made, lc.EndPause("all"), lc.SetPause("all", in_file=True))
    assert paused["paused"]["detail"]["paused_by"] == "config"
    reasons_in_queue(client, made, lc.EndPause("all"))
    client.claims(1)
    full = reasons_in_queue(client, made, lc.SetLimit("intent:build", running=1))
    assert full["limit"]["detail"] == {"limit": "intent:build", "max": 1, "running": 1}


def test_why_names_a_rate_limit_or_a_concurrency_key(client: OperationsClient) -> None:
    worker = {"w": {"intents": ["build"], "seen_at": client.clock.now}}
    client.core.engine.transaction(lambda tx: tx.put_rows("workers", worker))
    client.submit(options={"concurrency_key": "saw"})
    made = client.submit(options={"concurrency_key": "saw"})
    client.claims()
    assert client.reasons(made)["limit"]["detail"]["limit"] == "key:saw"
    rated = client.submit()
    client.core.engine.do(lc.SetLimit("intent:build", rate=1, per_s=60), Actor("anna"))
    assert len(client.claims()) == 1
    last = client.submit()
    assert client.claims() == []
    reason = client.reasons(last)["rate"]
    assert reason["looks_again_at"] is not None
    assert client.state(rated) == "running"


def test_why_tells_when_the_next_attempt_is_due(client: OperationsClient) -> None:
    made = client.submit()
    client.fail(kind="network")
    reason = client.reasons(made)["retry"]
    assert reason["looks_again_at"] == reason["detail"]["due_at"]
    assert reason["detail"]["retries_left"] == 3


def test_running_and_ended_tasks_have_no_reasons(client: OperationsClient) -> None:
    made = client.submit(lifecycle="board")
    held = client.claim()
    assert list(client.reasons(made)) == ["in_work"]
    client.complete(held)
    assert client.reasons(made) == {}


# ---- review ----------------------------------------------------------------------------------


def test_rounds_are_counted_and_capped(client: OperationsClient) -> None:
    made = client.submit(intent="deploy")
    client.complete()
    client.call("reject_task", task_id=made, comment="no", run=True)
    assert (client.task(made)["rounds"], client.task(made)["comment"]) == (1, "no")
    client.complete()
    with pytest.raises(Refused) as refused:
        client.call("reject_task", task_id=made)
    assert (refused.value.code, client.state(made)) == ("rounds_used", "ready")
    client.call("edit_task", task_id=made, options={"max_rounds": 2})
    client.call("reject_task", task_id=made)
    assert (client.task(made)["rounds"], client.state(made)) == (2, "pending")


def test_a_verdict_is_bound_to_what_was_seen(client: OperationsClient) -> None:
    made = client.submit()
    client.complete()
    version = client.task(made)["version"]
    client.call("edit_task", task_id=made, title="other")
    with pytest.raises(Refused) as refused:
        client.call("accept_task", task_id=made, seen=version)
    assert refused.value.code == "version_conflict"


# ---- questions -------------------------------------------------------------------------------


def ask(client: OperationsClient, **more: Any) -> str:
    made = client.submit()
    detail = {"text": "Which?", "options": ["a", "b"], **more.pop("detail", {})}
    client.suspend("question", detail=detail, **more)
    return made


def test_only_an_option_is_an_answer(client: OperationsClient) -> None:
    made = ask(client)
    with pytest.raises(Refused) as refused:
        client.call("answer_task", task_id=made, answer="c")
    assert (refused.value.code, refused.value.legal) == ("not_an_option", ("a", "b"))
    assert "Its options are: a, b." in refused.value.message
    assert client.task(made)["blocked_detail"]["options"] == ["a", "b"]


def test_own_words_are_an_answer_where_the_asker_allows_them(client: OperationsClient) -> None:
    made = ask(client, detail={"other": True})
    assert client.call("answer_task", task_id=made, answer="neither")["outcome"] == "answered"
    assert client.task(made)["answered"]["answer"] == "neither"


def test_a_second_answer_is_refused_with_the_first(client: OperationsClient) -> None:
    made = ask(client)
    assert client.call("answer_task", task_id=made, answer="a")["outcome"] == "answered"
    assert client.call("answer_task", task_id=made, answer="a")["outcome"] == "repeated"
    with pytest.raises(Refused) as refused:
        client.call("answer_task", task_id=made, answer="b")
    assert (refused.value.code, refused.value.status) == ("already_answered", 409)
    assert refused.value.details["answer"] == "a"


def test_an_answer_to_a_named_question_reaches_no_other(client: OperationsClient) -> None:
    made = ask(client)
    named: dict[str, Any] = {"task_id": made, "question": "question"}
    assert client.call("answer_task", **named, answer="a")["outcome"] == "answered"
    client.suspend("confirmation", detail={"text": "Sure?", "options": ["a", "b"]})
    for late, code in ((named, "already_answered"), ({**named, "question": "x"}, "no_question")):
        with pytest.raises(Refused) as refused:
            client.call("answer_task", **late, answer="b")
        assert refused.value.code == code
        assert client.task(made)["blocked_detail"]["wait"] == "confirmation"
    named["question"] = "confirmation"
    assert client.call("answer_task", **named, answer="b")["outcome"] == "answered"


@pytest.mark.parametrize("detail", [{"default": "b"}, {}])
def test_a_question_expires_with_its_default(
    client: OperationsClient, detail: dict[str, Any]
) -> None:
    made = ask(client, detail=detail, due_at=client.clock.now + 60_000_000)
    assert client.reasons(made)["question"]["looks_again_at"] is not None
    client.later(61)
    assert client.state(made) == "queued"
    wanted = {"question": "question", "answer": "b"} if detail else None
    assert client.task(made)["answered"] == wanted


def test_cancel_and_retry_clear_an_open_question(client: OperationsClient) -> None:
    made = ask(client)
    client.call("cancel_task", task_id=made)
    task = client.task(made)
    assert (task["state"], task["blocked_by"], task["blocked_detail"]) == ("cancelled", None, {})
    with pytest.raises(Refused) as refused:
        client.call("answer_task", task_id=made, answer="a")
    assert refused.value.code == "no_question"


# ---- retry and resume ------------------------------------------------------------------------


def test_a_retry_may_bring_a_new_payload(client: OperationsClient) -> None:
    made = client.submit(payload={"n": 1})
    client.fail()
    client.call("retry_task", task_id=made, payload={"n": 2})
    assert client.task(made)["payload"] == {"n": 2}
    assert client.events(made)[-3:-1] == ["task_edited", "task_retried"]
    assert client.claim().payload == {"n": 2}


def test_a_retry_with_a_new_budget_is_one_transaction() -> None:
    client = OperationsClient()
    made = client.submit(max_budget_usd=1, options={"retry": {"max_attempts": 1}})
    held = client.claim()
    client.charge(held, 0.5)
    client.fail(held)
    assert client.state(made) == "failed"
    head = client.head()
    with pytest.raises(Refused) as refused:
        client.call("retry_task", task_id=made, payload={"n": 1}, max_budget_usd=0.25)
    assert refused.value.code == "budget_too_small"
    assert client.head() == head, "neither the payload nor the state has changed"
    client.call("retry_task", task_id=made, payload={"n": 1}, max_budget_usd=3)
    task = client.task(made)
    assert (task["state"], task["payload"], task["budget"]) == ("queued", {"n": 1}, 3.0)


def test_a_task_that_waits_for_budget_continues_once_by_a_retry_with_a_new_one() -> None:
    client = OperationsClient()
    made = client.submit(max_budget_usd=1, options={"on_budget_exceeded": "ask"})
    held = client.claim()
    client.charge(held, 1)
    client.suspend("budget", held)
    assert client.task(made)["blocked_by"] == "budget"
    client.call("retry_task", task_id=made, max_budget_usd=2)
    assert client.state(made) == "queued"
    assert client.events(made).count("budget_raised") == 1


def test_a_retry_that_is_refused_changes_no_payload(client: OperationsClient) -> None:
    made = client.submit(payload={"n": 1})
    before = client.head()
    with pytest.raises(Refused):
        client.call("retry_task", task_id=made, payload={"n": 2})
    assert (client.task(made)["payload"], client.head()) == ({"n": 1}, before)


def test_resume_is_for_what_timed_out(client: OperationsClient) -> None:
    made = client.submit()
    client.time_out()
    assert client.state(made) == "timed_out"
    client.call("resume_task", task_id=made)
    assert client.claim().job.attempt == 1


# ---- deletion --------------------------------------------------------------------------------


def test_deletion_is_refused_with_every_reason(client: OperationsClient) -> None:
    parent = client.submit()
    child = client.submit(parent_id=parent)
    other = client.submit(depends_on=[parent])
    with pytest.raises(Refused) as refused:
        client.call("delete_task", task_id=parent)
    assert refused.value.details["reasons"] == [
        "it is queued",
        f"its job {parent}-j1 is queued",
        f"its subtask {child} is queued",
        f"task {other} depends on it",
    ]


def test_a_deleted_task_is_gone_with_its_subtasks(client: OperationsClient) -> None:
    parent = client.submit()
    client.submit(parent_id=parent)
    client.call("cancel_task", task_id=parent)
    assert client.call("delete_task", task_id=parent)["outcome"] == "deleted"
    assert client.call("list_tasks")["items"] == []


# ---- other protocols -------------------------------------------------------------------------


def test_each_task_shows_its_state_in_other_protocols(client: OperationsClient) -> None:
    made = client.submit()
    assert client.task(made)["elsewhere"]["other"] == "todo"
    client.fail()
    assert client.task(made)["elsewhere"] == {
        "other": "blocked",
        "mcp": "failed",
        "a2a": "TASK_STATE_FAILED",
    }
    board = client.submit(lifecycle="board", options={"retry": {"max_attempts": 1}})
    client.fail()
    assert client.task(board)["elsewhere"]["other"] == "failed"


def test_the_whole_mapping_is_an_operation(client: OperationsClient) -> None:
    rows = client.call("state_mapping")["items"]
    (row,) = [row for row in rows if row["failed"] and row["reason"] == "budget"]
    assert (row["lifecycle"], row["other"], row["mcp"]) == ("board", "budget_exceeded", "failed")
    assert len([row for row in rows if row["state"] == "blocked" and not row["failed"]]) == 18
