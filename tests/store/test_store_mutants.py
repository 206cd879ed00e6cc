"""A broken SQLite store is caught by the conformance suite."""

from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.store.sqlite import SqliteStore
from detent.testing.conformance import CHECKS, run
from verification.store_mutants import MUTANTS, NOTICED_BY, mutated


def check(name: str, path: Path) -> None:
    function = CHECKS[NOTICED_BY[MUTANTS[name]]]
    run(function, lambda clock: SqliteStore(path / "detent.db", clock))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_store_is_caught(name: str, tmp_path: Path) -> None:
    (tmp_path / "sound").mkdir()
    check(name, tmp_path / "sound")
    with mutated(name), pytest.raises((AssertionError, DetentError)):
        check(name, tmp_path)
