"""Statistics, projects, intents, and the values of the installation's state."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import DetentError, Invalid
from detent.kernel import commands as c
from detent.operations.leader_election import CURSORS, LEADER_ROLES
from tests.operations.installation import OURS, LocalInstallation, local_installation


@pytest.fixture
def installed(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made


def end_one(
    installed: LocalInstallation, seconds: float, *, well: bool = True, **fields: object
) -> None:
    installed.submit(**fields)
    (claimed,) = installed.claim()
    run_id = str(claimed.job.run_id)
    installed.report(c.ChargeRun(claimed.grant, run_id, 250_000))
    installed.clock.advance(seconds=seconds)
    if well:
        installed.complete(claimed)
    else:
        installed.report(c.FailRun(claimed.grant, run_id, "error", "broken", 1))


def test_without_runs_there_is_no_success_rate(installed: LocalInstallation) -> None:
    found = installed.call("stats")
    assert (found["ended"], found["success_rate"], found["cost_per_day"]) == (0, None, [])
    assert found["durations"] == {"p50_s": None, "p95_s": None, "mean_s": None}
    assert found["oldest_queued_s"] is None


def test_figures_are_those_of_the_window(installed: LocalInstallation) -> None:
    end_one(installed, 5)
    installed.clock.advance(seconds=25 * 3_600)
    for seconds in (1, 2, 3, 14):
        end_one(installed, seconds, well=seconds != 3)
    installed.submit()
    installed.clock.advance(seconds=30)
    found = installed.call("stats")
    assert (found["ended"], found["success_rate"]) == (4, 0.75)
    assert found["by_state"] == {"succeeded": 3, "failed": 1, "timeout": 0, "cancelled": 0}
    assert found["durations"] == {"p50_s": 2.0, "p95_s": 14.0, "mean_s": 5.0}
    assert [(row["cost"], row["runs"]) for row in found["cost_per_day"]] == [(1.0, 4)]
    assert (found["queued"], found["oldest_queued_s"], found["partial"]) == (1, 30.0, False)
    assert installed.call("stats", hours=48)["ended"] == 5


def test_the_number_of_runs_is_bounded_and_reported(
    installed: LocalInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        end_one(installed, 1)
    monkeypatch.setattr("detent.operations.recent_runs.PAGE", 2)
    monkeypatch.setattr("detent.operations.recent_runs.MAX_RUNS", 4)
    found = installed.call("stats")
    assert (found["looked_at"], found["partial"]) == (4, True)


def test_a_chart_is_partial_also_if_some_runs_were_suspended(
    installed: LocalInstallation, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        end_one(installed, 1)
    assert installed.call("stats_series")["partial"] is False
    installed.submit()
    (claimed,) = installed.claim()
    run_id = str(claimed.job.run_id)
    installed.report(c.SuspendRun(claimed.grant, run_id, "ask", "question", detail={"text": "?"}))
    monkeypatch.setattr("detent.operations.recent_runs.MAX_RUNS", 3)
    found = installed.call("stats_series")
    assert found["partial"] is True
    assert sum(span["succeeded"] for span in found["spans"]) == 2


def test_a_project_has_figures_of_its_own(installed: LocalInstallation) -> None:
    end_one(installed, 1, project="ours")
    end_one(installed, 9, project="theirs")
    for found in (installed.call("stats", project="ours"), installed.call("stats", OURS)):
        assert (found["ended"], found["durations"]["p50_s"]) == (1, 1.0)


def test_hours_are_bounded(installed: LocalInstallation) -> None:
    with pytest.raises(DetentError) as caught:
        installed.call("stats", hours=0)
    assert caught.value.details["field"] == "hours"


# ---- state -----------------------------------------------------------------------------------


def test_values_are_set_read_and_removed(installed: LocalInstallation) -> None:
    assert installed.call("set_state", name="release", value={"v": 1})["values"] == {
        "release": {"v": 1}
    }
    assert installed.call("show_state")["values"]["release"] == {"v": 1}
    installed.call("set_state", name="release", value=None)
    assert "release" not in installed.call("show_state")["values"]


@pytest.mark.parametrize(
    "name", [*LEADER_ROLES, *CURSORS, "trimmed", "run_counts", "retention_cursors", "rate:intent:x"]
)
def test_reserved_values_cannot_be_set(installed: LocalInstallation, name: str) -> None:
    with pytest.raises(DetentError) as caught:
        installed.call("set_state", name=name, value=1)
    assert caught.value.code == "refused"
    assert installed.rows("system_state") == {}


@pytest.mark.parametrize("name", ["Release", "a b", "a-b", "1st", "é", "x" * 101, "a.b", "_a"])
def test_an_odd_key_is_refused_and_can_still_be_removed(
    installed: LocalInstallation, name: str
) -> None:
    with pytest.raises(Invalid, match="name must be a lower-case letter") as caught:
        installed.call("set_state", name=name, value=1)
    assert (caught.value.field, caught.value.given) == ("name", name)
    installed.put("system_state", {name: 1})
    installed.call("set_state", name=name, value=None)
    assert name not in installed.rows("system_state")


def test_a_token_of_one_project_may_not_use_the_state(installed: LocalInstallation) -> None:
    for name, arguments in (("show_state", {}), ("set_state", {"name": "x", "value": 1})):
        with pytest.raises(DetentError) as caught:
            installed.call(name, OURS, **arguments)
        assert caught.value.code == "forbidden"


# ---- projects and intents --------------------------------------------------------------------


def test_a_project_is_created_once_and_counted(installed: LocalInstallation) -> None:
    made = installed.call("create_project", name="new")
    assert made == {"name": "new", "tasks": 0, "weight": 1}
    installed.submit(project="new")
    installed.submit(project="new", run=False)
    assert installed.call("create_project", name="new")["tasks"] == 2
    found = installed.call("show_project", name="new")
    assert found["tasks"] == {"queued": 1, "pending": 1}
    assert (found["jobs"], found["paused"]) == ({"queued": 1}, False)


def test_unknown_and_foreign_projects_are_not_found(installed: LocalInstallation) -> None:
    installed.submit(project="theirs")
    for caller, name in ((OURS, "theirs"), (OURS, "nothing")):
        with pytest.raises(DetentError) as caught:
            installed.call("show_project", caller, name=name)
        assert caught.value.code == "not_found"
    with pytest.raises(DetentError) as caught:
        installed.call("create_project", OURS, name="more")
    assert caught.value.code == "forbidden"


def test_a_created_project_is_accepted_while_projects_are_locked(tmp_path: Path) -> None:
    with local_installation(tmp_path, intake_projects_locked=True) as installed:
        with pytest.raises(DetentError):
            installed.submit(project="new")
        installed.call("create_project", name="new")
        assert installed.submit(project="new")


def test_intents_show_their_origins(installed: LocalInstallation) -> None:
    installed.put("intents", {"runQA": {}, "mine": {"planner": True}})
    row = {"seen_at": installed.clock(), "intents": ["runQA", "mine"]}
    installed.put("workers", {"w": row, "gone": {**row, "seen_at": 0}})
    installed.call("pause", intent="mine")
    found = {row["name"]: row for row in installed.call("list_intents")["items"]}
    assert found["runQA"]["origins"] == ["configuration", "worker"]
    assert found["review"]["origins"] == ["configuration"]
    assert (found["runQA"]["kind"], found["review"]["kind"]) == ("command", "agent")
    mine = found["mine"]
    assert (mine["kind"], mine["origins"], mine["paused"]) == ("planner", ["worker"], True)
    assert (mine["workers"], found["review"]["workers"]) == (1, 0)
