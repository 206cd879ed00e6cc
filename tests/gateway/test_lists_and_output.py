"""Lists, parts and pages over HTTP, pauses, and the output of runs."""

from pathlib import Path

import httpx2
import pytest

from detent.kernel import commands as c
from detent.operations.run_output import MAX_BYTES, output_file
from tests.gateway.installation import Installation


def submit(owner: httpx2.Client, **fields: object) -> str:
    return str(owner.post("/api/tasks", json={"intent": "runQA", **fields}).json()["id"])


# ---- pages -----------------------------------------------------------------------------------


def pages(owner: httpx2.Client, path: str, **query: str) -> list[list[str]]:
    """The ids of every page."""
    found, cursor = [], None
    while True:
        more = query if cursor is None else {**query, "cursor": cursor}
        page = owner.get(path, params=more).json()
        found.append([row["id"] for row in page["items"]])
        cursor = page["cursor"]
        if cursor is None:
            return found


@pytest.mark.parametrize("sort", ["created_at", "-created_at", "priority", "-id", "state_at"])
def test_pages_are_stable_and_whole(owner: httpx2.Client, sort: str) -> None:
    project = f"pages by {sort}"
    made = [submit(owner, project=project, priority=f"P{n % 4}") for n in range(7)]
    found = pages(owner, "/api/tasks", project=project, sort=sort, limit="3")
    assert [len(page) for page in found] == [3, 3, 1]
    flat = [task_id for page in found for task_id in page]
    assert sorted(flat) == sorted(made)
    if sort in ("created_at", "-created_at"):
        assert flat == (made if sort == "created_at" else made[::-1])


def test_new_rows_do_not_disturb_a_page(owner: httpx2.Client) -> None:
    made = [submit(owner, project="moving") for _ in range(4)]
    query = {"project": "moving", "limit": "2", "sort": "created_at"}
    first = owner.get("/api/tasks", params=query).json()
    submit(owner, project="moving")
    second = owner.get("/api/tasks", params={**query, "cursor": first["cursor"]}).json()
    assert [row["id"] for row in second["items"]] == made[2:]


def test_filters(gateway: Installation, owner: httpx2.Client) -> None:
    wanted = submit(owner, project="filters", intent="review", priority="high", tags=["x", "y"])
    submit(owner, project="filters", lifecycle="board", run=True)
    for query in (
        {"intent": "review"},
        {"priority": "P0"},
        {"priority": "high"},
        {"tag": "y"},
        {"state": "PENDING"},
        {"state": "pending, failed"},
        {"lifecycle": "review"},
    ):
        items = owner.get("/api/tasks", params={"project": "filters", **query}).json()["items"]
        assert [row["id"] for row in items] == [wanted], query
    owner.post(f"/api/tasks/{wanted}/cancel")
    active = owner.get("/api/tasks", params={"project": "filters", "active": "true"}).json()
    assert [row["state"] for row in active["items"]] == ["todo"]


# ---- parts -----------------------------------------------------------------------------------


