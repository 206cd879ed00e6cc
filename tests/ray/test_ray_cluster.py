"""Runs on a real Ray cluster. One test, because a cluster takes seconds to start."""

import fcntl
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from detent.app.handle import Handle
from detent.operations.context import Core
from detent.operations.why_reason import why_context
from detent.operations.why_reasons import why_job
from detent.store.types import Query
from detent.worker.runners.ray.ray_connection import RayConnection
from detent.worker.worker import Worker
from tests.docs.pages import blocks, imported
from tests.ports import free_port
from tests.ray import ray_app
from tests.worker import waiting
from tests.worker.waiting import error_of, installation, working
from verification import ray_node_kills
from verification.ray_cluster import ROOT, RayCluster

LIMIT = 1_000_000
#: Ray starts processes of several seconds of processor time each, which a busy machine delays.
WAIT_S = 600.0
until = partial(waiting.until, within_s=WAIT_S)


@pytest.mark.timeout(1_800)
def test_runs_on_a_real_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RayCluster(modules=tmp_path) as cluster:
        cluster.add_node(num_cpus=2, labels={"zone": "eu"})
        monkeypatch.setattr(RayConnection, "prefix", cluster.prefix)
        settings: dict[str, Any] = {
            "ray_address": cluster.address,
            "worker_output_limit": LIMIT,
            "worker_heartbeat_ms": 1_000,
            "worker_grace_ms": 5_000,
        }
        # A long lease: a busy machine must not lose it. The worker that is killed has a short one.
        with installation(tmp_path, lease_ms=120_000, **settings) as core:
            with working(core, ray_app.app, coroutines=100):
                check_results_and_failures(core, tmp_path)
                check_waiting_and_cancel(core, tmp_path)
                check_memory(core, cluster)
            check_the_page(core, tmp_path)
            check_a_task_outlives_its_workers(core, tmp_path, cluster)
            killed = ray_node_kills.run(cluster, core, tmp_path, 60, 2)
            assert killed.problems == []
            check_a_head_node_that_comes_back(core, tmp_path, cluster)


