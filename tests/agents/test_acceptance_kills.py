"""A worker process is killed at each step of an acceptance: the work is merged exactly once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from detent import failpoints
from detent.kernel import commands as c
from tests.agents.accept_worker import SETTINGS, declare
from tests.agents.repository import git, make_repository
from tests.agents.scene import Scene, scene
from tests.worker.waiting import DEADLINE_S, until

FIX = [{"write": {"code.py": "broken = False\n"}}]
#: Where the worker is killed, in the order in which a run passes them.
POINTS = (
    "claim.after",
    "run.start",
    "effect.begun",
    "effect.done",
    "report.before",
    "report.after",
)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n"})


@pytest.fixture
def s(tmp_path: Path) -> Iterator[Scene]:
    with scene(tmp_path, **SETTINGS) as made:
        yield made


def start(directory: Path, name: str, point: str | None = None) -> "subprocess.Popen[bytes]":
    """A worker process; it kills itself when it passes the failpoint."""
    armed = {} if point is None else {failpoints.VARIABLE: f"{point}:kill", failpoints.TESTING: "1"}
    command = [sys.executable, "-m", "tests.agents.accept_worker", str(directory), name]
    return subprocess.Popen(command, env={**os.environ, **armed})


def stop(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    process.wait(DEADLINE_S)


@pytest.mark.parametrize("point", POINTS)
def test_the_work_is_merged_once_whenever_the_worker_is_killed(
    s: Scene, repo: Path, tmp_path: Path, point: str
) -> None:
    declare(s, FIX)
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
    s.do(c.AcceptTask(task_id, "good"))
    victim = start(tmp_path, "victim", point)
    assert victim.wait(DEADLINE_S) == -signal.SIGKILL
    merged = git(repo, "log", "--merges", "--format=%H").splitlines()
    assert len(merged) == (1 if POINTS.index(point) >= POINTS.index("effect.done") else 0)
    with s.core.store.read() as view:
        job = next(job for job, _ in view.jobs([f"{task_id}-j2"]))
    if job.state == "running":
        assert s.task().state == "running"
        # As when its lease has expired; the test does not wait for that.
        s.core.engine.do(c.ReclaimJob(job.id, job.fence), c.Actor("clock"))
    else:
        assert point == "report.after"
    other = start(tmp_path, "other")
    try:
        until(lambda: s.task().state == "completed", "the task is accepted")
    finally:
        stop(other)
    assert len(git(repo, "log", "--merges", "--format=%H").splitlines()) == 1
    assert (repo / "code.py").read_text() == "broken = False\n"
    assert git(repo, "status", "--porcelain") == ""
    assert s.names().count("task_accepted") == 1


def test_a_try_that_wrote_the_files_but_not_the_branch_is_finished(s: Scene, repo: Path) -> None:
    """As when git is killed after it has updated the checked-out files."""
    declare(s, FIX)
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
    (repo / "code.py").write_text("broken = False\n")
    git(repo, "add", "code.py")
    with s.working():
        s.do(c.AcceptTask(task_id))
        s.rests("completed")
    assert git(repo, "status", "--porcelain") == ""
    assert len(git(repo, "log", "--merges", "--format=%H").splitlines()) == 1
