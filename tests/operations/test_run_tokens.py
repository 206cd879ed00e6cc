"""The token of a run: what it may do, what it is bound to, and when it becomes invalid."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from detent import redaction
from detent.errors import Refused
from detent.kernel import commands as c
from detent.operations import OPERATIONS
from detent.operations.run_reports import recorded_question
from detent.operations.run_tokens import issue_run_token
from tests.gateway.installation import Installation, installed
from tests.operations.agent import Agent, at_work, submitted


def problem(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


# ---- the token -------------------------------------------------------------------------------


def test_the_store_keeps_a_digest_and_what_it_is_bound_to(
    gateway: Installation, owner: httpx2.Client
) -> None:
    agent = at_work(gateway, owner, project="p1")
    with gateway.core.store.read() as view:
        rows = view.rows("tokens")
    assert agent.token not in json.dumps({**rows})
    row = rows[hashlib.sha256(agent.token.encode()).hexdigest()]
    assert row["scopes"] == ["run"]
    assert (row["project"], row["root_id"]) == ("p1", agent.task.id)
    assert (row["run_id"], row["fence"]) == (agent.run_id, agent.claimed.grant.fence)
    assert agent.run_id not in owner.get("/api/tokens").text


def test_the_token_is_invalid_after_the_run_has_ended(
    gateway: Installation, owner: httpx2.Client
) -> None:
    agent = at_work(gateway, owner)
    assert agent.http.get("/api/run").status_code == 200
    gateway.report(c.CompleteRun(agent.claimed.grant, agent.run_id, None, 0))
    assert problem(agent.http.get("/api/run")) == (401, "unauthorized")
    assert problem(agent.post("/progress", progress=1)) == (401, "unauthorized")


def test_the_token_is_invalid_after_the_job_is_claimed_again(
    gateway: Installation, owner: httpx2.Client
) -> None:
    first = at_work(gateway, owner)
    gateway.report(c.HandBack(first.claimed.grant))
    second = Agent(gateway, gateway.claim(first.task.id))
    before = gateway.head()
    assert problem(first.http.get("/api/run")) == (401, "unauthorized")
    assert problem(first.post("/subtasks", intent="review")) == (401, "unauthorized")
    assert gateway.head() == before
    assert second.look()["run_id"] == second.run_id


def test_an_ended_claim_gets_no_token(gateway: Installation, owner: httpx2.Client) -> None:
    agent = at_work(gateway, owner)
    gateway.report(c.HandBack(agent.claimed.grant))
    with pytest.raises(Refused, match="no longer holds run"):
        issue_run_token(gateway.core, agent.claimed.grant, agent.run_id)


def test_a_new_token_deletes_the_invalid_ones(gateway: Installation, owner: httpx2.Client) -> None:
    agent = at_work(gateway, owner)
    gateway.report(c.HandBack(agent.claimed.grant))
    Agent(gateway, gateway.claim(agent.task.id))
    with gateway.core.store.read() as view:
        assert hashlib.sha256(agent.token.encode()).hexdigest() not in view.rows("tokens")


def test_a_token_of_another_kind_has_no_run(owner: httpx2.Client) -> None:
    assert problem(owner.get("/api/run")) == (409, "not_a_run")
    assert problem(owner.post("/api/run/progress", json={"progress": 1})) == (409, "not_a_run")


# ---- reading ---------------------------------------------------------------------------------


def test_a_run_reads_its_task_with_comments_and_answers(
    gateway: Installation, owner: httpx2.Client
) -> None:
    task_id = submitted(
        owner, payload={"file": "a.py"}, title="Fix it", tags=["x"], max_budget_usd=5
    )
    gateway.ask(task_id, "Which one?", ["a", "b"])
    owner.post(f"/api/tasks/{task_id}/answer", json={"answer": "b"})
    gateway.complete(task_id)
    rejected = {"comment": "too slow", "run": True}
    assert owner.post(f"/api/tasks/{task_id}/reject", json=rejected).status_code == 200
    found = Agent(gateway, gateway.claim(task_id)).look()
    assert (found["task_id"], found["title"], found["tags"]) == (task_id, "Fix it", ["x"])
    assert found["payload"] == {"file": "a.py"}
    assert [(each["comment"], each["by"]) for each in found["comments"]] == [("too slow", "owner")]
    assert [(each["question"], each["answer"]) for each in found["answers"]] == [("ask", "b")]
    assert found["budget"] == {"budget": 5.0, "spent": 0.0, "left": 5.0}
    assert found["round"] == 2
    declared: Any = OPERATIONS["own_run"].response
    assert msgspec.to_builtins(msgspec.convert(found, declared)) == found


def test_a_run_of_a_board_task_reads_the_answer(
    gateway: Installation, owner: httpx2.Client
) -> None:
    task_id = submitted(owner, lifecycle="board")
    gateway.ask(task_id, "Go on?")
    owner.post(f"/api/tasks/{task_id}/answer", json={"answer": "yes"})
    found = Agent(gateway, gateway.claim(task_id)).look()
    assert [(each["answer"], each["outcome"]) for each in found["answers"]] == [("yes", "answered")]


# ---- writing ---------------------------------------------------------------------------------


def test_progress_is_stored_on_the_run(gateway: Installation, owner: httpx2.Client) -> None:
    agent = at_work(gateway, owner)
    assert agent.post("/progress", progress=0.25, note="reading").status_code == 200
    run = owner.get(f"/api/runs/{agent.run_id}").json()
    assert (run["progress"], run["note"]) == (0.25, "reading")
    assert problem(agent.post("/progress", progress=1.5)) == (422, "invalid")
    assert problem(agent.post("/progress")) == (422, "invalid")
    events = owner.get(f"/api/tasks/{agent.task.id}/events").json()["events"]
    (progressed,) = [each for each in events if each["name"] == "run_progressed"]
    assert progressed["actor"] == f"run:{agent.run_id}@{agent.task.id}"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("QA-DECISION.md", {"text": "good"}, "qa_report"),
        ("shot.png", {"base64": base64.b64encode(b"\x89PNG").decode()}, "screenshot"),
    ],
)
def test_evidence_is_stored_with_its_digest(
    gateway: Installation,
    owner: httpx2.Client,
    name: str,
    content: dict[str, str],
    kind: str,
) -> None:
    agent = at_work(gateway, owner)
    made = agent.post("/evidence", name=name, **content)
    assert made.status_code == 201, made.text
    (listed,) = owner.get(f"/api/runs/{agent.run_id}/evidence").json()["items"]
    data = content["text"].encode() if "text" in content else b"\x89PNG"
    assert (listed["file"], listed["kind"]) == (name, kind)
    assert (listed["size"], listed["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert problem(agent.post("/evidence", name=name, text="other")) == (409, "evidence_exists")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "../out", "text": "x"}, 422),
        ({"name": ".hidden", "text": "x"}, 422),
        ({"name": "a\nb", "text": "x"}, 422),
        ({"name": "images/before/a.png", "text": "x"}, 422),
        ({"name": "images/after/a.png", "text": "x"}, 422),
        ({"name": "a", "text": "x", "base64": "eA=="}, 422),
        ({"name": "a"}, 422),
        ({"name": "a", "base64": "not base64"}, 422),
        ({"name": "a", "text": "x" * 524_289}, 413),
    ],
)
def test_invalid_evidence_is_refused(
    gateway: Installation, owner: httpx2.Client, body: dict[str, Any], status: int
) -> None:
    agent = at_work(gateway, owner)
    before = gateway.head()
    assert agent.post("/evidence", **body).status_code == status
    assert gateway.head() == before
    assert owner.get(f"/api/runs/{agent.run_id}/evidence").json()["items"] == []


@pytest.mark.parametrize(("workspace", "status"), [("worktree", 422), ("directory", 201)])
def test_the_diff_of_a_worktree_is_the_workers(
    gateway: Installation, owner: httpx2.Client, workspace: str, status: int
) -> None:
    agent = at_work(gateway, owner, options={"workspace": workspace})
    assert agent.post("/evidence", name="changes.diff", text="x").status_code == status


def test_a_question_is_recorded_until_the_run_ends(
    gateway: Installation, owner: httpx2.Client
) -> None:
    agent = at_work(gateway, owner)
    question = {"text": "Which one?", "options": ["a", "b"], "default": "a", "expires_in_s": 60}
    first = agent.post("/ask", **question)
    assert first.json()["outcome"] == "asked"
    assert "exit code 0" in first.json()["next"]
    assert agent.post("/ask", **question).json()["outcome"] == "repeated"
    assert problem(agent.post("/ask", text="Another one?")) == (409, "already_asked")
    with gateway.core.store.read() as view:
        assert recorded_question(view, agent.claimed.job.id, agent.run_id) == question
    assert owner.get(f"/api/tasks/{agent.task.id}").json()["state"] == "running"


@pytest.mark.parametrize(
    "body",
    [{"text": "no mark"}, {"text": " "}, {"text": "x?", "options": ["a"], "default": "b"}],
)
def test_an_invalid_question_is_refused(
    gateway: Installation, owner: httpx2.Client, body: dict[str, Any]
) -> None:
    assert problem(at_work(gateway, owner).post("/ask", **body)) == (422, "invalid")


def test_known_secrets_are_redacted_in_what_a_run_reports(
    gateway: Installation, owner: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_values", set())
    monkeypatch.setattr(redaction, "_pattern", redaction.SECRET_FORM)
    redaction.remember(["hunter2-and-more"])
    agent = at_work(gateway, owner)
    before = gateway.head()
    answers = [
        agent.post("/progress", note="with hunter2-and-more"),
        agent.post("/ask", text="hunter2-and-more?", options=["hunter2-and-more"]),
        agent.post("/subtasks", intent="review", payload={"key": ["hunter2-and-more"]}),
    ]
    assert [each.status_code for each in answers] == [200, 200, 201]
    with gateway.core.store.read() as view:
        texts = [event.data or "" for event in view.events(before, 100)]
    assert "hunter2-and-more" not in str(texts)
    assert sum("[secret]" in text for text in texts) >= 3


# ---- subtasks --------------------------------------------------------------------------------


def test_a_subtask_inherits_from_its_task(gateway: Installation, owner: httpx2.Client) -> None:
    agent = at_work(
        gateway,
        owner,
        project="p2",
        priority="P1",
        max_budget_usd=4,
        options={"run_timeout_ms": 5_000, "on_budget_exceeded": "ask"},
    )
    made = agent.post("/subtasks", intent="review", payload={"n": 1}, max_budget_usd=1, title="x")
    assert made.status_code == 201, made.text
    task = owner.get(f"/api/tasks/{made.json()['id']}").json()
    assert (task["parent_id"], task["root_id"], task["state"]) == (
        agent.task.id,
        agent.task.id,
        "queued",
    )
    assert (task["project"], task["priority"], task["lifecycle"]) == ("p2", "P1", "review")
    assert task["options"] == {"run_timeout_ms": 5_000, "on_budget_exceeded": "ask"}
    assert (task["budget"], task["payload"]) == (1.0, {"n": 1})
    assert task["created_by"] == f"run:{agent.run_id}@{agent.task.id}"
    assert [each["id"] for each in agent.look()["subtasks"]] == [task["id"]]


def test_the_same_key_creates_one_subtask(gateway: Installation, owner: httpx2.Client) -> None:
    agent = at_work(gateway, owner)
    first, second = (
        agent.post("/subtasks", intent="review", idempotency_key="k").json() for _ in range(2)
    )
    assert (first["id"], second["repeated"]) == (second["id"], True)
    other = agent.post("/subtasks", intent="review", title="y", idempotency_key="k")
    assert problem(other) == (409, "idempotency_conflict")


def test_subtasks_may_depend_only_on_each_other(
    gateway: Installation, owner: httpx2.Client
) -> None:
    foreign = submitted(owner)
    agent = at_work(gateway, owner)
    first = agent.post("/subtasks", intent="review").json()["id"]
    second = agent.post("/subtasks", intent="review", depends_on=[first])
    assert second.status_code == 201
    for name in (foreign, agent.task.id, "missing"):
        answer = agent.post("/subtasks", intent="review", depends_on=[name])
        assert problem(answer) == (422, "invalid")


def test_quotas_of_count_and_depth(gateway: Installation, owner: httpx2.Client) -> None:
    agent = at_work(gateway, owner)
    made = [agent.post("/subtasks", intent="review") for _ in range(4)]
    assert [each.status_code for each in made] == [201, 201, 201, 429]
    assert made[-1].json()["code"] == "too_many_subtasks"
    child = Agent(gateway, gateway.claim(made[0].json()["id"]))
    below = child.post("/subtasks", intent="review").json()["id"]
    deepest = Agent(gateway, gateway.claim(below))
    assert problem(deepest.post("/subtasks", intent="review")) == (429, "too_deep")


def test_quotas_of_rate(tmp_path: Path) -> None:
    with installed(tmp_path, run_subtasks_per_minute=2, run_writes_per_minute=1) as gateway:
        agent = at_work(gateway, gateway.client())
        made = [agent.post("/subtasks", intent="review") for _ in range(3)]
        assert [each.status_code for each in made] == [201, 201, 429]
        assert 1 <= int(made[-1].headers["retry-after"]) <= 61
        assert agent.post("/progress", progress=0.1).status_code == 200
        assert problem(agent.post("/progress", progress=0.2)) == (429, "too_many")
