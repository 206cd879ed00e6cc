"""The worker records when output was written, and items of a transcript have these times."""

import sys
import time
from pathlib import Path

import pytest

from detent import views
from detent.app.app import App
from detent.operations.context import Core
from detent.operations.output_times import INTERVAL_S, LATEST, RECORD, OutputTimes, read_times
from detent.operations.registry import OWNER
from detent.operations.run_output import read_bytes
from detent.operations.run_transcript import run_transcript
from detent.worker import run_files
from detent.worker.run_files import RunFiles
from tests.worker.waiting import DEADLINE_S, until, working

WAITS = """
import pathlib, sys, time
print("one", flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.02)
print("two", flush=True)
"""


def test_items_have_the_time_at_which_the_worker_wrote_them(
    core: Core, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_files, "INTERVAL_S", 0.0)
    go, app = tmp_path / "go", App()
    app.command("talk", [sys.executable, "-c", WAITS, str(go)])
    before = time.time_ns() // 1_000
    with working(core, app):
        handle = app.submit("talk")
        run_id = f"{handle.job_id}-r1"
        place = (core.store, core.settings.data_dir, run_id)
        until(lambda: read_bytes(*place, 0, 100), "the first line")
        between = time.time_ns() // 1_000
        go.touch()
        handle.result(timeout=DEADLINE_S)
    after = time.time_ns() // 1_000
    page = run_transcript(core, OWNER, run_id=run_id)
    assert [each["text"] for each in page["items"]] == ["one", "two"]
    bounds = (views.utc(before), views.utc(between), views.utc(after))
    first, second = (str(each["at"]) for each in page["items"])
    assert bounds[0] <= first <= bounds[1] <= second <= bounds[2]
    assert read_times(*place).at(3) is not None


def test_a_flood_has_few_times(tmp_path: Path) -> None:
    files = RunFiles(tmp_path, "r1")
    began_s = time.monotonic()
    for _ in range(2_000):
        files.write(b"x\n")
    most = 1 + (time.monotonic() - began_s) / INTERVAL_S
    data = (tmp_path / "r1" / "output.times").read_bytes()
    assert RECORD.size <= len(data) <= most * RECORD.size
    assert files.times_written == len(data)


def test_the_time_of_an_offset() -> None:
    data = RECORD.pack(10, 1_000) + RECORD.pack(20, 2_000) + b"incomplete"
    times = OutputTimes(data)
    assert [times.at(offset) for offset in (0, 10, 19, 20, 1_000)] == [
        None,
        1_000,
        1_000,
        2_000,
        2_000,
    ]


def test_times_that_cannot_be_are_ignored() -> None:
    times = OutputTimes(RECORD.pack(0, -5) + RECORD.pack(0, LATEST) + RECORD.pack(-9, 7))
    assert times.at(3) == 7
    assert OutputTimes(b"").at(0) is None


def test_the_times_of_the_lines_of_a_part() -> None:
    times = OutputTimes(RECORD.pack(0, 10) + RECORD.pack(8, 20) + RECORD.pack(12, 30))
    data = b"one\ntwo\nthree\nfour"
    assert list(times.of_lines(data, 0)) == [(0, 10), (2, 20), (3, 30)]
    assert list(times.of_lines(data[4:], 4)) == [(0, 10), (1, 20), (2, 30)]
    assert list(times.of_lines(data[:8], 0)) == [(0, 10)]
    assert list(OutputTimes(b"").of_lines(data, 0)) == []
