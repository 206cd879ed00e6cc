"""Retention of work, keys, output, blobs and files; and counts of runs that outlive them."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from detent import thresholds
from detent.engine import Engine, Idempotency
from detent.engine.claims import ClaimRequest
from detent.errors import Misconfigured
from detent.keeper import retention_sweep, run_directories, state_file
from detent.keeper.run_directories import RunDirectorySweeper, Sweep, Swept
from detent.kernel import commands as c
from detent.operations import installation
from detent.operations.context import Core
from detent.operations.evidence import attach_evidence
from detent.operations.output_times import RECORD, SHARED_START, read_times
from detent.operations.registry import OWNER
from detent.settings import Settings
from detent.store.blobs import Piece
from detent.store.port import Store
from detent.store.store_url import open_store
from detent.testing.audit import audit
from detent.testing.clock import VirtualClock

PERSON = c.Actor("person")
DAY_S = 86_400


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def core_on(store: Store, directory: Path, **settings: Any) -> Core:
    made = Settings(store_data_dir=str(directory), **settings)
    return Core(store, Engine(store), made, {"x": {}})


@pytest.fixture(params=["sqlite", "postgres"])
def core(tmp_path: Path, clock: VirtualClock, request: pytest.FixtureRequest) -> Iterator[Core]:
    url = str(tmp_path / "detent.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    store = open_store(url, clock=clock)
    yield core_on(store, tmp_path)
    audit(store)
    store.close()


def done(core: Core, task_id: str, *, fail: bool = False, **fields: Any) -> str:
    """A task whose run has ended; the run's id."""
    known = {"task_id": task_id, "project": "p", "lifecycle": "board", "intent": "x"}
    core.engine.do(c.SubmitTask(**{**known, "source": "cli", "queue": True, **fields}), PERSON)
    (claimed,) = core.engine.claim(ClaimRequest("w", "nonce", 1))
    run_id = str(claimed.job.run_id)
    end = c.FailRun(claimed.grant, run_id, "error", "no") if fail else None
    core.engine.do(end or c.CompleteRun(claimed.grant, run_id), PERSON)
    return run_id


def left(core: Core, run_id: str) -> Path:
    """The directory of a run, with output in it."""
    path = core.settings.data_dir / "runs" / run_id
    path.mkdir(parents=True)
    (path / "output.log").write_text("text")
    (path / "output.times").write_bytes(RECORD.pack(0, 1))
    return path


def sweep(core: Core, **options: Any) -> dict[str, int]:
    return Sweep(core, lambda *_: True, **options).run()._asdict()


# ---- work ----------------------------------------------------------------------------------


def test_deletions_are_counted_over_all_batches(
    core: Core, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_sweep, "MAX_ROWS", 2)
    for number in range(4):
        done(core, f"task-{number}")
    clock.advance(seconds=31 * DAY_S)
    assert retention_sweep.run_all(core, dry_run=True).work == 4
    assert retention_sweep.run_all(core).work == 4
    assert retention_sweep.run_all(core).work == 0


def test_refused_deletions_do_not_block_later_ones(
    core: Core, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_sweep, "MAX_ROWS", 2)
    for number in range(5):
        done(core, f"task-{number}", fail=True, lifecycle="review")
        clock.advance(seconds=1)
    waiting = c.SubmitTask(
        *("waiting", "p", "board", "x"), source="cli", depends_on=("task-0", "task-1")
    )
    core.engine.do(waiting, PERSON)
    clock.advance(seconds=400 * DAY_S)
    assert retention_sweep.run(core) == 3
    core.engine.do(c.CancelTask("waiting"), PERSON)
    assert retention_sweep.run(core) == 2


def test_more_refused_deletions_than_a_pass_has_rows_do_not_block_later_ones(
    core: Core, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_sweep, "MAX_ROWS", 2)
    monkeypatch.setattr(retention_sweep, "ROUNDS", 1)
    for number in range(5):
        done(core, f"task-{number}", fail=True, lifecycle="review")
        clock.advance(seconds=1)
    depends = c.SubmitTask("waiting", "p", "board", "x", source="cli", depends_on=("task-0",))
    core.engine.do(depends, PERSON)
    core.engine.do(replace(depends, task_id="other", depends_on=("task-1",)), PERSON)
    clock.advance(seconds=400 * DAY_S)
    passes = [retention_sweep.run(core) for _ in range(4)]
    assert passes == [0, 2, 1, 0]
    core.engine.do(c.CancelTask("waiting"), PERSON)
    core.engine.do(c.CancelTask("other"), PERSON)
    assert retention_sweep.run(core) + retention_sweep.run(core) == 2


# ---- keys, output, blobs -------------------------------------------------------------------


def test_expired_keys_are_deleted(core: Core, clock: VirtualClock) -> None:
    key = Idempotency("p", "k", "digest")
    core.engine.do(c.SubmitJob("j", "p", "x"), PERSON, key=key)
    assert retention_sweep.delete_expired_keys(core) == 0
    clock.advance(seconds=8 * DAY_S)
    assert retention_sweep.delete_expired_keys(core, dry_run=True) == 1
    assert retention_sweep.run(core) == 1
    assert retention_sweep.delete_expired_keys(core) == 0


