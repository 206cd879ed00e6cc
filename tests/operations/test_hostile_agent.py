"""A compromised agent tries every operation: each attempt is refused and changes nothing."""

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from detent.kernel import commands as c
from detent.operations import OPERATIONS
from detent.operations.registry import Caller, Operation, Scope
from detent.operations.tokens import issue
from tests.gateway.installation import Installation
from tests.operations.agent import Agent, at_work, submitted

OTHERS = [each for each in OPERATIONS.values() if each.scope is not Scope.RUN]
#: Routes that differ only in their bodies; the scope is checked before the body is read.
PLACES = {"name": "owner", "file": "x", "key": "x"}


@pytest.fixture(scope="module")
def agent(gateway: Installation, owner: httpx2.Client) -> Agent:
    return at_work(gateway, owner, priority="P2", max_budget_usd=5)


@pytest.fixture
def untouched(gateway: Installation) -> Iterator[None]:
    """Neither the log nor a named row has changed, except the run's request counts."""
    before = state_of(gateway)
    yield
    assert state_of(gateway) == before


def state_of(gateway: Installation) -> Any:
    with gateway.core.store.read() as view:
        tokens = {
            key: {name: value for name, value in row.items() if name != "counts"}
            for key, row in view.rows("tokens").items()
        }
        rows = {table: {**view.rows(table)} for table in ("limits", "projects", "schedules")}
        return view.head(), tokens, rows


def path_of(operation: Operation, agent: Agent) -> str:
    own = {"task_id": agent.task.id, "job_id": agent.claimed.job.id, "run_id": agent.run_id}
    return operation.path.format_map({**dict.fromkeys(operation.in_path, "x"), **PLACES, **own})


@pytest.mark.parametrize("operation", OTHERS, ids=lambda each: each.name)
def test_a_run_token_may_call_no_other_operation(
    untouched: None, agent: Agent, operation: Operation
) -> None:
    body: dict[str, Any] = {"json": {}} if operation.method in ("POST", "PUT", "PATCH") else {}
    answer = agent.http.request(operation.method, path_of(operation, agent), **body)
    assert answer.status_code == 403
    assert answer.json()["code"] == "forbidden"


@pytest.mark.parametrize(
    "path", ["/openapi.json", "/api/events", "/api/tokens", "/api/tasks", "/api/log", "/metrics"]
)
def test_a_run_token_reads_nothing_else(agent: Agent, path: str) -> None:
    assert agent.http.get(path).status_code == 403


WIDER: list[dict[str, Any]] = [
    {"intent": "review", "priority": "P1"},
    {"intent": "review", "priority": "high"},
    {"intent": "review", "max_budget_usd": 6},
    {"intent": "runQA"},
]
UNKNOWN: list[dict[str, Any]] = [
    {"intent": "review", "max_budget_usd": 0},
    {"intent": "review", "max_budget_usd": -1},
    {"intent": "review", "options": {"run_timeout_ms": 10**9}},
    {"intent": "review", "options": {"plan": {"steps": []}}},
    {"intent": "review", "parent_id": "x"},
    {"intent": "review", "project": "theirs"},
    {"intent": "review", "lifecycle": "board"},
    {"intent": "review", "scopes": ["admin"]},
    {"intent": "review", "runner": "sh"},
    {"intent": "review", "command": ["sh"]},
    {"intent": "nothing"},
]


@pytest.mark.parametrize("body", WIDER, ids=str)
def test_a_subtask_cannot_exceed_the_limits_of_its_task(
    untouched: None, agent: Agent, body: dict[str, Any]
) -> None:
    answer = agent.post("/subtasks", **body)
    assert (answer.status_code, answer.json()["code"]) == (403, "own_work")


@pytest.mark.parametrize("body", UNKNOWN, ids=str)
def test_a_subtask_takes_no_other_fields(
    untouched: None, agent: Agent, body: dict[str, Any]
) -> None:
    assert agent.post("/subtasks", **body).status_code == 422


# ---- an agent that got hold of more than a run's token ---------------------------------------


def token(gateway: Installation, name: str, root_id: str | None = None) -> httpx2.Client:
    """A client with every scope, under a name, bound to a task tree or not."""
    caller = Caller(name, frozenset(Scope), None, root_id)
    return gateway.client(gateway.core.engine.transaction(lambda tx: issue(tx, caller)))


VERBS: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/accept", {}),
    ("POST", "/reject", {"comment": "x"}),
    ("POST", "/answer", {"answer": "x"}),
    ("POST", "/run", {}),
    ("POST", "/retry", {}),
    ("POST", "/resume", {}),
    ("PATCH", "", {"max_budget_usd": 100}),
    ("PATCH", "", {"priority": "P0"}),
    ("PATCH", "", {"options": {"run_timeout_ms": 10**6}}),
    ("DELETE", "", {}),
]


@pytest.fixture(scope="module")
def ready(gateway: Installation, owner: httpx2.Client) -> dict[str, Any]:
    """A task that waits for review, with the clients of its producers."""
    agent = at_work(gateway, owner)
    child = Agent(gateway, gateway.claim(agent.post("/subtasks", intent="review").json()["id"]))
    gateway.report(c.CompleteRun(child.claimed.grant, child.run_id, None, 0))
    gateway.report(c.CompleteRun(agent.claimed.grant, agent.run_id, None, 0))
    assert owner.get(f"/api/tasks/{agent.task.id}").json()["state"] == "ready"
    root = agent.task.id
    return {
        "task": root,
        "run token": agent.http,
        "its subject": token(gateway, f"run:{agent.run_id}@{root}"),
        "its child's subject": token(gateway, f"run:{child.run_id}@{root}"),
        "bound to the tree": token(gateway, "helper", root),
    }


PRODUCERS = ["its subject", "its child's subject", "bound to the tree"]


@pytest.mark.parametrize(("method", "verb", "body"), VERBS, ids=str)
@pytest.mark.parametrize("who", PRODUCERS)
def test_a_producer_cannot_review_its_work_with_any_scope(
    untouched: None, ready: dict[str, Any], who: str, method: str, verb: str, body: dict[str, Any]
) -> None:
    given = {"json": body} if method != "DELETE" else {}
    answer = ready[who].request(method, f"/api/tasks/{ready['task']}{verb}", **given)
    assert (answer.status_code, answer.json()["code"]) == (403, "own_work")


def test_the_run_token_itself_cannot_accept(untouched: None, ready: dict[str, Any]) -> None:
    for verb in ("accept", "reject"):
        answer = ready["run token"].post(f"/api/tasks/{ready['task']}/{verb}", json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


def test_a_producer_adds_work_below_its_own_only(
    untouched: None, ready: dict[str, Any], owner: httpx2.Client
) -> None:
    for path, body in (
        ("/api/tasks", {"intent": "review"}),
        ("/api/jobs", {"intent": "review"}),
        ("/add", {"source": "api", "intent": "review"}),
    ):
        answer = ready["bound to the tree"].post(path, json=body)
        assert (answer.status_code, answer.json()["code"]) == (403, "own_work")


def test_an_agent_of_another_task_may_review(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = submitted(owner)
    gateway.complete(task_id)
    other = submitted(owner)
    judge = token(gateway, f"run:{other}-j1-r1@{other}", other)
    assert judge.post(f"/api/tasks/{task_id}/accept", json={}).json()["state"] == "completed"
