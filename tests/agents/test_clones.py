"""Workspaces that are clones, and workspaces for one attempt: what gets into the repository."""

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from detent.kernel import commands as c
from detent.worker.workspaces import CLONE, Workspaces, forget
from tests.agents.accept_worker import declare
from tests.agents.repository import commit, git, make_repository
from tests.agents.scene import Scene
from tests.agents.test_acceptance import FIX, accept, merges, refused_with, reviewed
from tests.worker.waiting import DEADLINE_S

ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
Steps = list[dict[str, Any]]
MORE: Steps = [{"write": {"more.txt": "m\n"}}, {"commit": "more"}]
MERGE: Steps = [{"git": ["merge", "--quiet", "-X", "ours", "-m", "merge", "main"]}]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n", "b": "1\n"})


def changes(s: Scene) -> str:
    """The diff of the last run."""
    runs = s.core.settings.data_dir / "runs"
    return (runs / str(s.run()["id"]) / "evidence" / "changes.diff").read_text()


def test_a_clone_is_reviewed_rejected_and_merged(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, FIX, MORE, MERGE, workspace="clone")
    with s.working():
        s.rests("ready")
        assert (s.work() / ".git").is_dir()
        assert "+broken = False" in changes(s)
        s.do(c.RejectTask(task_id, "and more", run=True))
        s.rests("ready", rounds=1)
        assert "more.txt" in changes(s)
        assert "+broken = False" in changes(s)
        # The repository has what the agent has committed.
        assert git(repo, "show", f"detent/{task_id}:more.txt") == "m"
        commit(repo, {"code.py": "broken = None\n", "b": "2\n"}, "meanwhile")
        accept(s, task_id)
        s.rests("ready", rounds=2)  # there was a conflict, and the agent has merged main
        assert "b/b" not in changes(s)
        accept(s, task_id)
        s.rests("completed")
    (merge,) = merges(repo)
    assert git(repo, "rev-parse", f"{merge}^2") == git(repo, "rev-parse", f"detent/{task_id}")
    found = {name: (repo / name).read_text() for name in ("code.py", "new.txt", "more.txt", "b")}
    assert found == {
        "code.py": "broken = False\n",
        "new.txt": "n\n",
        "more.txt": "m\n",
        "b": "2\n",
    }
    assert git(repo, "status", "--porcelain") == ""
    assert len(s.sessions()) == 1


HOSTILE = """
import pathlib, subprocess, sys
touch, repo = "touch " + sys.argv[1], sys.argv[2]
own, other = pathlib.Path(".git"), pathlib.Path(repo, ".git")
def attempt(*argv):
    subprocess.run(argv, check=False, capture_output=True)
for place in (own, other):
    for hook in ("post-checkout", "reference-transaction", "post-merge", "pre-push"):
        try:
            (place / "hooks").mkdir(exist_ok=True)
            (place / "hooks" / hook).write_text("#!/bin/sh\\n" + touch)
            (place / "hooks" / hook).chmod(0o755)
        except OSError:
            pass
for where in (".", repo):
    attempt("git", "-C", where, "config", "filter.mine.clean", touch + "; cat")
    attempt("git", "-C", where, "config", "filter.mine.smudge", touch + "; cat")
    attempt("git", "-C", where, "config", "uploadpack.packObjectsHook", touch + "; exec")
    attempt("git", "-C", where, "branch", "evil")
    attempt("git", "-C", where, "tag", "evil")
attempt("git", "push", "origin", "HEAD:refs/heads/evil")
attempt("git", "push", repo, "HEAD:refs/heads/evil")
pathlib.Path(".gitattributes").write_text("* filter=mine\\n")
pathlib.Path("code.py").write_text("broken = False\\n")
"""


def test_what_an_agent_writes_into_its_clone_does_not_change_the_repository(
    s: Scene, repo: Path, tmp_path: Path
) -> None:
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    ran = tmp_path / "ran"
    config = (repo / ".git" / "config").read_bytes()
    hooks = sorted(each.name for each in (repo / ".git" / "hooks").iterdir())
    argv = [sys.executable, "-c", HOSTILE, str(ran), str(repo), "{prompt}"]
    s.script(argv=argv, success="exit", repos=[str(repo.parent)])
    s.intent(workspace="clone", on_accept="merge")
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
        assert git(s.work(), "rev-parse", "evil")  # the agent did write into its clone
        accept(s, task_id)
        s.rests("completed")
    assert (repo / "code.py").read_text() == "broken = False\n"
    assert (repo / ".git" / "config").read_bytes() == config
    assert sorted(each.name for each in (repo / ".git" / "hooks").iterdir()) == hooks
    refs = git(repo, "for-each-ref", "--format=%(refname)").splitlines()
    assert refs == [f"refs/heads/detent/{task_id}", "refs/heads/main"]
    assert not ran.exists()


