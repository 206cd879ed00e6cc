"""A token that is limited to one project can neither read nor change anything of another."""

import httpx2
import pytest

from detent.operations.registry import Scope
from detent.store.port import WriteTransaction
from tests.gateway.installation import Installation
from tests.gateway.scopes import SCOPES


@pytest.fixture(scope="module")
def theirs(gateway: Installation, owner: httpx2.Client) -> dict[str, str]:
    """A task of project `theirs`, with a job and a run, a session and a refused submission."""
    task_id = owner.post("/api/tasks", json={"intent": "runQA", "project": "theirs", "run": True})
    made = str(task_id.json()["id"])
    gateway.complete(made)
    session = gateway.session_of(gateway.token_for(Scope.READ, project="theirs"))
    ids = {"task_id": made, "job_id": f"{made}-j1", "run_id": f"{made}-j1-r1"}
    return {**ids, "session_id": session.id, "intake_id": refused_submission(gateway)}


def refused_submission(gateway: Installation) -> str:
    """The id of a row of project `theirs` in the table `intake` that was refused."""

    def write(tx: WriteTransaction) -> int:
        tx.put_intake("submit_task", '{"intent": "fly", "project": "theirs"}')
        (row,) = tx.intake(10)
        tx.end_intake([], {row.id: '{"code": "unknown_intent", "detail": "unknown"}'})
        return row.id

    return str(gateway.core.engine.transaction(write))


@pytest.fixture(scope="module")
def ours(gateway: Installation) -> httpx2.Client:
    """Everything is allowed, in project `ours` alone."""
    return gateway.client(gateway.token_for(*Scope, project="ours"))


BODIES: dict[str, dict[str, object]] = {
    "/api/tasks/{task_id}/state": {"state": "done"},
    "/api/runs/{run_id}/end": {"exit_code": 0},
    "/api/tasks/{task_id}": {"title": "x"},
    "/api/tasks/{task_id}/answer": {"answer": "x"},
    "/api/tasks/{task_id}/choose": {"variant": 1},
    "/api/tasks/{task_id}/comments": {
        "diff": "0" * 64,
        "file": "x",
        "start": 1,
        "end": 1,
        "text": "x",
    },
    "/api/tasks/{task_id}/comments/{comment_id}/replies": {"text": "x"},
    "/api/tasks/{task_id}/drafts/{draft_id}": {"text": "x", "reply_to": "x"},
    "/api/tasks/{task_id}/events": {"event": "task_cancelled"},
    "/api/tasks/{task_id}/signal": {"name": "x"},
    "/api/jobs/{job_id}/answer": {"answer": "x"},
    "/api/jobs/{job_id}/signal": {"name": "x"},
    "/api/jobs/{job_id}/fork": {"step": "x"},
    "/api/tasks/{task_id}/webhooks/{name}": {
        "url": "https://x.example",
        "base": "https://y.example",
    },
    "/api/tasks/{task_id}/review/viewed": {"diff": "0" * 64, "path": "x"},
}
QUERIES: dict[str, dict[str, str]] = {
    "/api/tasks/{task_id}/review/file": {"path": "x"},
    "/api/tasks/{task_id}/review/between": {"since": "0" * 64},
}


def test_the_ids_of_the_other_project_are_real(
    owner: httpx2.Client, theirs: dict[str, str]
) -> None:
    for path in ("/api/tasks/{task_id}", "/api/jobs/{job_id}", "/api/runs/{run_id}"):
        assert owner.get(path.format(**theirs)).status_code == 200
    assert [each["id"] for each in owner.get("/api/intake").json()["items"]] == [
        theirs["intake_id"]
    ]


def test_nothing_of_another_project_can_be_seen_or_touched(
    gateway: Installation, ours: httpx2.Client, theirs: dict[str, str]
) -> None:
    before = gateway.head()
    for method, path in SCOPES:
        if "_id}" in path and not path.startswith("/api/run/"):
            body = BODIES.get(path, {}) if method in ("POST", "PUT", "PATCH") else None
            named = {**theirs, "comment_id": "c", "draft_id": "d", "name": "w"}
            plain = path.replace("{file:path}", "a/b.txt").format(**named)
            answer = ours.request(method, plain, json=body, params=QUERIES.get(path))
            assert answer.status_code == 404, path
            assert answer.json()["code"].startswith(("unknown_", "not_found")), path
    assert gateway.head() == before


