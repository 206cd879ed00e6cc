"""Output of runs as rows: read from any byte on, kept once, listed and removed run by run."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from detent.store.blobs import Outputs, Piece
from detent.store.postgres import PostgresStore


@pytest.fixture
def outputs(postgres_url: str) -> Iterator[Outputs]:
    store = PostgresStore(postgres_url)
    yield store.outputs
    store.close()


def test_every_range_of_it_is_read(outputs: Outputs) -> None:
    whole = bytes(range(200))
    cuts = [0, 1, 7, 50, 51, 120, 200]
    pairs = pairwise(cuts)
    outputs.append([Piece("r", start, whole[start:end]) for start, end in pairs])
    for offset in range(202):
        for limit in (1, 3, 49, 200):
            assert outputs.read("r", offset, limit) == whole[offset : offset + limit]
    assert outputs.read("missing", 0, 10) == b""


def test_a_piece_that_is_sent_twice_is_kept_once(outputs: Outputs) -> None:
    for _ in range(2):
        outputs.append([Piece("r", 0, b"first "), Piece("r", 6, b"second")])
    assert outputs.read("r", 0, 100) == b"first second"


def test_a_gap_ends_what_is_read(outputs: Outputs) -> None:
    outputs.append([Piece("r", 0, b"there"), Piece("r", 9, b"later")])
    assert outputs.read("r", 0, 100) == b"there"
    assert outputs.read("r", 6, 100) == b""


def test_runs_with_output_are_listed_in_pages(outputs: Outputs) -> None:
    names = [f"r{number}" for number in range(5)]
    outputs.append([Piece(name, at, b"x") for name in names for at in range(3)])
    found: list[str] = []
    while page := outputs.runs(found[-1] if found else "", 2):
        found += page
    assert found == names
    outputs.remove(["r1", "r3", "missing"])
    assert list(outputs.runs("", 10)) == ["r0", "r2", "r4"]
    assert outputs.read("r1", 0, 10) == b""
