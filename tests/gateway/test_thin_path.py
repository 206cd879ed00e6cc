"""The way of a task through HTTP: added, worked on, asked about, judged."""

from typing import NoReturn

import httpx2
import pytest

from detent.errors import DetentError, Misconfigured, StoreUnavailable, Unavailable
from detent.gateway import application
from detent.operations.registry import Scope
from tests.gateway.installation import Installation


def added(owner: httpx2.Client, **fields: object) -> str:
    body = {"source": "cloudcode", "intent": "runQA", "payload": {}, **fields}
    answer = owner.post("/add", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["taskId"])


def submitted(owner: httpx2.Client, **fields: object) -> str:
    answer = owner.post("/api/tasks", json={"intent": "runQA", **fields})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def state(owner: httpx2.Client, task_id: str) -> str:
    return str(owner.get(f"/api/tasks/{task_id}").json()["state"])


def names(owner: httpx2.Client, task_id: str) -> list[str]:
    """The names of a task's own events."""
    events = owner.get(f"/api/tasks/{task_id}/events").json()["events"]
    return [event["name"] for event in events if event["stream"] == task_id]


# ---- /add, /enqueue --------------------------------------------------------------------------


def test_add_creates_a_board_task_and_queues_it_in_one_go(owner: httpx2.Client) -> None:
    answer = owner.post(
        "/add",
        json={
            "source": "cloudcode",
            "intent": "runQA",
            "priority": "P0",
            "payload": {"project": "cecelia-quality"},
        },
    )
    assert answer.status_code == 201
    made = answer.json()
    task = owner.get(f"/api/tasks/{made['taskId']}").json()
    assert (made["status"], made["repeated"]) == ("todo", False)
    assert (task["lifecycle"], task["state"], task["priority"]) == ("board", "todo", "P0")
    assert (task["project"], task["payload"]) == (
        "cecelia-quality",
        {"project": "cecelia-quality"},
    )
    assert names(owner, task["id"]) == ["task_created", "task_queued"]


def test_add_has_defaults_for_priority_and_payload(owner: httpx2.Client) -> None:
    made = owner.post("/add", json={"source": "chat", "intent": "review"})
    task = owner.get(f"/api/tasks/{made.json()['taskId']}").json()
    assert (task["priority"], task["payload"], task["project"]) == ("P2", {}, "default")
    assert task["created_at"].endswith("Z")


ENQUEUED = {"source": "n8n", "intent": "runQA", "priority": "P1", "payload": {"a": 1}}


def test_enqueue_takes_the_callers_id(owner: httpx2.Client) -> None:
    answer = owner.post("/enqueue", json={"taskId": "mine-1", **ENQUEUED})
    assert (answer.status_code, answer.json()["status"]) == (200, "todo")
    assert state(owner, "mine-1") == "todo"


def test_enqueue_again_with_the_same_body_changes_nothing(
    gateway: Installation, owner: httpx2.Client
) -> None:
    owner.post("/enqueue", json={"taskId": "mine-2", **ENQUEUED})
    before = gateway.head()
    answer = owner.post("/enqueue", json={"taskId": "mine-2", **ENQUEUED})
    assert answer.json() == {"taskId": "mine-2", "status": "todo", "repeated": True}
    assert gateway.head() == before


def test_enqueue_again_with_another_body_is_a_conflict(
    gateway: Installation, owner: httpx2.Client
) -> None:
    owner.post("/enqueue", json={"taskId": "mine-3", **ENQUEUED})
    before = gateway.head()
    answer = owner.post("/enqueue", json={"taskId": "mine-3", **ENQUEUED, "priority": "P3"})
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency_conflict")
    assert gateway.head() == before


def test_enqueue_queues_a_known_task_in_the_inbox(owner: httpx2.Client) -> None:
    submitted(owner, id="mine-4", lifecycle="board")
    assert state(owner, "mine-4") == "inbox"
    answer = owner.post("/enqueue", json={"taskId": "mine-4", **ENQUEUED})
    assert (answer.status_code, answer.json()["status"]) == (200, "todo")
    assert names(owner, "mine-4") == ["task_created", "task_queued"]


def test_enqueue_unblocks_a_known_blocked_task(gateway: Installation, owner: httpx2.Client) -> None:
    owner.post("/enqueue", json={"taskId": "mine-5", **ENQUEUED})
    gateway.fail("mine-5")
    assert state(owner, "mine-5") == "blocked"
    answer = owner.post("/enqueue", json={"taskId": "mine-5", **ENQUEUED})
    assert (answer.status_code, answer.json()["status"]) == (200, "todo")
    assert names(owner, "mine-5")[-1] == "task_unblocked"