@pytest.mark.parametrize(
    "path", ["/api/tasks", "/api/jobs", "/api/runs", "/api/projects", "/api/intake"]
)
def test_lists_show_the_own_project_alone(
    ours: httpx2.Client, owner: httpx2.Client, theirs: dict[str, str], path: str
) -> None:
    assert "theirs" in owner.get("/api/projects").text
    assert owner.get(path).json()["items"]
    shown = ours.get(path)
    assert shown.status_code == 200
    ids = [value for name, value in theirs.items() if name != "intake_id"]  # a short number
    assert not [each for each in ("theirs", *ids) if each in shown.text]


#: Pages about the caller, and streams, which do not end.
NOT_LISTED = ("/api/events", "/api/login/oidc", "/api/login/oidc/callback")


@pytest.fixture(scope="module")
def named(gateway: Installation, owner: httpx2.Client, theirs: dict[str, str]) -> None:
    """What names project `theirs`: a pause, a quota, a schedule, a webhook and a token."""
    client = gateway.client(gateway.token_for(*Scope, project="theirs"))
    client.post("/api/pause", json={"project": "theirs"}).raise_for_status()
    owner.post("/api/projects/theirs/quota", json={"running": 3}).raise_for_status()
    fires = {"intent": "runQA", "every_s": 60}
    client.put("/api/schedules/theirs-nightly", json=fires).raise_for_status()
    hook = {"url": "https://theirs.example/hook"}
    client.put("/api/webhooks/theirs-hook", json=hook).raise_for_status()


@pytest.mark.usefixtures("named")
def test_no_page_without_an_id_names_another_project(
    ours: httpx2.Client, owner: httpx2.Client
) -> None:
    for method, path in SCOPES:
        if method == "GET" and "{" not in path and path not in NOT_LISTED:
            shown = ours.get(path)
            assert shown.status_code in (200, 403, 404, 409), path
            assert "theirs" not in shown.text, path
    for path in ("/api/limits", "/api/schedules", "/api/webhooks"):
        assert "theirs" in owner.get(path).text


def test_the_log_shows_the_own_project_alone(
    ours: httpx2.Client, gateway: Installation, theirs: dict[str, str]
) -> None:
    made = ours.post("/api/tasks", json={"intent": "runQA"}).json()["id"]
    found = ours.get("/api/log").json()
    assert {event["stream"] for event in found["events"]} == {made}
    assert found["cursor"] == gateway.head()


def test_a_project_filter_cannot_reach_further(ours: httpx2.Client) -> None:
    for path in ("/api/tasks", "/api/jobs", "/api/inbox", "/api/events"):
        answer = ours.get(path, params={"project": "theirs"})
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/add", {"source": "api", "intent": "runQA", "payload": {"project": "theirs"}}, 422),
        ("/api/tasks", {"intent": "runQA", "project": "theirs"}, 422),
        ("/api/bulk", [{"intent": "runQA", "project": "theirs"}], 422),
        ("/api/jobs", {"intent": "runQA", "project": "theirs"}, 422),
        ("/api/tokens", {"name": "wider", "scopes": ["read"], "project": "theirs"}, 403),
        ("/api/pause", {"project": "theirs"}, 403),
        ("/api/pause", {"intent": "runQA"}, 403),
        ("/api/pause", {}, 403),
        ("/api/resume", {}, 403),
    ],
)
def test_nothing_can_be_put_into_another_project(
    gateway: Installation, ours: httpx2.Client, path: str, body: object, status: int
) -> None:
    before = gateway.head()
    assert ours.post(path, json=body).status_code == status
    assert gateway.head() == before


def test_no_subtask_and_no_dependency_across_projects(
    gateway: Installation, ours: httpx2.Client, theirs: dict[str, str]
) -> None:
    before = gateway.head()
    under = ours.post("/api/tasks", json={"intent": "runQA", "parent_id": theirs["task_id"]})
    after = ours.post("/api/tasks", json={"intent": "runQA", "depends_on": [theirs["task_id"]]})
    assert (under.status_code, after.status_code) == (404, 422)
    assert gateway.head() == before


def test_a_token_made_by_a_projects_admin_stays_in_the_project(ours: httpx2.Client) -> None:
    made = ours.post("/api/tokens", json={"name": "helper", "scopes": ["admin"]}).json()
    assert made["project"] == "ours"
    names = [token["name"] for token in ours.get("/api/tokens").json()["items"]]
    assert "helper" in names
    assert "owner" not in names
    assert ours.delete("/api/tokens/owner").status_code == 404
