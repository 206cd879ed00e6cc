"""Every failpoint under every action on both stores: nothing is lost, and nothing is done twice."""

from pathlib import Path

import pytest

from detent.failpoints import Action
from detent.testing.torture import matrix
from detent.testing.torture.cells import SCENES, SLEEPERS
from detent.testing.torture.matrix import Databases
from detent.testing.torture.nursery import Nursery


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("action", Action)
def test_every_failpoint_is_met_and_survived(
    action: Action, stores: Databases | None, nursery: Nursery, where: Path
) -> None:
    outcomes = matrix.run(nursery, where, stores, matrix.together(action))
    assert [line for outcome in outcomes for line in outcome.lines()] == []
    assert sum(1 + len(each.scene.others) for each in outcomes) == len(SCENES)
    if action is Action.STOP:
        # A process may be stopped while another of its threads holds a lock; most are not.
        blocked = [each.name for each in outcomes if each.blocked]
        assert len(blocked) < len(outcomes) / 2, blocked


def test_a_seed_draws_the_passes_and_the_order_of_the_whole_matrix() -> None:
    one, again, other = (matrix.cells_of([*Action], seed) for seed in (1, 1, 2))
    assert one == again != other
    every = {(scene, action) for scene in SCENES for action in Action}
    assert {each[:2] for each in one} == {each[:2] for each in other} == every
    assert {count for _, _, count in one} > {1, 2, 3}


def test_every_failpoint_has_a_scene() -> None:
    assert matrix.unplayed() == set()


@pytest.mark.timeout(1200)
def test_a_worker_that_wakes_while_another_holds_its_job_changes_nothing(
    stores: Databases | None, nursery: Nursery, where: Path
) -> None:
    trials = [(scene, Action.STOP, None) for scene in SLEEPERS]
    outcomes = matrix.run(nursery, where, stores, trials)
    assert [line for outcome in outcomes for line in outcome.lines()] == []
    assert sum(not each.blocked for each in outcomes) >= len(SLEEPERS) / 2