def test_the_parts_of_a_task_and_of_its_job(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = submit(owner, run=True)
    claimed = gateway.claim(task_id)
    run_id = claimed.job.run_id
    assert run_id is not None
    evidence = c.AddEvidence(claimed.grant, run_id, "QA-DECISION.md", "qa_report", "ab" * 32, 12)
    gateway.report(evidence)
    gateway.report(c.CompleteRun(claimed.grant, run_id, {"ok": True}, 0))
    job_id = claimed.job.id
    for path in (f"/api/tasks/{task_id}", f"/api/jobs/{job_id}", f"/api/runs/{run_id}"):
        if "runs" not in path:
            (run,) = owner.get(f"{path}/runs").json()["items"]
            assert (run["id"], run["state"], run["exit_code"]) == (run_id, "succeeded", 0)
        (file,) = owner.get(f"{path}/evidence").json()["items"]
        assert (file["file"], file["kind"], file["size"]) == ("QA-DECISION.md", "qa_report", 12)
    assert owner.get(f"/api/runs/{run_id}").json()["job_id"] == job_id
    assert owner.get(f"/api/jobs/{job_id}").json()["result"] == {"ok": True}
    assert owner.get(f"/api/jobs/{job_id}/why").json()["state"] == "completed"
    assert owner.get(f"/api/tasks/{task_id}/why").json()["actions"] == [
        "accept",
        "cancel",
        "delete",
        "reject",
    ]
    in_list = owner.get("/api/runs", params={"job_id": job_id}).json()["items"]
    assert [run["id"] for run in in_list] == [run_id]
    events = owner.get(f"/api/jobs/{job_id}/events").json()["events"]
    assert [event["name"] for event in events][-1] == "job_completed"


def test_the_steps_of_a_plan(owner: httpx2.Client) -> None:
    plan = {
        "steps": [
            {"name": "test", "intent": "review", "needs": ["fetch"]},
            {"name": "publish", "intent": "review", "needs": ["test", "check"]},
            {"name": "fetch", "intent": "review"},
            {"name": "check", "intent": "review"},
        ]
    }
    in_order = ["fetch", "check", "test", "publish"]
    options = {"intent": "runQA", "options": {"plan": plan}}
    job_id = owner.post("/api/jobs", json=options).json()["id"]
    task_id = owner.post("/api/tasks", json={**options, "lifecycle": "board"}).json()["id"]
    assert owner.get(f"/api/tasks/{task_id}/steps").json()["items"] == []
    submitted = {**options, "lifecycle": "board", "run": True}
    task_id = owner.post("/api/tasks", json=submitted).json()["id"]
    for path in (f"/api/jobs/{job_id}", f"/api/tasks/{task_id}"):
        steps = owner.get(f"{path}/steps").json()["items"]
        assert [step["name"] for step in steps] == in_order


def test_a_job_alone_is_cancelled_and_deleted(gateway: Installation, owner: httpx2.Client) -> None:
    job_id = owner.post("/api/jobs", json={"intent": "runQA", "payload": [1]}).json()["id"]
    assert owner.get(f"/api/jobs/{job_id}").json()["payload"] == [1]
    kept = owner.post(f"/api/jobs/{job_id}/signal", json={"name": "go", "value": 1}).json()
    assert kept["outcome"] == "kept"
    assert owner.delete(f"/api/jobs/{job_id}").json()["code"] == "still_needed"
    assert owner.post(f"/api/jobs/{job_id}/cancel").json()["state"] == "cancelled"
    assert owner.delete(f"/api/jobs/{job_id}").json()["outcome"] == "deleted"
    assert owner.get(f"/api/jobs/{job_id}").status_code == 404


def test_the_small_tables(gateway: Installation, owner: httpx2.Client) -> None:
    def write(tx: object) -> None:
        tx.put_rows("resources", {"phone": {"capabilities": ["call"], "capacity": 2}})  # type: ignore[attr-defined]
        tx.put_rows("workers", {"host:1": {"intents": ["runQA"]}})  # type: ignore[attr-defined]
        nightly = {"cron": "0 3 * * *", "intent": "runQA"}
        tx.put_rows("schedules", {"nightly": nightly})  # type: ignore[attr-defined]
        tx.put_rows("projects", {"empty": {}})  # type: ignore[attr-defined]

    gateway.core.engine.transaction(write)
    local, phone = owner.get("/api/resources").json()["items"]
    assert (local["id"], local["built_in"]) == ("local", True)
    assert (phone["id"], phone["capacity"], phone["in_use"]) == ("phone", 2, 0)
    (worker,) = owner.get("/api/workers").json()["items"]
    assert (worker["name"], worker["intents"], worker["alive"]) == ("host:1", ["runQA"], False)
    assert owner.get("/api/schedules").json()["items"][0]["name"] == "nightly"
    submit(owner, project="counted")
    projects = {row["name"]: row["tasks"] for row in owner.get("/api/projects").json()["items"]}
    assert (projects["empty"], projects["counted"]) == (0, 1)


def test_lifecycles_are_served_as_tables(owner: httpx2.Client) -> None:
    names = [each["name"] for each in owner.get("/api/lifecycles").json()["lifecycles"]]
    assert names == ["board", "review", "job", "step", "run"]
    board = owner.get("/api/lifecycles/board").json()
    assert (board["initial"], "rows" in board) == ("inbox", True)


# ---- pauses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"intent": "review"}, "intent:review"),
        ({"project": "paused"}, "project:paused"),
        ({"key": "lathe"}, "key:lathe"),
        ({}, "all"),
    ],
)
def test_paused_work_is_not_claimed(
    gateway: Installation, owner: httpx2.Client, body: dict[str, str], name: str
) -> None:
    from detent.engine.claims import ClaimRequest

    def claimed() -> list[str]:
        jobs = gateway.core.engine.claim(ClaimRequest("w", "n", 100, projects=["paused"]))
        return [each.job.intent for each in jobs]

    paused = owner.post("/api/pause", json={**body, "reason": "maintenance"}).json()
    since = paused.pop("paused_at")
    assert paused == {
        "name": name,
        "paused": True,
        "running": None,
        "rate": None,
        "per_s": None,
        "weight": None,
        "submit_rate": None,
        "submit_per_s": None,
        "stored_bytes": None,
        "cost_per_day_usd": None,
        "in_file": False,
        "paused_by": "owner",
        "paused_until": None,
        "reason": "maintenance",
    }
    keyed = {"concurrency_key": name.removeprefix("key:")}
    task_id = submit(owner, project="paused", intent="review", run=True, options=keyed)
    assert claimed() == []
    reasons = owner.get(f"/api/tasks/{task_id}/why").json()["reasons"]
    reason = next(each for each in reasons if each["reason"] == "paused")
    reported = {"paused_by": "owner", "paused_at": since, "reason": "maintenance"}
    assert reason["detail"] == {"limit": name, **reported}
    assert name in [
        row["name"] for row in owner.get("/api/limits").json()["items"] if row["paused"]
    ]
    assert owner.post("/api/resume", json=body).json()["paused"] is False
    assert claimed() == ["review"]
    assert owner.get("/api/limits").json()["items"] == []


