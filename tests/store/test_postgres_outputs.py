"""Output of runs as rows: read from any byte on, kept once, listed and removed run by run."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest

from detent.errors import Unavailable
from detent.operations.output_times import SHARED_START
from detent.store.blobs import Outputs, Piece
from detent.store.memory import MemoryStore
from detent.store.postgres import PostgresStore
from detent.worker.output_uploader import OutputUploader
from detent.worker.run_files import RunFiles


@pytest.fixture
def outputs(postgres_url: str) -> Iterator[Outputs]:
    store = PostgresStore(postgres_url)
    assert store.outputs is not None
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


def test_output_is_whole_if_a_committed_append_was_not_confirmed(
    outputs: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    monkeypatch.setattr(store, "outputs", outputs)
    uploader = OutputUploader(store)
    files = RunFiles(tmp_path, "r", on_output=uploader.on_output)
    files.write("committed, ")
    commit = outputs.append

    def commit_and_lose_the_answer(pieces: Sequence[Piece]) -> None:
        commit(pieces)
        raise Unavailable("the connection was lost", retry_after_s=1)

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "append", commit_and_lose_the_answer)
        uploader.ended(files)
    assert files.sent == 0
    files.write("and written since")
    uploader.ended(files)
    assert outputs.read("r", 0, 100) == b"committed, and written since"
    times = (files.path / "output.times").read_bytes()
    assert outputs.read("r", SHARED_START, 100) == times


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
    assert list(outputs.sizes("r1", 2)) == [("r2", 3), ("r3", 3)]
    outputs.remove(["r1", "r3", "missing"])
    assert list(outputs.runs("", 10)) == ["r0", "r2", "r4"]
    assert outputs.read("r1", 0, 10) == b""