def test_blobs_without_evidence_are_deleted(core: Core, clock: VirtualClock) -> None:
    run_id = done(core, "t")
    kept = attach_evidence(core, OWNER, run_id, "a.log", BytesIO(b"kept"))["sha256"]
    loose = core.store.blobs.put(BytesIO(b"loose")).sha256
    assert retention_sweep.delete_unused_blobs(core, "")[0] == 0  # its event may be on the way
    clock.advance(seconds=2 * DAY_S)
    assert retention_sweep.delete_unused_blobs(core, "", dry_run=True) == (1, 5, "")
    assert retention_sweep.delete_unused_blobs(core, "") == (1, 5, "")
    assert core.store.blobs.size(loose) is None
    assert core.store.blobs.size(kept) == 4
    clock.advance(seconds=30 * DAY_S)
    retention_sweep.run(core)
    assert core.store.blobs.size(kept) is None


WRITER = """
import signal, sys
from pathlib import Path
from detent.store.sqlite.blob_store import DirectoryBlobs

class Slow:
    def seek(self, at): pass
    def read(self, size):
        print("reading", flush=True)
        signal.pause()

DirectoryBlobs(Path(sys.argv[1]), lambda: 0).put(Slow())
"""


def test_the_file_that_a_killed_process_was_writing_is_deleted(
    tmp_path: Path, clock: VirtualClock
) -> None:
    core = core_on(open_store(str(tmp_path / "detent.db"), clock=clock), tmp_path)
    blobs = tmp_path / "blobs"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(blobs)], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "reading\n"
        writer.kill()
    (draft,) = blobs.iterdir()
    draft.write_bytes(b"half")
    now_ns = clock() * 1_000
    os.utime(draft, ns=(now_ns, now_ns))
    clock.advance(seconds=DAY_S)
    assert retention_sweep.run(core) == 0
    assert draft.exists()
    clock.advance(seconds=1)
    assert retention_sweep.run_all(core, dry_run=True)[-2:] == (1, 4)
    assert draft.exists()
    assert retention_sweep.run(core) == 1
    assert not draft.exists()
    core.store.close()


def test_a_pass_continues_where_the_last_one_ended(
    core: Core, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_sweep, "MAX_BLOBS", 2)
    for number in range(5):
        core.store.blobs.put(BytesIO(b"%d" % number))
    clock.advance(seconds=2 * DAY_S)
    assert [retention_sweep.run(core) for _ in range(4)] == [2, 2, 1, 0]


def test_output_has_its_own_retention_time(core: Core, clock: VirtualClock) -> None:
    outputs = core.store.outputs
    if outputs is None:
        run_id = done(core, "t")
        path = left(core, run_id)
        core.settings = Settings(
            store_data_dir=core.settings.store_data_dir, retention_output_days=2
        )
        clock.advance(seconds=3 * DAY_S)
        assert sweep(core)["outputs"] == 1
        assert path.exists()
        assert not (path / "output.log").exists()
        assert not (path / "output.times").exists()
        return
    old, live = done(core, "t"), done(core, "u", lifecycle="review")
    outputs.append([Piece(each, 0, b"text") for each in (old, live, "missing-r1")])
    outputs.append([Piece(old, SHARED_START, RECORD.pack(0, 1))])
    assert read_times(core.store, core.settings.data_dir, old).at(0) == 1
    assert retention_sweep.run(core) == 1  # of a run that is gone
    clock.advance(seconds=29 * DAY_S)
    retention_sweep.run(core)
    assert outputs.read(old, 0, 10) == b"text"
    core.settings = Settings(store_data_dir=core.settings.store_data_dir, retention_output_days=2)
    assert retention_sweep.run(core) == 1
    assert outputs.read(old, 0, 10) == b""
    assert read_times(core.store, core.settings.data_dir, old).at(0) is None
    assert outputs.read(live, 0, 10) == b"text"


# ---- directories ---------------------------------------------------------------------------


def test_directories_are_deleted_after_thirty_days_unless_the_task_is_live(
    core: Core, clock: VirtualClock
) -> None:
    over, ready = done(core, "t"), done(core, "u", lifecycle="review")
    paths = [left(core, over), left(core, ready)]
    clock.advance(seconds=31 * DAY_S)
    assert sweep(core, dry_run=True)["directories"] == 1
    assert all(path.exists() for path in paths)
    assert sweep(core)["directories"] == 1
    assert [path.exists() for path in paths] == [False, True]


def test_a_directory_of_a_deleted_task_is_deleted_after_a_day(
    core: Core, clock: VirtualClock
) -> None:
    path = left(core, done(core, "t"))
    core.engine.do(c.DeleteTask("t"), PERSON)
    for seconds, there in ((0, True), (DAY_S + 10, False)):
        clock.advance(seconds=seconds)
        at_s = clock.now / 1_000_000 - seconds
        os.utime(path, (at_s, at_s))
        sweep(core)
        assert path.exists() is there