def test_a_worker_that_is_killed_between_the_fetch_and_the_merge_is_replaced(
    s: Scene, repo: Path, tmp_path: Path
) -> None:
    task_id = reviewed(s, repo, workspace="clone")
    with s.working():
        s.rests("ready")
    s.do(c.AcceptTask(task_id, "good"))
    # A git that kills the worker instead of merging.
    deadly, real = tmp_path / "bin" / "git", shutil.which("git")
    deadly.parent.mkdir()
    deadly.write_text(
        f'#!/bin/sh\ncase " $* " in *" merge-tree "*) kill -9 $PPID; exit 1;; esac\n'
        f'exec {real} "$@"\n'
    )
    deadly.chmod(0o755)
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.agents.accept_worker", str(tmp_path), "victim"],
        env={**os.environ, "PATH": f"{deadly.parent}:{os.environ['PATH']}"},
    )
    assert victim.wait(DEADLINE_S) == -signal.SIGKILL
    fetched = git(repo, "rev-parse", f"detent/{task_id}")
    assert "Detent-Verdict" in git(repo, "show", "--no-patch", fetched)
    assert merges(repo) == []
    with s.core.store.read() as view:
        job = next(job for job, _ in view.jobs([f"{task_id}-j2"]))
    s.core.engine.do(c.ReclaimJob(job.id, job.fence), c.Actor("clock"))
    with s.working():
        s.rests("completed")
    (merge,) = merges(repo)
    assert git(repo, "rev-parse", f"{merge}^2") == fetched
    assert (repo / "code.py").read_text() == "broken = False\n"


@pytest.mark.parametrize("mode", ["worktree", "clone"])
def test_an_attempt_after_a_failure_starts_at_the_last_good_commit(
    s: Scene, repo: Path, mode: str
) -> None:
    bad: Steps = [
        {"write": {"bad.txt": "x"}},
        {"commit": "bad"},
        {"write": {"b": "x"}},
        {"exit": 1},
    ]
    last: Steps = [{"look": ["new.txt", "bad.txt"]}, *MORE]
    declare(s, bad, FIX, bad, last, workspace=mode, workspace_per="attempt")
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        s.rests("failed")
        s.do(c.RetryTask(task_id))
        s.rests("ready")
        assert "bad.txt" not in changes(s)
        s.do(c.RejectTask(task_id, "and more", run=True))
        s.rests("failed", rounds=1)
        # A rejection continues the session, in its workspace.
        assert "new.txt" in changes(s)
        assert [len(each["prompts"]) for each in s.sessions()] == [1, 2]
        s.do(c.RetryTask(task_id))
        s.rests("ready", rounds=1)
        assert '"found": {"new.txt": true, "bad.txt": false}' in s.output()
        assert len(s.sessions()) == 3
        accept(s, task_id)
        s.rests("completed")
    assert sorted(each.name for each in repo.iterdir()) == [
        *(".git", "b", "code.py", "more.txt", "new.txt")
    ]
    assert (repo / "b").read_text() == "1\n"


def test_a_new_workspace_that_was_interrupted_is_made_again(tmp_path: Path, repo: Path) -> None:
    spaces = Workspaces(tmp_path)
    first = spaces.branch_for("task-1", repo, None, ENVIRONMENT, mode=CLONE)
    first.hold("session-1")
    good = commit(first.work, {"code.py": "broken = False\n"}, "good")
    first.publish(good, ENVIRONMENT, list)
    first.with_good(good)
    commit(first.work, {"bad.txt": "x"}, "bad")
    shutil.rmtree(first.work)  # killed while it was being replaced
    again = spaces.branch_for("task-1", repo, None, ENVIRONMENT, mode=CLONE, failed_run="run-1")
    assert git(again.work, "rev-parse", "HEAD") == good
    assert again.base == first.base
    assert not spaces.holds("task-1", "session-1")
    # The next run of the same attempt continues in it.
    (again.work / "kept.txt").write_text("k")
    same = spaces.branch_for("task-1", repo, None, ENVIRONMENT, mode=CLONE, failed_run="run-1")
    assert (same.work / "kept.txt").exists()
    assert forget(tmp_path, "task-1")
    assert git(repo, "rev-parse", "detent/task-1") == good


def test_a_branch_that_is_checked_out_is_not_overwritten(s: Scene, repo: Path) -> None:
    task_id = reviewed(s, repo, workspace="clone")
    with s.working():
        s.rests("ready")
        git(repo, "checkout", "--quiet", f"detent/{task_id}")
        assert "refusing to fetch into branch" in refused_with(s, task_id)
        git(repo, "checkout", "--quiet", "main")
        accept(s, task_id)
        s.rests("completed")
    assert len(merges(repo)) == 1
