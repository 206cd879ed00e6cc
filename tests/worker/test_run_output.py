"""What runs leave is kept: evidence in blobs, output where others read it, a summary of each."""

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent import redaction
from detent.app.app import App
from detent.app.async_run_context import AsyncRun
from detent.app.run_context import Run
from detent.errors import Unavailable
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.output_times import SHARED_START
from detent.operations.run_output import read_bytes, read_output
from detent.store.blobs import Piece
from detent.store.memory import MemoryStore
from detent.worker.output_uploader import OutputUploader
from detent.worker.run_files import RunFiles
from tests.worker.waiting import DEADLINE_S, until, working


@pytest.fixture(autouse=True)
def no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """What may be the beginning of a secret is buffered: secrets of other tests are forgotten."""
    monkeypatch.setattr(redaction, "_values", set())
    monkeypatch.setattr(redaction, "_pattern", redaction.SECRET_FORM)


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


LEAVES = """
import os, pathlib
kept = pathlib.Path(os.environ["DETENT_EVIDENCE_DIR"])
(kept / "QA-DECISION.md").write_text("pass")
(kept / "shots").mkdir()
(kept / "shots" / "one.png").write_bytes(b"\\x89PNG" * 100)
(kept / "outside").symlink_to("/etc/passwd")
os.mkfifo(kept / "pipe")
print("left")
"""


def summary_of(core: Core, run_id: str) -> dict[str, Any]:
    path = core.settings.data_dir / "runs" / run_id / "summary.json"
    until(path.exists, "the summary")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def all_output(core: Core, run_id: str) -> bytes:
    """Everything, as it is read from the store alone."""
    nowhere = Path("/nowhere") if core.store.outputs is not None else core.settings.data_dir
    found = b""
    while data := read_bytes(core.store, nowhere, run_id, len(found), 100_000):
        found += data
    return found


def test_evidence_of_a_command_is_archived_and_summed_up(core: Core) -> None:
    app = App()
    app.command("leave", python(LEAVES))
    with working(core, app):
        handle = app.submit("leave", lifecycle="board")
        handle.result(timeout=DEADLINE_S)
        found = summary_of(core, f"{handle.job_id}-r1")
    assert found["state"] == "succeeded"
    assert (found["job"], found["task"]) == (handle.job_id, handle.task_id)
    assert (found["intent"], found["exit_code"], found["attempt"]) == ("leave", 0, 1)
    assert found["duration_ms"] >= 0
    assert [(each["file"], each["type"]) for each in found["evidence"]] == [
        ("QA-DECISION.md", "qa_report"),
        ("shots/one.png", "screenshot"),
    ]
    for each in found["evidence"]:
        data = b"".join(core.store.blobs.read(each["sha256"]))
        assert (len(data), hashlib.sha256(data).hexdigest()) == (each["size"], each["sha256"])
    assert all_output(core, found["run"]) == b"left\n"


def test_functions_keep_evidence_and_failures_have_summaries(core: Core) -> None:
    app = App()

    @app.intent("dig", retry={"retries": 0})
    def dig(run: Run) -> None:
        run.evidence("found.json", {"gold": 1})
        run.log("nothing more")
        raise ValueError("the spade broke")

    with working(core, app):
        handle = app.submit("dig")
        until(lambda: handle.state() == "failed")
        found = summary_of(core, f"{handle.job_id}-r1")
    assert found["state"] == "failed"
    assert "the spade broke" in found["error"]
    (kept,) = found["evidence"]
    assert json.loads(b"".join(core.store.blobs.read(kept["sha256"]))) == {"gold": 1}


def test_a_run_that_left_nothing_has_no_directory(core: Core) -> None:
    app = App()

    @app.intent("idle")
    def idle() -> None:
        pass

    with working(core, app):
        handle = app.submit("idle")
        handle.result(timeout=DEADLINE_S)
    assert not (core.settings.data_dir / "runs" / f"{handle.job_id}-r1").exists()


def test_the_end_is_never_reported_before_all_of_the_output(core: Core) -> None:
    app = App()

    @app.intent("chatty")
    def chatty(run: Run, lines: int) -> None:
        for number in range(lines):
            run.log(f"line {number}")

    @app.intent("chatty-too")
    async def chatty_too(run: AsyncRun, lines: int) -> None:
        for number in range(lines):
            await run.log(f"line {number}")

    wanted = "".join(f"line {number}\n" for number in range(500)).encode()
    with working(core, app):
        for intent in ("chatty", "chatty-too"):
            handle = app.submit(intent, {"lines": 500})
            handle.result(timeout=DEADLINE_S)
            assert all_output(core, f"{handle.job_id}-r1") == wanted


