"""Accepting with an action: what an agent wrote into the git directory has no effect on it."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from detent.worker.git_command import git_result
from detent.worker.workspaces import Workspaces
from tests.agents.repository import commit, git, make_repository
from tests.agents.scene import Scene
from tests.agents.test_acceptance import FIX, accept, merges, refused_with, reviewed

ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
MISSING = "1" * 40
SIGNATURE = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n AAAA\n -----END PGP SIGNATURE-----\n"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "repos" / "app", {"code.py": "broken = True\n", "b": "1\n"})


def program(tmp_path: Path) -> tuple[Path, Path]:
    """A program that an agent names in a configuration, and the file that it creates."""
    made, ran = tmp_path / "program", tmp_path / "ran"
    made.write_text(f"#!/bin/sh\ntouch {ran}\nexit 1\n")
    made.chmod(0o755)
    return made, ran


def name_a_promisor(repo: Path, named: Path) -> None:
    """Have git fetch missing objects with this program."""
    git(repo, "config", "core.repositoryFormatVersion", "1")
    git(repo, "config", "extensions.partialClone", "evil")
    git(repo, "config", "remote.evil.promisor", "true")
    git(repo, "config", "remote.evil.url", str(repo))
    git(repo, "config", "remote.evil.uploadpack", f"{named};")


# ---- programs --------------------------------------------------------------------------------


def test_a_missing_object_is_not_fetched(s: Scene, repo: Path, tmp_path: Path) -> None:
    named, ran = program(tmp_path)
    task_id = reviewed(s, repo, target_branch="release")
    with s.working():
        s.rests("ready")
        name_a_promisor(repo, named)
        (repo / ".git" / "refs" / "heads" / "release").write_text(f"{MISSING}\n")
        assert "has no branch refs/heads/release" in refused_with(s, task_id)
    assert not ran.exists()


def test_signatures_are_not_checked_with_a_program(s: Scene, repo: Path, tmp_path: Path) -> None:
    named, ran = program(tmp_path)
    task_id = reviewed(s, repo)
    with s.working():
        s.rests("ready")
        git(repo, "checkout", "--quiet", "-b", "side")
        commit(repo, {"b": "2\n"}, "side")
        git(repo, "checkout", "--quiet", "main")
        git(repo, "merge", "--quiet", "--no-ff", "-m", "by hand", "side")
        plain = git(repo, "cat-file", "commit", "HEAD") + "\n"
        head, _, message = plain.partition("\n\n")
        signed = f"{head}\n{SIGNATURE}\n{message}".encode()
        made = subprocess.run(
            ["git", "-C", str(repo), "hash-object", "-t", "commit", "-w", "--stdin"],
            input=signed,
            check=True,
            capture_output=True,
        )
        git(repo, "reset", "--quiet", "--hard", made.stdout.decode().strip())
        git(repo, "config", "log.showSignature", "true")
        git(repo, "config", "gpg.program", str(named))
        accept(s, task_id)
        s.rests("completed")
    assert not ran.exists()
    git(repo, "config", "--unset", "log.showSignature")
    assert len(merges(repo)) == 2


def test_git_runs_in_the_sandbox(
    s: Scene, repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program before git in the PATH is visible only outside the sandbox."""
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    outside, real = tmp_path / "outside.log", shutil.which("git")
    seen = tmp_path / "bin" / "git"
    seen.parent.mkdir()
    seen.write_text(f'#!/bin/sh\necho "$@" >> {outside}\nexec {real} "$@"\n')
    seen.chmod(0o755)
    monkeypatch.setenv("PATH", f"{seen.parent}:{os.environ['PATH']}")
    # The script itself: its file is hidden with everything else in the temporary directory.
    script = json.dumps({"runs": [FIX]})
    s.script(variables={"STAND_IN_SCRIPT": script}, repos=[str(repo.parent)])
    s.intent(workspace="worktree", on_accept="merge")
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
        shutil.rmtree(s.work().parent)  # the worktree is made again from its branch
        git(repo, "worktree", "prune")
        outside.write_text("")
        assert "has changed since the review" in refused_with(s, task_id)
        for name, content in (("code.py", "broken = False\n"), ("new.txt", "n\n")):
            (s.work() / name).write_text(content)
        accept(s, task_id)
        s.rests("completed")
    assert (repo / "code.py").read_text() == "broken = False\n"
    commands = {line.split(f"-C {repo} ")[-1] for line in outside.read_text().splitlines()}
    assert commands == {
        "rev-parse --path-format=absolute --git-common-dir",
        "worktree prune",
    }


def test_a_command_without_a_remote_starts_no_transport(tmp_path: Path, repo: Path) -> None:
    named, ran = program(tmp_path)
    name_a_promisor(repo, named)
    asked = ["rev-parse", "--verify", f"{MISSING}^{{commit}}"]
    assert git_result(repo, asked, ENVIRONMENT).returncode != 0
    assert not ran.exists()


# ---- the reviewed diff -----------------------------------------------------------------------


def diff_of(directory: Path) -> bytes:
    found = Workspaces(directory).find("task-1")
    assert found is not None
    with found.staged(ENVIRONMENT, directory / "index.part", list) as staged:
        assert staged is not None
        return staged.diff()


def test_a_submodule_cannot_be_hidden_from_the_diff(tmp_path: Path, repo: Path) -> None:
    made = Workspaces(tmp_path).branch_for("task-1", repo, None, ENVIRONMENT)
    git(made.work, "update-index", "--add", "--cacheinfo", f"160000,{MISSING},module")
    git(made.work, "commit", "--quiet", "--message", "module")
    (made.work / "module").mkdir()
    git(repo, "config", "diff.ignoreSubmodules", "all")
    assert f"+Subproject commit {MISSING}".encode() in diff_of(tmp_path)


def test_a_replaced_object_is_shown_as_it_is(tmp_path: Path, repo: Path) -> None:
    made = Workspaces(tmp_path).branch_for("task-1", repo, None, ENVIRONMENT)
    commit(made.work, {"code.py": "import evil\n"}, "work")
    plain = diff_of(tmp_path)
    (tmp_path / "good").write_text("import good\n")
    good = git(repo, "hash-object", "-w", str(tmp_path / "good"))
    evil = git(made.work, "rev-parse", "HEAD:code.py")
    git(repo, "replace", evil, good)
    # So that git reads the object and not the equal file of the work tree.
    (repo / ".git" / "info" / "attributes").write_text("* ident\n")
    assert b"+import evil" in plain
    assert diff_of(tmp_path) == plain


def test_grafts_do_not_move_the_start_of_the_diff(tmp_path: Path, repo: Path) -> None:
    made = Workspaces(tmp_path).branch_for("task-1", repo, None, ENVIRONMENT)
    first = git(repo, "rev-parse", "main")
    head = commit(made.work, {"code.py": "import evil\n"}, "work")
    plain = diff_of(tmp_path)
    # As if the work were part of the history of main.
    (repo / ".git" / "info" / "grafts").write_text(f"{first} {head}\n{head}\n")
    assert hashlib.sha256(diff_of(tmp_path)).digest() == hashlib.sha256(plain).digest()
    assert b"+import evil" in plain