@pytest.mark.parametrize("missing", ["taskId", "source", "intent", "priority", "payload"])
def test_enqueue_wants_every_field(
    gateway: Installation, owner: httpx2.Client, missing: str
) -> None:
    body = {"taskId": "mine-6", **ENQUEUED}
    del body[missing]
    before = gateway.head()
    answer = owner.post("/enqueue", json=body)
    assert (answer.status_code, answer.json()["field"]) == (422, missing)
    assert gateway.head() == before


def test_status_counts_the_queue_by_priority(gateway: Installation, owner: httpx2.Client) -> None:
    before = owner.get("/status").json()
    added(owner, priority="P0")
    added(owner, priority="low")
    owner.post("/api/jobs", json={"intent": "runQA", "priority": "P0"})
    after = owner.get("/status").json()
    assert after["queueLength"] == before["queueLength"] + 3
    assert after["byPriority"]["P0"] == before["byPriority"]["P0"] + 2
    assert after["byPriority"]["P3"] == before["byPriority"]["P3"] + 1


def test_health_and_ready_are_open_and_say_one_word(gateway: Installation) -> None:
    anonymous = gateway.client(None)
    health, ready = anonymous.get("/health"), anonymous.get("/ready")
    assert (health.status_code, set(health.json())) == (200, {"status"})
    assert health.json()["status"] in ("ok", "degraded", "unhealthy")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready"})


def test_ready_does_not_show_the_error_of_the_store(
    gateway: Installation, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse() -> NoReturn:
        raise Unavailable("no route to 10.0.0.7", retry_after_s=5)

    monkeypatch.setattr(gateway.core.store, "write", refuse)
    monkeypatch.setattr(application, "CHECK_S", 0.0)
    response = gateway.client(None).get("/ready")
    assert (response.status_code, response.json()["code"]) == (503, "unavailable")
    assert "10.0.0.7" not in response.text
    assert "no route to 10.0.0.7" in caplog.text


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (StoreUnavailable("no route to 10.0.0.7", retry_after_s=5), 503, "unavailable"),
        (Misconfigured("10.0.0.7: a privilege", setting="store"), 500, "misconfigured"),
    ],
)
def test_a_request_with_a_wrong_token_does_not_see_the_address_of_the_store(
    gateway: Installation,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: DetentError,
    status: int,
    code: str,
) -> None:
    def refuse() -> NoReturn:
        raise error

    monkeypatch.setattr(gateway.core.store, "read", refuse)
    response = gateway.client("detent_wrong").get("/api/tasks")
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response.headers.get("Retry-After") == ("5" if status == 503 else None)
    assert "10.0.0.7" not in response.text
    assert "10.0.0.7" in caplog.text


def test_the_reasons_of_the_health_need_authentication(owner: httpx2.Client) -> None:
    verdict = owner.get("/api/health").json()
    assert {reason["figure"] for reason in verdict["reasons"]} == {
        "success_rate",
        "queue",
        "blocked",
    }


