"""What the dashboard's diagrams and charts are made from, over HTTP."""

from collections.abc import Iterator

import httpx2
import pytest

from detent.kernel.state_shapes import APPEARANCES
from detent.operations.registry import Scope
from detent.task_lifecycles import all_lifecycles
from tests.gateway.installation import Installation, installed
from tools import generate, web_types

LIFECYCLES = all_lifecycles()


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    with installed(tmp_path_factory.mktemp("figures")) as installation:
        yield installation


@pytest.fixture(scope="module")
def owner(gateway: Installation) -> httpx2.Client:
    return gateway.client()


def submitted(owner: httpx2.Client, **fields: object) -> str:
    answer = owner.post("/api/tasks", json={"intent": "runQA", "run": True, **fields})
    return str(answer.json()["id"])


def test_every_look_has_its_appearance(owner: httpx2.Client) -> None:
    answer = owner.get("/api/lifecycles").json()
    assert {name: each["ink"] for name, each in answer["appearances"].items()} == {
        look.value: each.ink for look, each in APPEARANCES.items()
    }
    for table in answer["lifecycles"]:
        assert set(table["looks"].values()) <= set(answer["appearances"])


@pytest.mark.parametrize("name", LIFECYCLES)
def test_a_diagram_has_every_state_and_row_once(owner: httpx2.Client, name: str) -> None:
    drawn = owner.get(f"/api/lifecycles/{name}/diagram").json()
    table = LIFECYCLES[name]
    boxes = {box["state"]: box for box in drawn["boxes"]}
    assert set(boxes) == {"", *table.state_names}
    arrows = [
        (arrow["source"], event, arrow["target"], arrow["extension"])
        for arrow in drawn["arrows"]
        for event in arrow["events"]
    ]
    loops = [(state, event, state, False) for state, box in boxes.items() for event in box["loops"]]
    rows = {(row.source, row.event, row.target, row.extension) for row in table.rows}
    assert len(arrows) + len(loops) == len(rows)
    assert {*arrows, *loops} == rows
    for box in drawn["boxes"]:
        assert 0 <= box["x"] <= drawn["width"] - box["width"] + 0.1
        assert 0 <= box["y"] <= drawn["height"] - box["height"] + 0.1


def test_counts_by_lifecycle_and_state(gateway: Installation, owner: httpx2.Client) -> None:
    before = owner.get("/api/counts").json()["lifecycles"]
    assert set(before) == set(LIFECYCLES)
    gateway.complete(submitted(owner, project="counted"))
    submitted(owner, project="counted", run=False)
    after = owner.get("/api/counts").json()["lifecycles"]
    assert after["review"]["ready"] == before["review"].get("ready", 0) + 1
    assert after["review"]["pending"] == before["review"].get("pending", 0) + 1
    assert after["run"]["succeeded"] == before["run"].get("succeeded", 0) + 1
    own = owner.get("/api/counts?project=counted").json()["lifecycles"]
    assert (own["review"], own["job"]) == ({"ready": 1, "pending": 1}, {"completed": 1})


def test_a_series_has_a_span_for_each_hour_and_the_thresholds(
    gateway: Installation, owner: httpx2.Client
) -> None:
    for project in ("series", "again"):  # once more if an hour has ended between the two
        gateway.complete(submitted(owner, project=project))
        gateway.fail(submitted(owner, project=project))
        series = owner.get(f"/api/stats/series?hours=24&project={project}").json()
        ended = [span for span in series["spans"] if span["succeeded"] or span["failed"]]
        if len(ended) == 1:
            break
    assert series["span_s"] == 3600
    assert len(series["spans"]) == 25
    (now,) = ended
    assert now in series["spans"][-2:]
    assert (now["succeeded"], now["failed"], now["success_rate"]) == (1, 1, 0.5)
    assert now["p95_s"] >= now["p50_s"] >= 0
    assert now["queue_p95_s"] >= now["queue_p50_s"] >= 0
    figures = {each["figure"]: (each["ok"], each["degraded"]) for each in series["thresholds"]}
    assert figures["success_rate"] == (0.95, 0.8)
    assert figures["queue"] == (10, 50)
    assert not series["partial"]


def test_a_token_of_one_project_sees_its_own_figures_alone(
    gateway: Installation, owner: httpx2.Client
) -> None:
    gateway.complete(submitted(owner, project="theirs"))
    ours = gateway.client(gateway.token_for(Scope.READ, project="ours"))
    assert all(not states for states in ours.get("/api/counts").json()["lifecycles"].values())
    spans = ours.get("/api/stats/series").json()["spans"]
    assert all(span["succeeded"] == 0 for span in spans)
    assert ours.get("/api/counts?project=theirs").status_code == 404


def test_me_is_who_the_server_says(gateway: Installation) -> None:
    me = gateway.client(gateway.token_for(Scope.READ, Scope.REVIEW, project="ours")).get("/api/me")
    assert me.json()["scopes"] == ["read", "review"]
    assert me.json()["project"] == "ours"


def test_the_types_name_every_operation() -> None:
    text = web_types.text()
    for name in ("accept_task", "list_tasks", "stats_series"):
        assert f"  {name}: {{ takes:" in text
    assert 'answer_task: ["POST", "/api/tasks/{task_id}/answer"],' in text
    assert "export type Task = {" in text
    assert (web_types.FILE, web_types.text) in generate.PAGES
