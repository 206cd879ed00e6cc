"""Statistics, projects, intents, and the values of the installation's state."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import DetentError, Invalid
from detent.kernel import commands as c
from detent.operations.leader_election import CURSORS, LEADER_ROLES
from tests.operations.installation import OURS, Place, placed


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path) as made:
        yield made


def end_one(place: Place, seconds: float, *, well: bool = True, **fields: object) -> None:
    place.submit(**fields)
    (claimed,) = place.claim()
    run_id = str(claimed.job.run_id)
    place.report(c.ChargeRun(claimed.grant, run_id, 250_000))
    place.clock.advance(seconds=seconds)
    if well:
        place.complete(claimed)
    else:
        place.report(c.FailRun(claimed.grant, run_id, "error", "broken", 1))


def test_without_runs_there_is_no_success_rate(place: Place) -> None:
    found = place.call("stats")
    assert (found["ended"], found["success_rate"], found["cost_per_day"]) == (0, None, [])
    assert found["durations"] == {"p50_s": None, "p95_s": None, "mean_s": None}
    assert found["oldest_queued_s"] is None


def test_figures_are_those_of_the_window(place: Place) -> None:
    end_one(place, 5)
    place.clock.advance(seconds=25 * 3_600)
    for seconds in (1, 2, 3, 14):
        end_one(place, seconds, well=seconds != 3)
    place.submit()
    place.clock.advance(seconds=30)
    found = place.call("stats")
    assert (found["ended"], found["success_rate"]) == (4, 0.75)
    assert found["by_state"] == {"succeeded": 3, "failed": 1, "timeout": 0, "cancelled": 0}
    assert found["durations"] == {"p50_s": 2.0, "p95_s": 14.0, "mean_s": 5.0}
    assert [(row["cost"], row["runs"]) for row in found["cost_per_day"]] == [(1.0, 4)]
    assert (found["queued"], found["oldest_queued_s"], found["partial"]) == (1, 30.0, False)
    assert place.call("stats", hours=48)["ended"] == 5


def test_the_number_of_runs_is_bounded_and_reported(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        end_one(place, 1)
    monkeypatch.setattr("detent.operations.recent_runs.PAGE", 2)
    monkeypatch.setattr("detent.operations.recent_runs.MAX_RUNS", 4)
    found = place.call("stats")
    assert (found["looked_at"], found["partial"]) == (4, True)


def test_a_chart_is_partial_also_if_some_runs_were_suspended(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        end_one(place, 1)
    assert place.call("stats_series")["partial"] is False
    place.submit()
    (claimed,) = place.claim()
    run_id = str(claimed.job.run_id)
    place.report(c.SuspendRun(claimed.grant, run_id, "ask", "question", detail={"text": "?"}))
    monkeypatch.setattr("detent.operations.recent_runs.MAX_RUNS", 3)
    found = place.call("stats_series")
    assert found["partial"] is True
    assert sum(span["succeeded"] for span in found["spans"]) == 2


def test_a_project_has_figures_of_its_own(place: Place) -> None:
    end_one(place, 1, project="ours")
    end_one(place, 9, project="theirs")
    for found in (place.call("stats", project="ours"), place.call("stats", OURS)):
        assert (found["ended"], found["durations"]["p50_s"]) == (1, 1.0)


def test_hours_are_bounded(place: Place) -> None:
    with pytest.raises(DetentError) as caught:
        place.call("stats", hours=0)
    assert caught.value.details["field"] == "hours"


# ---- state -----------------------------------------------------------------------------------


def test_values_are_set_read_and_removed(place: Place) -> None:
    assert place.call("set_state", name="release", value={"v": 1})["values"] == {
        "release": {"v": 1}
    }
    assert place.call("show_state")["values"]["release"] == {"v": 1}
    place.call("set_state", name="release", value=None)
    assert "release" not in place.call("show_state")["values"]


@pytest.mark.parametrize(
    "name", [*LEADER_ROLES, *CURSORS, "trimmed", "run_counts", "retention_cursors", "rate:intent:x"]
)
def test_reserved_values_cannot_be_set(place: Place, name: str) -> None:
    with pytest.raises(DetentError) as caught:
        place.call("set_state", name=name, value=1)
    assert caught.value.code == "refused"
    assert place.rows("system_state") == {}


@pytest.mark.parametrize("name", ["Release", "a b", "a-b", "1st", "é", "x" * 101, "a.b", "_a"])
def test_an_odd_key_is_refused_and_can_still_be_removed(place: Place, name: str) -> None:
    with pytest.raises(Invalid, match="name must be a lower-case letter") as caught:
        place.call("set_state", name=name, value=1)
    assert (caught.value.field, caught.value.given) == ("name", name)
    place.put("system_state", {name: 1})
    place.call("set_state", name=name, value=None)
    assert name not in place.rows("system_state")


def test_a_token_of_one_project_may_not_use_the_state(place: Place) -> None:
    for name, arguments in (("show_state", {}), ("set_state", {"name": "x", "value": 1})):
        with pytest.raises(DetentError) as caught:
            place.call(name, OURS, **arguments)
        assert caught.value.code == "forbidden"


# ---- projects and intents --------------------------------------------------------------------


def test_a_project_is_created_once_and_counted(place: Place) -> None:
    assert place.call("create_project", name="new") == {"name": "new", "tasks": 0}
    place.submit(project="new")
    place.submit(project="new", run=False)
    assert place.call("create_project", name="new") == {"name": "new", "tasks": 2}
    found = place.call("show_project", name="new")
    assert found["tasks"] == {"queued": 1, "pending": 1}
    assert (found["jobs"], found["paused"]) == ({"queued": 1}, False)


def test_unknown_and_foreign_projects_are_not_found(place: Place) -> None:
    place.submit(project="theirs")
    for caller, name in ((OURS, "theirs"), (OURS, "nothing")):
        with pytest.raises(DetentError) as caught:
            place.call("show_project", caller, name=name)
        assert caught.value.code == "not_found"
    with pytest.raises(DetentError) as caught:
        place.call("create_project", OURS, name="more")
    assert caught.value.code == "forbidden"


def test_a_created_project_is_accepted_while_projects_are_locked(tmp_path: Path) -> None:
    with placed(tmp_path, intake_projects_locked=True) as place:
        with pytest.raises(DetentError):
            place.submit(project="new")
        place.call("create_project", name="new")
        assert place.submit(project="new")


def test_intents_show_their_origins(place: Place) -> None:
    place.put("intents", {"runQA": {}, "mine": {"planner": True}})
    row = {"seen_at": place.clock(), "intents": ["runQA", "mine"]}
    place.put("workers", {"w": row, "gone": {**row, "seen_at": 0}})
    place.call("pause", intent="mine")
    found = {row["name"]: row for row in place.call("list_intents")["items"]}
    assert found["runQA"]["origins"] == ["configuration", "worker"]
    assert found["review"]["origins"] == ["configuration"]
    assert (found["runQA"]["kind"], found["review"]["kind"]) == ("command", "agent")
    mine = found["mine"]
    assert (mine["kind"], mine["origins"], mine["paused"]) == ("planner", ["worker"], True)
    assert (mine["workers"], found["review"]["workers"]) == (1, 0)
