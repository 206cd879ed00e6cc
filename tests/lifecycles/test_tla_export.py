"""The TLA+ module of a lifecycle: what is in it, and that TLC accepts it."""

import pytest

from detent.lifecycle_tla import Bounds, configuration, export
from detent.lifecycle_tla.checker import check
from detent.task_lifecycles import SHIPPED

BOARD = SHIPPED["board"]


def test_the_module_has_the_rows_and_rules_of_the_document() -> None:
    module = export(BOARD)
    assert "MODULE board" in module
    for row in BOARD.rows:
        assert row.source is None or f'<<"{row.source}", "{row.event}", "{row.target}">>' in module
    assert "\\* After job_completed, if subtasks_are_open: task_blocked." in module
    assert "@DECLARED@" not in module


def test_the_configuration_has_the_bounds() -> None:
    text = configuration(BOARD, Bounds(retries=5, rounds=4, subtask=True))
    assert "ErrorRetries = 3" in text  # as many as the document allows
    assert "TimeoutRetries = 1" in text
    assert "RoundLimit = 4" in text
    assert "WithSubtask = TRUE" in text


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_tlc_finds_no_error_in_a_shipped_lifecycle(name: str) -> None:
    found = check(SHIPPED[name])
    assert found.violated is None
    assert found.distinct > 50