def test_a_cluster_that_is_down_is_named_and_nothing_is_lost(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    settings: dict[str, Any] = {"worker_grace_ms": 5_000, "ray_address": address}
    with installation(tmp_path, **settings) as core:
        with working(core, ray_app.app):
            handle = ray_app.double.submit(4)
            note = until(lambda: note_of(core, handle), "the reason")
            assert f"the Ray cluster at {address} cannot be used" in note
            assert "ConnectionRefusedError" in note
            assert "Start the cluster, or correct ray.address" in note
            assert handle.state() == "running"
        assert handle.state() == "queued"  # handed back by the worker that was stopped


def check_results_and_failures(core: Core, directory: Path) -> None:
    described = ray_app.describe.submit("hello")
    doubled = [ray_app.double.submit(n) for n in range(20)]
    flooded = ray_app.flood.submit(100)
    failed = {how: ray_app.fail.submit(how) for how in ("raise", "exit", "unpicklable")}
    crashed = ray_app.crash.submit(str(directory))
    labelled = ray_app.labelled.submit()
    assert [handle.result(WAIT_S) for handle in doubled] == [2 * n for n in range(20)]
    found = described.result(WAIT_S)
    assert (found["job"], found["attempt"]) == (described.job_id, 1)
    assert evidence(core, found["run"]) == {"note.txt", "numbers.json"}
    assert "from a child process\n" in output(core, described)
    assert flooded.result(WAIT_S) == 100
    until(lambda: "the output was cut here" in output(core, flooded), "the end of the output")
    assert LIMIT <= len(output(core, flooded)) < LIMIT + 1_000
    for handle in (*failed.values(), crashed):
        until(lambda each=handle: each.state() == "failed", "the failure")  # type: ignore[misc]
    assert "wrong on purpose" in error_of(failed["raise"])
    assert "Traceback" in output(core, failed["raise"])
    assert "exit(3)" in error_of(failed["exit"])
    assert "the result" in error_of(failed["unpicklable"])
    # The process died: the job was lost twice, and not retried by Ray.
    assert "Ray lost the task" in error_of(crashed)
    assert len(list(directory.glob("called-*"))) == 2
    assert labelled.result(WAIT_S) == "eu"


def check_waiting_and_cancel(core: Core, directory: Path) -> None:
    handle = ray_app.wait.submit(str(directory), "cancelled")
    missing = ray_app.gpu.submit()
    (begun,) = until(lambda: list(directory.glob("cancelled-*")), "the start")
    words = "Ray has no node with 1 CPU, 1 GPU, 1 of phone"
    until(lambda: words in note_of(core, missing), "the reason")
    handle.cancel()
    missing.cancel()
    until(lambda: {handle.state(), missing.state()} == {"cancelled"}, "the cancel")
    until(lambda: is_unlocked(begun), "the end of the process")
    begun.unlink()


def check_the_page(core: Core, directory: Path) -> None:
    """The example of the page does what the page says."""
    page = (ROOT / "docs/howto/ray.md").read_text("utf-8")
    (block,) = (each for each in blocks(page) if each.title == "training.py")
    training = imported(block, directory)
    with working(core, training.app):
        handle = training.train.submit(epochs=3)
        assert handle.result(WAIT_S) == 0.125
    assert "epoch 2: loss 0.125" in output(core, handle)
    assert evidence(core, runs(core, handle)[-1]["id"]) == {"loss.json"}


def check_a_task_outlives_its_workers(core: Core, directory: Path, cluster: RayCluster) -> None:
    """A worker is killed, a driver process is killed, a worker is stopped: one execution."""
    ray_app.app.bind(core)
    handle = ray_app.wait.submit(str(directory), "kept")
    argv = [sys.executable, "-m", "tests.ray.ray_worker", str(directory), cluster.address]
    worker = subprocess.Popen([*cluster.prefix, *argv], cwd=ROOT, env=cluster.environment)
    try:
        until(lambda: list(directory.glob("kept-*")), "the start")
        # The prefix replaces itself by the worker: this is the worker's process.
        os.kill(worker.pid, signal.SIGKILL)
    finally:
        worker.kill()
        worker.wait()
    with working(core, ray_app.app) as second:
        until(lambda: is_followed(second, handle), "the second run")
        connection = second.executor.runners.ray
        assert connection is not None
        assert connection.process is not None
        driver = connection.process
        os.kill(driver.pid, signal.SIGKILL)
        until(lambda: connection.process is not driver and connection.is_up, "another driver")
        assert handle.state() == "running"
    with working(core, ray_app.app):
        (directory / "go").touch()
        assert handle.result(WAIT_S).startswith("kept after fence ")
    assert len(list(directory.glob("kept-*"))) == 1
    *before, last = [row["outcome"] for row in runs(core, handle)]
    assert (set(before), last) == ({"worker_lost", "handed_back"}, "done")
    (directory / "go").unlink()


def check_memory(core: Core, cluster: RayCluster) -> None:
    """Ray's memory monitor ends the process of a task on a node that is short of memory."""
    limits = {"RAY_memory_monitor_refresh_ms": "100", "RAY_memory_usage_threshold": "0.001"}
    node = cluster.add_node(num_cpus=1, resources={"little_memory": 1}, env_vars=limits)
    handle = ray_app.fill_memory.submit()
    until(lambda: handle.state() == "failed", "the failure")
    assert runs(core, handle)[-1]["error_class"] == "resource_limit"
    assert "OutOfMemoryError" in error_of(handle)
    cluster.kill_node(node)


def check_a_head_node_that_comes_back(core: Core, directory: Path, cluster: RayCluster) -> None:
    """The head node ends in the middle of a run, and the task with it; the next one executes it.

    Meanwhile the run waits and says why, also if the next head node has another version of Ray.
    """
    with working(core, ray_app.app) as worker:
        handle = ray_app.wait.submit(str(directory), "cut")
        until(lambda: list(directory.glob("cut-*")), "the start")
        cluster.stop_head()
        unusable = f"the Ray cluster at {cluster.address} cannot be used"
        until(lambda: unusable in note_of(core, handle), "the reason")
        assert handle.state() == "running"
        assert len(worker.held_jobs) == 1
        cluster.start_head(version="2.59.0")
        until(lambda: "Ray: 2.59.0" in note_of(core, handle), "the other version")
        assert "Install the same versions of Ray and Python" in note_of(core, handle)
        cluster.stop_head()
        cluster.start_head()
        until(lambda: len(list(directory.glob("cut-*"))) == 2, "the second execution")
        (directory / "go").touch()
        assert handle.result(WAIT_S).startswith("cut after fence ")
    # The actor on the head node may report the loss before it ends with it.
    error = runs(core, handle)[0]["error"]
    assert "its head node was restarted" in error or error.startswith("Ray lost the task")


# ---- what is read ----------------------------------------------------------------------------


def runs(core: Core, handle: Handle[Any]) -> list[dict[str, Any]]:
    with core.store.read() as view:
        query = Query("runs", {"job_id": handle.job_id}, "queued_at", limit=100)
        return [dict(row) for row in view.page(query)]


def is_followed(worker: Worker, handle: Handle[Any]) -> bool:
    connection = worker.executor.runners.ray
    return connection is not None and connection.is_up and bool(connection.followers)


def is_unlocked(file: Path) -> bool:
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def note_of(core: Core, handle: Handle[Any]) -> str:
    """What `detent why` says that the run waits for."""
    with core.store.read() as view:
        (job,) = (job for job, _ in view.jobs([handle.job_id]))
        reasons = why_job(why_context(core, view), job)["reasons"]
    return next((str(each["detail"].get("note") or "") for each in reasons), "")


def output(core: Core, handle: Handle[Any]) -> str:
    last = runs(core, handle)[-1]["id"]
    return Path(core.settings.data_dir, "runs", last, "output.log").read_text("utf-8")


def evidence(core: Core, run_id: str) -> set[str]:
    with core.store.read() as view:
        rows = view.page(Query("evidence", {"run_id": run_id}, "file", limit=100))
    return {str(row["file"]) for row in rows}
