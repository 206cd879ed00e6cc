"""The TLA+ model has exactly the states and transitions that the real kernel has."""

from dataclasses import replace

import pytest

from detent.kernel.task_lifecycle import TaskLifecycle
from detent.lifecycle_tla import Bounds
from detent.task_lifecycles import SHIPPED
from tests.lifecycles.declared_documents import document
from tests.sampling import sampled
from verification.lifecycle_model.kernel_search import kernel_graph
from verification.lifecycle_model.projection import Variables
from verification.lifecycle_model.state_graph import state_graph

ALONE = Bounds()
SUBTASK = Bounds(retries=0, lost=0, rounds=1, subtask=True)
DEPENDENCY = Bounds(retries=0, lost=0, rounds=1, dependency=True)
NAMES = ("board", "review", "release", "reminder")


def lifecycle(name: str) -> TaskLifecycle:
    return SHIPPED.get(name) or document(name)


CASES = [
    *((name, ALONE) for name in NAMES),
    *((name, DEPENDENCY) for name in NAMES),
    *((name, SUBTASK) for name in ("board", "review", "release")),
]


@pytest.mark.parametrize(("name", "bounds"), sampled(CASES, 3))
def test_tlc_and_the_kernel_reach_the_same_states(name: str, bounds: Bounds) -> None:
    model = state_graph(lifecycle(name), bounds)
    kernel = kernel_graph(lifecycle(name), bounds)
    assert model.states - kernel.states == frozenset()
    assert kernel.states - model.states == frozenset()
    assert model.transitions == kernel.transitions


def test_every_state_of_a_document_is_reached() -> None:
    for name in NAMES:
        states = {
            dict(state)["task"].state for state in kernel_graph(lifecycle(name), ALONE).states
        }
        assert states == set(lifecycle(name).state_names)


def test_a_model_of_other_rules_does_not_agree() -> None:
    """The comparison is not empty: one rule less, and the sets differ."""
    board = SHIPPED["board"]
    kernel = kernel_graph(board, ALONE)
    model = state_graph(replace(board, rules=board.rules[1:]), ALONE)
    started = Variables("doing", "running")
    assert (("task", started),) in kernel.states - model.states
