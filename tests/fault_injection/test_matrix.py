"""Every failpoint under every action on both stores: nothing is lost, and nothing is done twice."""

from pathlib import Path
from typing import Any

import pytest

from detent.failpoints import Action
from tools.web import ROOT
from verification.fault_injection import matrix, parts
from verification.fault_injection.fault_cells import Outcome
from verification.fault_injection.fault_scenes import SCENES, SLEEPERS
from verification.fault_injection.matrix import Databases
from verification.fault_injection.process_supervisor import ProcessSupervisor

#: `./dev faults` plays every action on both stores, with several seeds.
PLAYED = [
    *(("sqlite", action) for action in (Action.KILL, Action.STOP, Action.DELAY)),
    *(("postgres", action) for action in (Action.KILL, Action.RAISE)),
]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("stores", "action"), PLAYED, indirect=["stores"])
def test_every_failpoint_is_met_and_survived(
    action: Action, stores: Databases | None, supervisor: ProcessSupervisor, where: Path
) -> None:
    outcomes = matrix.run(supervisor, where, stores, matrix.together(action))
    assert [line for outcome in outcomes for line in outcome.lines()] == []
    assert sum(1 + len(each.scene.others) for each in outcomes) == len(SCENES)
    if action is Action.STOP:
        # A process may be stopped while another of its threads holds a lock; most are not.
        blocked = [each.name for each in outcomes if each.blocked]
        assert len(blocked) < len(outcomes) / 2, blocked


def test_a_seed_draws_the_passes_and_the_order_of_the_whole_matrix() -> None:
    one, again, other = (matrix.fault_cells_of([*Action], seed) for seed in (1, 1, 2))
    assert one == again != other
    every = {(scene, action) for scene in SCENES for action in Action}
    assert {each[:2] for each in one} == {each[:2] for each in other} == every
    assert {count for _, _, count in one} > {1, 2, 3}


@pytest.mark.parametrize("met_in_the_end", [True, False])
def test_a_cell_whose_pass_never_came_is_played_again(
    monkeypatch: pytest.MonkeyPatch, supervisor: ProcessSupervisor, met_in_the_end: bool
) -> None:
    counts: list[int | None] = []

    def play(*args: Any) -> list[Outcome]:
        found = []
        for scene, action, count in args[3]:
            counts.append(count)
            met = met_in_the_end and count is None
            found.append(Outcome(scene, action, "sqlite", hit=met, unmet=not met))
        return found

    monkeypatch.setattr(matrix, "run", play)
    result = parts.run("failpoints", parts.Order(size=parts.QUICK), supervisor, lambda _: None)
    assert (counts.count(None), len(counts)) == (len(SCENES), 2 * len(SCENES))
    assert len(result.problems) == (0 if met_in_the_end else len(SCENES))
    if result.bundle:
        Path(result.bundle).rmdir()


def test_every_failpoint_has_a_scene() -> None:
    assert matrix.unplayed() == set()


def test_the_tests_of_slack_play_its_failpoints() -> None:
    files = (ROOT / "tests" / "integrations").glob("test_slack_*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    assert [point for point in matrix.of_slack() if f'"{point}"' not in text] == []


@pytest.mark.timeout(1200)
def test_a_worker_that_wakes_while_another_holds_its_job_changes_nothing(
    stores: Databases | None, supervisor: ProcessSupervisor, where: Path
) -> None:
    trials = [(scene, Action.STOP, None) for scene in SLEEPERS]
    outcomes = matrix.run(supervisor, where, stores, trials)
    assert [line for outcome in outcomes for line in outcome.lines()] == []
    assert sum(not each.blocked for each in outcomes) >= len(SLEEPERS) / 2