def test_a_run_whose_worker_died_gets_its_summary(core: Core) -> None:
    path = left(core, done(core, "t"))
    assert sweep(core)["summaries"] == 1
    assert json.loads((path / "summary.json").read_text())["task"] == "t"
    assert sweep(core)["summaries"] == 0


def test_workspaces_of_deleted_tasks_are_deleted(core: Core, clock: VirtualClock) -> None:
    done(core, "t")
    for name in ("t", "gone"):
        path = core.settings.data_dir / "workspaces" / name
        path.mkdir(parents=True)
        os.utime(path, (1, 1))
    forgotten: list[str] = []

    def forget(_: Path, task: str) -> bool:
        forgotten.append(task)
        return True

    swept = Sweep(core, forget).run()
    assert (swept.workspaces, forgotten) == (1, ["gone"])


def test_a_link_instead_of_a_directory_is_not_followed(
    core: Core, tmp_path: Path, clock: VirtualClock
) -> None:
    run_id = done(core, "t")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (core.settings.data_dir / "runs").mkdir()
    (core.settings.data_dir / "runs" / run_id).symlink_to(outside)
    clock.advance(seconds=31 * DAY_S)
    sweep(core)
    assert (outside / "precious").read_text() == "x"


# ---- settings ------------------------------------------------------------------------------


def test_days_are_settings(core: Core, clock: VirtualClock) -> None:
    done(core, "t")
    clock.advance(seconds=2 * DAY_S)
    assert retention_sweep.run(core) == 0
    core.settings = Settings(store_data_dir=core.settings.store_data_dir, retention_done_days=1)
    assert retention_sweep.run(core) == 1


def test_thresholds_are_settings(core: Core) -> None:
    for number in range(4):
        known = (f"t{number}", "p", "board", "x", "cli")
        core.engine.do(c.SubmitTask(*known, queue=True), PERSON)
    assert installation.verdict(core).verdict == "ok"
    core.settings = Settings(health_queue_ok_below=2, health_queue_degraded_to=3)
    assert installation.verdict(core).verdict == "unhealthy"


def test_settings_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Misconfigured, match=r"health\.queue_ok_below"):
        thresholds.thresholds(Settings(health_queue_ok_below=60))
    with pytest.raises(Misconfigured, match=r"retention\.done_days"):
        thresholds.retention(Settings(retention_done_days=-1))


def test_a_failed_sweep_is_retried(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    swept = threading.Event()

    def run(_: Sweep) -> Swept:
        tried.append("once more")
        if len(tried) == 1:
            raise ValueError("something odd")
        swept.set()
        return Swept()

    monkeypatch.setattr(run_directories, "EVERY_S", 0.001)
    monkeypatch.setattr(Sweep, "run", run)
    part = RunDirectorySweeper(core, lambda *_: True)
    part.start()
    assert swept.wait(60)
    part.stop()


# ---- counting runs -------------------------------------------------------------------------


def test_runs_are_counted_incrementally(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    done(core, "one")
    assert state_file.refresh(core)["stats"] == {"succeeded": 1}

    def never(_: object) -> None:
        raise AssertionError("all runs were counted")

    monkeypatch.setattr(state_file, "_count_all", never)
    done(core, "two")
    done(core, "three", fail=True, options={"retry": {"retries": 0}})
    assert state_file.refresh(core)["stats"] == {"succeeded": 2, "failed": 1}
    core.engine.do(c.DeleteTask("one"), PERSON)
    assert state_file.refresh(core)["stats"] == {"succeeded": 2, "failed": 1}


def test_a_suspended_run_is_not_counted_as_success(core: Core) -> None:
    done(core, "one")
    for task_id, counted in (("two", {"succeeded": 1}), ("three", {"succeeded": 1})):
        core.engine.do(c.SubmitTask(task_id, "p", "board", "x", "api", queue=True), PERSON)
        (held,) = core.engine.claim(ClaimRequest("w", "n", 1))
        run_id = str(held.job.run_id)
        ask = c.SuspendRun(held.grant, run_id, "ask", "question", detail={"text": "?"})
        core.engine.do(ask, c.Actor("worker:w"))
        assert state_file.refresh(core)["stats"] == counted  # first all of them, then on from there


def test_two_processes_do_not_count_twice(core: Core, monkeypatch: pytest.MonkeyPatch) -> None:
    done(core, "one")
    state_file.refresh(core)
    done(core, "two")
    counted = state_file._counted(core)
    state_file.refresh(core)
    monkeypatch.setattr(
        state_file, "_counted", lambda _: counted
    )  # it was counted before the other
    done(core, "three")
    assert state_file.refresh(core)["stats"] == {"succeeded": 2}
    monkeypatch.undo()
    assert state_file.refresh(core)["stats"] == {"succeeded": 3}
