"""Which tests have a second attempt, and the order in which processes run tests."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import FINAL, SECOND_ATTEMPT, dealt

TESTS = Path(__file__).resolve().parents[1]
#: Nothing here depends on the machine, or a guarantee is tested: a failure is final.
NEVER = (
    *("engine", "fault_injection", "faults", "kernel", "lifecycles", "operations", "review"),
    *("simulation", "store", "submission", "tidy", "transcript"),
)


def test_the_list_names_directories_and_files_that_exist() -> None:
    assert [each for each in SECOND_ATTEMPT if not (TESTS / each).is_dir()] == []
    assert [each for each in FINAL if not (TESTS / each).is_file()] == []
    assert {Path(each).parts[0] for each in FINAL} <= SECOND_ATTEMPT
    assert SECOND_ATTEMPT.isdisjoint(NEVER)


def test_this_test_has_none(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("flaky") is None


def test_every_process_begins_with_long_tests() -> None:
    """Three files of long tests and five of short ones for two processes, four tests in each."""
    sizes = {"agents": 3, "kernel": 5}
    items: list[Any] = [
        SimpleNamespace(path=TESTS / directory / f"test_{file}.py", number=number)
        for directory, files in sizes.items()
        for file in range(files)
        for number in range(4)
    ]
    ordered: list[Any] = dealt(items, 2)
    names = [f"{each.path.parent.name}{each.path.stem[-1]}" for each in ordered]
    assert names[::4] == ["agents0", "agents2", "kernel0", "kernel1", "agents1", *names[20::4]]
    assert names[20::4] == ["kernel2", "kernel3", "kernel4"]
    assert [each.number for each in ordered] == [0, 1, 2, 3] * 8