def test_a_board_task_goes_its_whole_way(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = added(owner)
    gateway.complete(task_id, {"passed": 3})
    assert names(owner, task_id) == [
        "task_created",
        "task_queued",
        "task_started",
        "task_completed",
    ]
    assert state(owner, task_id) == "done"
    jobs = owner.get(f"/api/tasks/{task_id}/jobs").json()["items"]
    assert [job["result"] for job in jobs] == [{"passed": 3}]


# ---- /api/tasks ------------------------------------------------------------------------------


def test_a_review_task_stays_pending_until_it_is_run(owner: httpx2.Client) -> None:
    task_id = submitted(owner, title="Look", tags=["a", "b"], max_budget_usd=2.50)
    task = owner.get(f"/api/tasks/{task_id}").json()
    assert (task["lifecycle"], task["state"], task["tags"]) == ("review", "pending", ["a", "b"])
    assert (task["title"], task["budget"]) == ("Look", 2.5)
    run = owner.post(f"/api/tasks/{task_id}/run").json()
    assert (run["id"], run["state"]) == (task_id, "queued")


def test_question_answer_ready_and_accept(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = submitted(owner, run=True)
    gateway.ask(task_id, "Which colour?", ["red", "blue"])
    inbox = owner.get("/api/inbox").json()["items"]
    assert [row["blocked_by"] for row in inbox if row["id"] == task_id] == ["question"]
    wrong = owner.post(f"/api/tasks/{task_id}/answer", json={"answer": "green"})
    assert (wrong.status_code, wrong.json()["legal"]) == (409, ["red", "blue"])
    assert owner.post(f"/api/tasks/{task_id}/answer", json={"answer": "red"}).status_code == 200
    gateway.complete(task_id)
    assert state(owner, task_id) == "ready"
    accepted = owner.post(f"/api/tasks/{task_id}/accept", json={"comment": "good"})
    assert accepted.json()["state"] == "completed"


def test_reject_returns_it_with_the_comment(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = submitted(owner, run=True)
    gateway.complete(task_id)
    answer = owner.post(f"/api/tasks/{task_id}/reject", json={"comment": "too short"})
    assert answer.json()["state"] == "pending"
    task = owner.get(f"/api/tasks/{task_id}").json()
    assert (task["comment"], task["rounds"]) == ("too short", 1)


def test_a_second_different_answer_gets_the_first(
    gateway: Installation, owner: httpx2.Client
) -> None:
    task_id = submitted(owner, run=True)
    gateway.ask(task_id, "Go on?")
    path = f"/api/tasks/{task_id}/answer"
    assert owner.post(path, json={"answer": "yes"}).json()["outcome"] == "answered"
    assert owner.post(path, json={"answer": "yes"}).json()["outcome"] == "repeated"
    other = owner.post(path, json={"answer": "no"})
    assert (other.status_code, other.json()["answer"]) == (409, "yes")


def test_cancel_patch_retry_and_delete(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = submitted(owner, run=True)
    refused = owner.delete(f"/api/tasks/{task_id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "still_needed")
    assert any("queued" in reason for reason in refused.json()["reasons"])
    edited = owner.patch(f"/api/tasks/{task_id}", json={"title": "New", "priority": "high"})
    assert edited.status_code == 200
    task = owner.get(f"/api/tasks/{task_id}").json()
    assert (task["title"], task["priority"]) == ("New", "P0")
    gateway.fail(task_id)
    assert owner.post(f"/api/tasks/{task_id}/retry").json()["state"] == "queued"
    cancelled = owner.post(f"/api/tasks/{task_id}/cancel", json={"reason": "enough"})
    assert (cancelled.json()["state"], cancelled.json()["outcome"]) == ("cancelled", "cancelled")
    assert owner.delete(f"/api/tasks/{task_id}").json() == {"id": task_id, "outcome": "deleted"}
    assert owner.get(f"/api/tasks/{task_id}").status_code == 404


def test_an_illegal_verb_names_the_legal_ones_and_changes_nothing(
    gateway: Installation, owner: httpx2.Client
) -> None:
    task_id = submitted(owner)
    before = gateway.head()
    answer = owner.post(f"/api/tasks/{task_id}/accept")
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "illegal_transition")
    assert set(problem["legal"]) == {"task_queued", "task_cancelled"}
    assert gateway.head() == before


def test_subtasks_belong_to_the_parents_project(
    gateway: Installation, owner: httpx2.Client
) -> None:
    parent = submitted(owner, project="alpha")
    child = submitted(owner, parent_id=parent)
    items = owner.get(f"/api/tasks/{parent}/subtasks").json()["items"]
    assert [(row["id"], row["project"], row["state"]) for row in items] == [
        (child, "alpha", "queued")
    ]
    before = gateway.head()
    elsewhere = owner.post(
        "/api/tasks", json={"intent": "runQA", "parent_id": parent, "project": "beta"}
    )
    assert (elsewhere.status_code, elsewhere.json()["field"]) == (422, "project")
    assert gateway.head() == before


# ---- versions --------------------------------------------------------------------------------


def test_a_task_carries_its_version_as_its_entity_tag(owner: httpx2.Client) -> None:
    task_id = submitted(owner)
    first = owner.get(f"/api/tasks/{task_id}")
    tag = first.headers["ETag"]
    assert tag == f'"{first.json()["version"]}"'
    again = owner.get(f"/api/tasks/{task_id}", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    moved = owner.post(f"/api/tasks/{task_id}/run")
    assert moved.headers["ETag"] == owner.get(f"/api/tasks/{task_id}").headers["ETag"] != tag


def test_a_verdict_is_bound_to_what_was_reviewed(
    gateway: Installation, owner: httpx2.Client
) -> None:
    task_id = submitted(owner, run=True)
    gateway.complete(task_id)
    tag = owner.get(f"/api/tasks/{task_id}").headers["ETag"]
    owner.patch(f"/api/tasks/{task_id}", json={"title": "Moved on"})
    path, before = f"/api/tasks/{task_id}/accept", gateway.head()
    stale = owner.post(path, headers={"If-Match": tag})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    seen = owner.post(path, json={"seen": int(tag.strip('"'))})
    assert (seen.status_code, seen.json()["code"]) == (409, "version_conflict")
    assert gateway.head() == before
    fresh = owner.get(f"/api/tasks/{task_id}").headers["ETag"]
    assert owner.post(path, headers={"If-Match": fresh}).status_code == 200


@pytest.mark.parametrize("tag", ["7", 'W/"7"', '"a"', '"1", "2"', '""', '"' + "9" * 30 + '"'])
def test_an_entity_tag_that_is_not_ours_is_refused(owner: httpx2.Client, tag: str) -> None:
    task_id = submitted(owner)
    answer = owner.post(f"/api/tasks/{task_id}/accept", headers={"If-Match": tag})
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")


def test_if_match_is_not_silently_ignored_elsewhere(owner: httpx2.Client) -> None:
    task_id = submitted(owner)
    answer = owner.post(f"/api/tasks/{task_id}/run", headers={"If-Match": '"1"'})
    assert (answer.status_code, answer.json()["field"]) == (422, "If-Match")
    assert state(owner, task_id) == "pending"


# ---- idempotency -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/add", {"source": "api", "intent": "runQA"}, "taskId"),
        ("/api/tasks", {"intent": "runQA", "payload": {"n": 1}}, "id"),
        ("/api/jobs", {"intent": "runQA"}, "id"),
    ],
)
def test_one_key_makes_one_thing(
    gateway: Installation, owner: httpx2.Client, path: str, body: dict[str, object], field: str
) -> None:
    headers = {"Idempotency-Key": f"key of {path}"}
    first = owner.post(path, json=body, headers=headers)
    before = gateway.head()
    again = owner.post(path, json=body, headers=headers)
    in_body = owner.post(path, json={**body, "idempotency_key": f"key of {path}"})
    assert first.status_code == again.status_code == in_body.status_code == 201
    assert first.json()[field] == again.json()[field] == in_body.json()[field]
    assert (first.json()["repeated"], again.json()["repeated"]) == (False, True)
    other = owner.post(path, json={**body, "priority": "P0"}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert gateway.head() == before


def test_a_repeated_add_reports_the_current_state_of_the_task(
    gateway: Installation, owner: httpx2.Client
) -> None:
    headers = {"Idempotency-Key": "add and see"}
    body = {"source": "api", "intent": "runQA"}
    task_id = owner.post("/add", json=body, headers=headers).json()["taskId"]
    gateway.complete(task_id)
    assert owner.post("/add", json=body, headers=headers).json()["status"] == "done"


def test_header_and_field_must_name_the_same_key(owner: httpx2.Client) -> None:
    answer = owner.post(
        "/api/tasks",
        json={"intent": "runQA", "idempotency_key": "one"},
        headers={"Idempotency-Key": "two"},
    )
    assert (answer.status_code, answer.json()["field"]) == (409, "Idempotency-Key")


@pytest.mark.parametrize("key", ["", "k" * 1_000])
def test_the_error_for_a_wrong_key_names_the_header(owner: httpx2.Client, key: str) -> None:
    headers = {"Idempotency-Key": key}
    answer = owner.post("/api/tasks", json={"intent": "runQA"}, headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")
    assert answer.json()["detail"].startswith("Idempotency-Key must have 1 to ")


def test_the_log_names_who_asked(gateway: Installation, owner: httpx2.Client) -> None:
    token = gateway.token_for(Scope.SUBMIT)
    task_id = submitted(gateway.client(token))
    event = owner.get(f"/api/tasks/{task_id}/events").json()["events"][0]
    assert event["actor"].startswith("tester-")


def test_the_id_of_a_deleted_task_stays_taken(gateway: Installation, owner: httpx2.Client) -> None:
    body = {"source": "api", "intent": "runQA", "priority": "P2", "payload": {}, "taskId": "once"}
    owner.post("/enqueue", json=body)
    owner.post("/api/tasks/once/cancel")
    assert owner.delete("/api/tasks/once").status_code == 200
    before = gateway.head()
    again = [
        owner.post("/enqueue", json=body),
        owner.post("/api/tasks", json={"intent": "runQA", "id": "once"}),
    ]
    assert [(each.status_code, each.json()["code"]) for each in again] == [(409, "task_exists")] * 2
    assert "deleted" in again[0].json()["detail"]
    assert gateway.head() == before
