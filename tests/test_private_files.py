"""Files that are replaced: by several writers, and by one that fails."""

import json
import stat
from pathlib import Path

import pytest

from detent.private_files import replacing


def test_two_writers_at_the_same_time(tmp_path: Path) -> None:
    path = tmp_path / "store.json"
    with replacing(path) as first:
        first.write("first")
        with replacing(path) as second:
            second.write("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_a_writer_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "store.json"
    path.write_text("before")
    with pytest.raises(TypeError), replacing(path) as file:
        json.dump({"state": object()}, file)
    assert path.read_text() == "before"
    assert [*tmp_path.iterdir()] == [path]