def test_output_is_read_while_the_run_goes_on(core: Core) -> None:
    app = App()
    app.command(
        "slow",
        python("import time; print('begun', flush=True); time.sleep(60)"),
    )
    with working(core, app):
        handle = app.submit("slow", lifecycle="board")
        run_id = f"{handle.job_id}-r1"
        until(lambda: all_output(core, run_id) == b"begun\n", "the first line")
        with core.store.read() as view:
            assert next(iter(view.runs([run_id]))).state == "running"
        core.engine.do(c.CancelTask(str(handle.task_id)), c.Actor("person"))
        until(lambda: handle.state() == "cancelled")
        assert summary_of(core, run_id)["state"] == "cancelled"


# ---- without a worker ------------------------------------------------------------------------


class Outputs:
    """A store of output that is sometimes unavailable."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []
        self.away = 0

    def append(self, pieces: list[Piece]) -> None:
        if self.away:
            self.away -= 1
            raise Unavailable("away", retry_after_s=1)
        self.pieces += pieces

    def text(self) -> bytes:
        """The output; the times of the output are below it."""
        return self._from(0)

    def times(self) -> bytes:
        return self._from(SHARED_START)

    def _from(self, start: int) -> bytes:
        found, end = b"", start
        for piece in self.pieces:
            if (piece.offset < 0) == (start < 0):
                assert piece.offset == end
                end += len(piece.data)
                found += piece.data
        return found


class Shared(MemoryStore):
    """A store whose output other machines read."""

    def __init__(self) -> None:
        super().__init__()
        self.outputs = Outputs()  # type: ignore[assignment]


def test_many_small_writes_become_few_pieces(tmp_path: Path) -> None:
    store = Shared()
    outputs: Any = store.outputs
    uploader = OutputUploader(store)
    files = RunFiles(tmp_path, "r", on_output=uploader.on_output)
    uploader.start()
    for number in range(1_000):
        files.write(f"{number}\n")
    until(lambda: files.sent == files.written)
    uploader.stop()
    assert outputs.text() == files.output()
    assert outputs.times() == (files.path / "output.times").read_bytes()
    assert len(outputs.pieces) < 100


def test_output_that_could_not_be_sent_is_sent_later(tmp_path: Path) -> None:
    store = Shared()
    outputs: Any = store.outputs
    outputs.away = 2
    uploader = OutputUploader(store)
    files = RunFiles(tmp_path, "r", on_output=uploader.on_output)
    files.write("kept in the file meanwhile")
    uploader.ended(files)
    assert outputs.pieces == []
    uploader.start()
    until(lambda: files.sent == files.written)
    uploader.stop()
    assert outputs.text() == b"kept in the file meanwhile"


def test_what_is_left_when_the_worker_stops_is_sent(tmp_path: Path) -> None:
    store = Shared()
    outputs: Any = store.outputs
    uploader = OutputUploader(store)
    uploader.start()
    files = RunFiles(tmp_path, "r", on_output=uploader.on_output)
    files.write("last words\n")
    uploader.stop()
    assert outputs.text() == b"last words\n"


def test_output_never_leaves_the_directory(tmp_path: Path) -> None:
    """Whatever a run's own program puts in the place of the file."""
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    plants: list[Callable[[Path, Path], None]] = [os.symlink, os.link]
    for number, plant in enumerate(plants):
        files = RunFiles(tmp_path / "runs", f"r{number}")
        plant(victim, files.directory() / "output.log")
        files.write("hostile")
        assert files.output() == b""
    os.mkfifo(RunFiles(tmp_path / "runs", "r9").directory() / "output.log")
    RunFiles(tmp_path / "runs", "r9").write("not read by the test")
    (RunFiles(tmp_path / "runs", "r10").directory() / "output.log").mkdir()
    RunFiles(tmp_path / "runs", "r10").write("nor this")
    assert victim.read_text() == "untouched"


def test_text_is_never_cut_within_a_letter(tmp_path: Path) -> None:
    store = MemoryStore()
    files = RunFiles(tmp_path / "runs", "r")
    whole = "grüße 🙂 ".encode()
    text, offset = "", 0
    for byte in whole:
        files.write(bytes([byte]))
        more = read_output(store, tmp_path, "r", offset)
        text += more.decode()
        offset += len(more)
    assert (text, offset) == (whole.decode(), len(whole))