def test_a_pause_of_an_unknown_intent_is_refused(owner: httpx2.Client) -> None:
    answer = owner.post("/api/pause", json={"intent": "reveiw"})
    assert (answer.status_code, answer.json()["code"]) == (422, "unknown_intent")
    assert "review" in answer.json()["allowed"]
    assert owner.get("/api/limits").json()["items"] == []


def test_a_pause_names_one_thing(owner: httpx2.Client) -> None:
    answer = owner.post("/api/pause", json={"intent": "review", "project": "x"})
    assert (answer.status_code, answer.json()["field"]) == (422, "project")


# ---- output ----------------------------------------------------------------------------------


def output(gateway: Installation, run_id: str) -> Path:
    file = output_file(gateway.core.settings.data_dir, run_id)
    file.parent.mkdir(parents=True)
    return file


def test_output_is_read_by_offset_while_it_grows(
    gateway: Installation, owner: httpx2.Client
) -> None:
    task_id = submit(owner, run=True)
    assert owner.get(f"/api/tasks/{task_id}/logs").json() == {
        "run_id": None,
        "text": "",
        "offset": 0,
        "ended": False,
        "times": [],
    }
    claimed = gateway.claim(task_id)
    run_id = claimed.job.run_id
    assert run_id is not None
    file = output(gateway, run_id)
    file.write_bytes("héllo\n".encode())
    for path in (f"tasks/{task_id}/logs", f"jobs/{claimed.job.id}/logs", f"runs/{run_id}/output"):
        found = owner.get(f"/api/{path}").json()
        assert (found["text"], found["offset"], found["ended"]) == ("héllo\n", 7, False)
    with file.open("ab") as growing:
        growing.write("ab€".encode()[:-1])
    found = owner.get(f"/api/runs/{run_id}/output", params={"offset": 7}).json()
    assert (found["text"], found["offset"]) == ("ab", 9)
    gateway.report(c.CompleteRun(claimed.grant, run_id))
    with file.open("ab") as growing:
        growing.write("€".encode()[-1:])
    found = owner.get(f"/api/runs/{run_id}/output", params={"offset": 9}).json()
    assert (found["text"], found["offset"], found["ended"]) == ("€", 12, True)


def test_output_comes_in_pieces(gateway: Installation, owner: httpx2.Client) -> None:
    task_id = submit(owner, run=True)
    run_id = gateway.claim(task_id).job.run_id
    assert run_id is not None
    output(gateway, run_id).write_bytes(b"x" * (MAX_BYTES + 10))
    first = owner.get(f"/api/runs/{run_id}/output").json()
    rest = owner.get(f"/api/runs/{run_id}/output", params={"offset": first["offset"]}).json()
    assert (len(first["text"]), len(rest["text"])) == (MAX_BYTES, 10)


def test_output_is_never_read_through_a_link(
    gateway: Installation, owner: httpx2.Client, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("do not show")
    task_id = submit(owner, run=True)
    run_id = gateway.claim(task_id).job.run_id
    assert run_id is not None
    output(gateway, run_id).symlink_to(secret)
    assert "do not show" not in owner.get(f"/api/runs/{run_id}/output").text
