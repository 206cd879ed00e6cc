"""Merges the branch of a task into a target branch: one merge commit for each verdict, once.

The merge needs no work tree. If the target is checked out somewhere, that work tree must have no
changes, and its files are updated. A merge commit names its verdict, so that a try after a crash
finds it.
"""

from pathlib import Path
from typing import Any

from detent.worker.git_command import WorkspaceFailed, error_text
from detent.worker.runners.acceptance.task_branch import VERDICT, TaskBranch

#: How often the merge is made again because others have changed the target meanwhile.
TRIES = 10
MAX_SHOWN = 5


def merge(branch: TaskBranch, target: str | None) -> dict[str, Any]:
    """Merge the reviewed work; the result of the job says where, or which files have conflicts."""
    into = target or branch.target
    if into is None:
        raise WorkspaceFailed(
            "the workspace did not start from a branch, so there is none to merge into. Set the "
            "option target_branch, or accept the task without the action."
        )
    for _ in range(TRIES):
        tip = branch.commit_of(f"refs/heads/{into}")
        done = _merged_before(branch, tip)
        if done is not None:
            return _result(into, done)
        head, base = branch.reviewed()
        if branch.contains(tip, head):
            return _result(into, tip)
        _require_base(branch, into, tip, head, base)
        tree, conflicts = _merged_tree(branch, tip, head)
        if conflicts:
            return {"conflicts": conflicts, "target": into, "commit": tip}
        subject = f"Merge task {branch.verdict.task_id}: {branch.verdict.title}"
        new = branch.commit(tree, [tip, head], subject)
        if _advance(branch, into, tip, new):
            return _result(into, new)
    raise WorkspaceFailed(f"the branch {into} was changed by others in each of {TRIES} tries")


def _result(target: str, commit: str) -> dict[str, Any]:
    return {"merge": {"target": target, "commit": commit}}


def _merged_before(branch: TaskBranch, tip: str) -> str | None:
    """The merge commit of this verdict that an earlier try has made."""
    shown = f"--format=%H %(trailers:key={VERDICT},valueonly,separator=%x20)"
    since = () if branch.workspace.base is None else (f"^{branch.workspace.base}",)
    found = branch.read("log", "--first-parent", "--merges", shown, tip, *since, "--")
    for line in found.splitlines():
        commit, _, key = line.partition(" ")
        if key.strip() == branch.verdict.key:
            return commit
    return None


def _require_base(branch: TaskBranch, into: str, tip: str, head: str, base: str) -> None:
    """Refuse a merge that would apply more than the reviewed diff.

    A merge applies what was changed since the commits that both branches have; the reviewed diff
    must show the changes since the same commit.
    """
    found = branch.confined(["merge-base", "--all", head, tip]).stdout.decode().split()
    if found == [base]:
        return
    common = ", ".join(each[:12] for each in found) or "none"
    advice = "Reject the task and run it again"
    if into != branch.target:
        advice = f"Set base of the agent to {into} and submit the task again"
    raise WorkspaceFailed(
        f"the reviewed diff shows the changes since {base[:12]}, but the last common commit of the "
        f"work and the branch {into} is {common}: the merge would apply changes that were not "
        f"reviewed. {advice}, or accept it without the action."
    )


def _merged_tree(branch: TaskBranch, tip: str, head: str) -> tuple[str, list[str]]:
    """The tree of the merge, and the files with conflicts."""
    shown = ["--write-tree", "--name-only", "--no-messages", "-z"]
    done = branch.confined(["merge-tree", *shown, tip, head])
    if done.returncode not in (0, 1):
        raise WorkspaceFailed(f"the merge failed: {error_text(done)}")
    tree, *files = done.stdout.decode("utf-8", "replace").rstrip("\0").split("\0")
    return tree, [_printable(each) for each in dict.fromkeys(files)] if done.returncode else []


def _printable(name: str) -> str:
    return name if name.isprintable() else repr(name)


# ---- moving the target -----------------------------------------------------------------------


def _advance(branch: TaskBranch, target: str, tip: str, new: str) -> bool:
    """Move the target from `tip` to `new`; False if others have moved it meanwhile."""
    branch.setting.run.require_lease()
    place = _checked_out(branch, target)
    if place is None:
        moved = _update_ref(branch, target, tip, new)
    else:
        moved = _fast_forward(branch, target, tip, new, place)
    now = branch.commit_of(f"refs/heads/{target}")
    if now == new:
        return True
    if now != tip:
        return False
    raise WorkspaceFailed(f"the branch {target} could not be moved: {moved}")


def _update_ref(branch: TaskBranch, target: str, tip: str, new: str) -> str:
    """Move a branch if it is still at `tip`; returns what git has written about an error."""
    reason = f"detent: merge task {branch.verdict.task_id}"
    return error_text(
        branch.confined(["update-ref", "-m", reason, f"refs/heads/{target}", new, tip])
    )


def _checked_out(branch: TaskBranch, target: str) -> Path | None:
    """The work tree that has the target checked out."""
    listed = branch.read("worktree", "list", "--porcelain", "-z")
    for entry in listed.split("\0\0"):
        lines = entry.strip("\0\n").split("\0")
        if f"branch refs/heads/{target}" in lines:
            return Path(lines[0].removeprefix("worktree "))
    return None


def _fast_forward(branch: TaskBranch, target: str, tip: str, new: str, place: Path) -> str:
    """Move the target with the work tree that has it checked out."""
    changed = branch.confined(["status", "--porcelain", "--untracked-files=no"], place)
    if changed.returncode != 0:
        return error_text(changed)
    if not changed.stdout:
        return error_text(branch.confined(["merge", "--ff-only", "--quiet", new], place))
    if branch.confined(["diff-index", "--quiet", new], place).returncode == 0:
        # A try that was interrupted has written the files; only the branch is missing.
        return _update_ref(branch, target, tip, new)
    lines = changed.stdout.decode("utf-8", "replace").splitlines()
    files = ", ".join(_printable(line[3:]) for line in lines[:MAX_SHOWN])
    more = f" and {len(lines) - MAX_SHOWN} more" if len(lines) > MAX_SHOWN else ""
    raise WorkspaceFailed(
        f"the branch {target} is checked out in {place}, which has changes that are not committed: "
        f"{files}{more}. Commit or remove them there, then accept the task again."
    )
