"""Accepting with a push: the branch of the task is pushed to a remote of its repository."""

from pathlib import Path

import pytest

from tests.agents.repository import commit, git, make_repository
from tests.agents.scene import Scene
from tests.agents.test_acceptance import FIX, accept, merges, refused_with, reviewed, shown
from tests.worker.waiting import until


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n", "b": "1\n"})


def test_the_branch_is_pushed_to_a_remote(s: Scene, repo: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    git(repo, "remote", "add", "upstream", str(remote))
    task_id = reviewed(s, repo, on_accept="push", push_remote="upstream")
    with s.working():
        s.rests("ready")
        accept(s, task_id)
        s.rests("completed")
    assert git(remote, "show", f"detent/{task_id}:code.py") == "broken = False"
    assert merges(repo) == []


def test_a_remote_that_refuses_is_shown(s: Scene, repo: Path, tmp_path: Path) -> None:
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    task_id = reviewed(s, repo, on_accept="push", target_branch="main")
    with s.working():
        s.rests("ready")
        assert "has no remote origin" in refused_with(s, task_id)
        git(repo, "remote", "add", "origin", str(remote))
        hook = remote / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\necho 'main is protected' >&2\nexit 1\n")
        hook.chmod(0o755)
        accept(s, task_id)
        until(
            lambda: "main is protected" in (shown(s, task_id)["acceptance"]["problem"] or ""),
            "the refusal of the remote",
        )
        assert "hint:" not in shown(s, task_id)["acceptance"]["problem"]
        s.rests("ready")
        hook.unlink()
        accept(s, task_id)
        s.rests("completed")
    assert git(remote, "show", "main:code.py") == "broken = False"


def test_a_push_that_others_have_built_on_is_not_repeated(
    s: Scene, repo: Path, tmp_path: Path
) -> None:
    """As after a crash between the push and its record."""
    remote, other = tmp_path / "remote.git", tmp_path / "other"
    git(tmp_path, "init", "--quiet", "--bare", str(remote))
    git(repo, "remote", "add", "origin", str(remote))
    task_id = reviewed(s, repo, [*FIX, {"commit": "fix"}], on_accept="push")
    name = f"detent/{task_id}"
    with s.working():
        s.rests("ready")
        git(repo, "push", "--quiet", "origin", name)
        git(tmp_path, "clone", "--quiet", "--branch", name, str(remote), str(other))
        later = commit(other, {"b": "2\n"}, "later")
        git(other, "push", "--quiet", "origin", name)
        accept(s, task_id)
        s.rests("completed")
    assert git(remote, "rev-parse", name) == later
