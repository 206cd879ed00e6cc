"""A broken store is caught by the conformance suite, or by the order of claims."""

from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.store.postgres import PostgresStore
from detent.store.sqlite import SqliteStore
from detent.testing.conformance import CHECKS, OpenStore, run
from verification.claim_order import check_order
from verification.mutant import applied
from verification.postgres_server import Cluster
from verification.store_mutants import (
    CLAIM_ORDER,
    MUTANTS,
    NOTICED_BY,
    OF_SETS,
    ON_POSTGRESQL,
)

OF_SQLITE = [name for name, each in MUTANTS.items() if each not in ON_POSTGRESQL]
OF_POSTGRESQL = [name for name, each in MUTANTS.items() if each in ON_POSTGRESQL]


def check(name: str, open_store: OpenStore) -> None:
    run(CHECKS[NOTICED_BY[MUTANTS[name]]], open_store)


def check_file(name: str, path: Path) -> None:
    path.mkdir(exist_ok=True)
    check(name, lambda clock: SqliteStore(path / "detent.db", clock))


@pytest.mark.parametrize("name", OF_SQLITE)
def test_a_broken_store_is_caught(name: str, tmp_path: Path) -> None:
    check_file(name, tmp_path / "sound")
    with applied(MUTANTS[name]), pytest.raises((AssertionError, DetentError)):
        check_file(name, tmp_path)


@pytest.mark.parametrize("name", OF_SETS)
def test_broken_sets_are_caught_on_postgresql(name: str, postgres_url: str) -> None:
    with applied(MUTANTS[name]), pytest.raises((AssertionError, DetentError)):
        check(name, lambda clock: PostgresStore(postgres_url, clock))


def check_on_postgresql(name: str, url: str) -> None:
    noticed_by = NOTICED_BY[MUTANTS[name]]
    if noticed_by == CLAIM_ORDER:
        check_order(url)
    else:
        check(name, lambda clock: PostgresStore(url, clock))


@pytest.mark.parametrize("name", OF_POSTGRESQL)
def test_a_broken_set_is_caught(
    name: str, postgres_url: str, postgres_server: Cluster, postgres_pattern: str
) -> None:
    check_on_postgresql(name, postgres_url)
    another = postgres_server.create_database(f"mutant_{len(name)}", template=postgres_pattern)
    with applied(MUTANTS[name]), pytest.raises((AssertionError, DetentError)):
        check_on_postgresql(name, another)
    postgres_server.drop_database(f"mutant_{len(name)}")
