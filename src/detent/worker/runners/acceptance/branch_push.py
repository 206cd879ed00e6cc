"""Pushes the branch of a task to a remote of its repository. A repeated push changes nothing."""

from typing import Any

from detent.redaction import redact
from detent.worker.git_command import WorkspaceFailed, error_text
from detent.worker.runners.acceptance.task_branch import TaskBranch

ORIGIN = "origin"


def push(branch: TaskBranch, remote: str | None, target: str | None) -> dict[str, Any]:
    """Push the reviewed work; the result of the job says where."""
    to, name = remote or ORIGIN, target or branch.workspace.branch
    if to not in branch.read("remote").splitlines():
        raise WorkspaceFailed(
            f"{branch.repo} has no remote {to}. Add it with `git remote add`, or set the option "
            "push_remote."
        )
    head = branch.reviewed().commit
    branch.setting.run.require_lease()
    done = branch.confined(["push", "--quiet", "--", to, f"{head}:refs/heads/{name}"], remote=True)
    if done.returncode != 0 and not _has(branch, to, str(name), head):
        raise WorkspaceFailed(
            f"the push of {name} to the remote {to} failed: {redact(error_text(done))}"
        )
    return {"push": {"remote": to, "branch": name, "commit": head}}


def _has(branch: TaskBranch, remote: str, name: str, commit: str) -> bool:
    """Whether the remote's branch contains the commit: an earlier try pushed it, others went on."""
    asked = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--", remote]
    if branch.confined([*asked, f"refs/heads/{name}"], remote=True).returncode != 0:
        return False
    return branch.contains("FETCH_HEAD", commit)
