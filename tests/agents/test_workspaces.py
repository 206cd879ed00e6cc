"""Where agents work: one directory for a task, worktrees with what was changed, a quota."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.worker.git_command import WorkspaceFailed
from detent.worker.workspaces import (
    Workspace,
    Workspaces,
    forget,
    repo_from,
)
from tests.agents.scene import Scene

ENVIRONMENT = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def git(where: Path, *arguments: str) -> str:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(
        ["git", *who, "-C", str(where), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def diff_of(workspace: Workspace, directory: Path) -> bytes:
    with workspace.staged(ENVIRONMENT, directory / "index.part", list) as staged:
        assert staged is not None
        return staged.diff()


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    made = tmp_path / "repos" / "app"
    made.mkdir(parents=True)
    git(made, "init", "--quiet", "--initial-branch", "main")
    (made / "code.py").write_text("broken = True\n")
    git(made, "add", "--all")
    git(made, "commit", "--quiet", "--message", "first")
    return made


def test_a_worktree_is_worked_on_and_its_changes_are_kept(s: Scene, repo: Path) -> None:
    # A hook of the repository must not be run on our behalf.
    hook = repo / ".git" / "hooks" / "post-checkout"
    hook.write_text(f"#!/bin/sh\ntouch {repo}/hooked\n")
    hook.chmod(0o755)
    s.script(
        [
            {"write": {"code.py": "broken = False\n"}},
            {"commit": "fix"},
            {"write": {"new.txt": "n"}},
        ],
        [{"write": {"more.txt": "after the review"}}],
        repos=[str(repo.parent)],
    )
    s.intent(workspace="worktree")
    task_id = s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
        first = s.run()["id"]
        s.do(c.RejectTask(task_id, "and more", run=True))
        s.rests("ready", rounds=1)
    runs = s.core.settings.data_dir / "runs"
    changes = (runs / first / "evidence" / "changes.diff").read_text()
    assert "-broken = True" in changes
    assert "+broken = False" in changes
    assert "b/new.txt" in changes
    later = (runs / s.run()["id"] / "evidence" / "changes.diff").read_text()
    assert "more.txt" in later
    assert "+broken = False" in later
    assert s.evidence()["changes.diff"] == "unknown"
    assert git(s.work(), "branch", "--show-current") == f"detent/{task_id}"
    assert (repo / "code.py").read_text() == "broken = True\n"
    assert not (repo / "hooked").exists()


def test_a_repository_that_no_setting_allows_is_refused(s: Scene, repo: Path) -> None:
    s.script([], repos=[str(repo.parent / "other")])
    s.intent(workspace="worktree")
    s.submit({"repo": str(repo)})
    with s.working():
        s.rests("failed")
    run = s.run()
    assert run["error_class"] == "needs_user"
    assert "which no setting allows" in run["error"]


def test_work_without_a_repository_names_every_way_to_set_one(s: Scene) -> None:
    s.script([])
    s.intent(workspace="worktree")
    s.submit()
    with s.working():
        s.rests("failed")
    run = s.run()
    assert run["error_class"] == "needs_user"
    for each in ("payload.repo", "of the project", "in repos of the agent"):
        assert each in run["error"]


def test_a_project_has_its_repository(s: Scene, repo: Path) -> None:
    s.core.engine.transaction(lambda tx: tx.put_rows("projects", {"default": {"repo": str(repo)}}))
    s.script([{"write": {"new.txt": "n"}}])
    s.intent(workspace="worktree")
    s.submit()
    with s.working():
        s.rests("ready")
    assert (s.work() / "code.py").exists()


def test_a_link_does_not_lead_out_of_what_is_allowed(tmp_path: Path, repo: Path) -> None:
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "app").symlink_to(repo)
    with pytest.raises(WorkspaceFailed, match="no setting allows"):
        repo_from(str(allowed / "app"), [str(allowed)])
    for given in (None, "app", 3, "--upload-pack=x"):
        with pytest.raises(WorkspaceFailed, match="absolute path"):
            repo_from(given, [str(allowed)])
    assert repo_from(str(repo), [str(repo)]) == repo


def test_a_forgotten_worktree_keeps_its_branch_and_can_be_had_again(
    tmp_path: Path, repo: Path
) -> None:
    spaces = Workspaces(tmp_path)
    made = spaces.branch_for("task-1", repo, None, ENVIRONMENT)
    made.hold("session-1")
    (made.work / "code.py").write_text("broken = None\n")
    git(made.work, "commit", "--quiet", "--all", "--message", "work")
    assert spaces.holds("task-1", "session-1")
    assert forget(tmp_path, "task-1")
    assert not forget(tmp_path, "task-1")
    assert not spaces.holds("task-1", "session-1")
    assert "detent/task-1" in git(repo, "branch", "--list", "detent/*")
    again = spaces.branch_for("task-1", repo, None, ENVIRONMENT)
    assert (again.work / "code.py").read_text() == "broken = None\n"
    assert b"+broken = None" in diff_of(again, tmp_path)


def test_the_form_of_a_diff_does_not_depend_on_the_configuration(
    tmp_path: Path, repo: Path
) -> None:
    made = Workspaces(tmp_path).branch_for("task-1", repo, None, ENVIRONMENT)
    (made.work / "code.py").write_text("broken = None\n" + "row\n" * 9)
    (made.work / "new.txt").write_text("new\n")
    plain = diff_of(made, tmp_path)
    for setting in (
        *("diff.noprefix=true", "diff.mnemonicPrefix=true", "color.ui=always", "diff.context=0"),
        *("diff.interHunkContext=9", "diff.algorithm=patience", "core.abbrev=5"),
    ):
        git(repo, "config", *setting.split("="))
    assert diff_of(made, tmp_path) == plain
    assert b"+++ b/code.py" in plain


def test_a_broken_repository_is_a_clear_failure(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceFailed, match="git worktree failed in"):
        Workspaces(tmp_path).branch_for("task-1", tmp_path, None, ENVIRONMENT)


def test_a_workspace_over_its_quota_fails_clearly(s: Scene) -> None:
    s.script([{"write": {"big.bin": "x" * 3_000_000}}, {"say": "wrote it"}], quota_mb=1)
    task_id = s.submit()
    with s.working():
        s.rests("ready")
        s.do(c.RejectTask(task_id, "again", run=True))
        s.rests("failed", rounds=1)
    run = s.run()
    assert run["error_class"] == "needs_user"
    assert "more than its quota of 1 MB" in run["error"]


def test_a_workspace_that_grows_over_its_quota_ends_the_run(
    s: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("detent.worker.runners.agent.agent_process.SIZE_S", 0.1)
    s.script([{"write": {"big.bin": "x" * 3_000_000}}, {"hang": 60}], quota_mb=1)
    s.submit()
    with s.working():
        s.rests("failed")
    assert "quota" in s.run()["error"]


def test_in_the_sandbox_an_agent_keeps_its_session_and_sees_no_data(s: Scene) -> None:
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    token = s.core.settings.data_dir / "token"
    token.write_text("secret")
    asks = [{"write": {"a.txt": "a"}}, {"ask": {"text": "Go on?"}}]
    ends = [{"look": [str(token), "a.txt"]}, {"evidence": {"seen.log": "x"}}, {"summary": "fine"}]
    # The script itself: its file is hidden with everything else in the temporary directory.
    s.script(variables={"STAND_IN_SCRIPT": json.dumps({"runs": [asks, ends]})})
    task_id = s.submit()
    with s.working():
        s.rests("blocked")
        s.do(c.AnswerTask(task_id, "yes"))
        s.rests("ready")
    assert [each["prompts"][1] for each in s.sessions()] == ["You asked: Go on?\nThe answer: yes"]
    assert f'"found": {{"{token}": false, "a.txt": true}}' in s.output()
    assert s.result()["summary"] == "fine"
    assert s.evidence()["seen.log"] == "log"


PLANTING = """
import pathlib, subprocess, sys
program = f"touch {sys.argv[1]} && cat"
subprocess.run(["git", "config", "filter.mine.clean", program], check=True)
pathlib.Path(".gitattributes").write_text("* filter=mine\\n")
pathlib.Path("new.txt").write_text("n\\n")
"""


def test_what_an_agent_has_git_run_stays_in_its_sandbox(
    s: Scene, repo: Path, tmp_path: Path
) -> None:
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    escaped = tmp_path / "escaped"
    argv = [sys.executable, "-c", PLANTING, str(escaped), "{prompt}"]
    s.script(argv=argv, success="exit", repos=[str(repo.parent)])
    s.intent(workspace="worktree")
    s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
    kept = s.core.settings.data_dir / "runs" / s.run()["id"] / "evidence" / "changes.diff"
    assert "b/new.txt" in kept.read_text()
    assert not escaped.exists()


def test_what_an_earlier_agent_has_left_in_the_repository_runs_in_the_sandbox(
    s: Scene, repo: Path, tmp_path: Path
) -> None:
    escaped = tmp_path / "escaped"
    git(repo, "config", "filter.mine.smudge", f"touch {escaped}; cat")
    (repo / ".gitattributes").write_text("* filter=mine\n")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--message", "filtered")
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    s.script(argv=[sys.executable, "-c", "", "{prompt}"], success="exit", repos=[str(repo.parent)])
    s.intent(workspace="worktree")
    s.submit({"repo": str(repo)})
    with s.working():
        s.rests("ready")
    assert (s.work() / "code.py").read_text() == "broken = True\n"
    assert not escaped.exists()


def test_a_worktree_of_a_worktree_can_be_committed_to_in_the_sandbox(
    s: Scene, repo: Path, tmp_path: Path
) -> None:
    second = repo.parent / "second"
    git(repo, "worktree", "add", "--quiet", "-b", "second", str(second))
    s.core.settings = dataclasses.replace(s.core.settings, worker_sandbox="bwrap")
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    commit = ["git", *who, "commit", "--quiet", "--allow-empty", "-m"]
    s.script(argv=[*commit, "{prompt}"], success="exit", repos=[str(repo.parent)])
    s.intent(workspace="worktree")
    task_id = s.submit({"repo": str(second)})
    with s.working():
        s.rests("ready")
    made = git(repo, "rev-list", "--count", f"second..detent/{task_id}")
    assert made == "1"


def test_a_worktree_that_was_never_finished_is_made_again(tmp_path: Path, repo: Path) -> None:
    spaces = Workspaces(tmp_path)
    made = spaces.branch_for("task-1", repo, None, ENVIRONMENT)
    (made.root / "workspace.json").unlink()
    (made.work / "code.py").unlink()
    again = spaces.branch_for("task-1", repo, None, ENVIRONMENT)
    assert (again.work / "code.py").read_text() == "broken = True\n"
