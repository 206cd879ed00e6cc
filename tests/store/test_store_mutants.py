"""Broken stores and broken sets of jobs are caught by the conformance suite."""

from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.store.postgres import PostgresStore
from detent.store.sqlite import SqliteStore
from detent.testing.conformance import CHECKS, OpenStore, run
from verification.store_mutants import MUTANTS, NOTICED_BY, OF_SETS, mutated


def check(name: str, open_store: OpenStore) -> None:
    run(CHECKS[NOTICED_BY[MUTANTS[name]]], open_store)


def check_file(name: str, path: Path) -> None:
    path.mkdir(exist_ok=True)
    check(name, lambda clock: SqliteStore(path / "detent.db", clock))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_broken_store_is_caught(name: str, tmp_path: Path) -> None:
    check_file(name, tmp_path / "sound")
    with mutated(name), pytest.raises((AssertionError, DetentError)):
        check_file(name, tmp_path)


@pytest.mark.parametrize("name", OF_SETS)
def test_broken_sets_are_caught_on_postgresql(name: str, postgres_url: str) -> None:
    """A store without sets decides about each job, so that it is not affected."""
    store = PostgresStore(postgres_url)
    with store.write() as tx:
        has_sets = tx.sets is not None
    store.close()
    with mutated(name):
        if has_sets:
            with pytest.raises((AssertionError, DetentError)):
                check(name, lambda clock: PostgresStore(postgres_url, clock))
        else:
            check(name, lambda clock: PostgresStore(postgres_url, clock))
