"""The options about the workspaces of agents: which kinds there are, and which options fit them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from detent.errors import Invalid
from detent.kernel.acceptance import action_of


class WorkspaceMode(StrEnum):
    """The kinds of workspaces of agents."""

    DIRECTORY = "directory"
    WORKTREE = "worktree"
    CLONE = "clone"


class WorkspacePer(StrEnum):
    """How long a workspace is used: for all runs of a task, or until an attempt fails."""

    TASK = "task"
    ATTEMPT = "attempt"


#: The kinds that have a branch of a repository.
WITH_BRANCH = (WorkspaceMode.WORKTREE, WorkspaceMode.CLONE)


def has_branch(options: Mapping[str, Any]) -> bool:
    """Whether the agent of a job with these options works on a branch."""
    return options.get("workspace") in WITH_BRANCH


def is_per_attempt(options: Mapping[str, Any]) -> bool:
    """Whether the attempt after a failure starts in a new workspace."""
    return options.get("workspace_per") == WorkspacePer.ATTEMPT


def check_workspace(options: Mapping[str, Any], where: str) -> None:
    """Refuse options that need a branch if the workspace has none."""
    if has_branch(options):
        return
    needs = {"on_accept": action_of(options)}
    if is_per_attempt(options):
        needs["workspace_per"] = options["workspace_per"]
    for name, given in needs.items():
        if given is not None:
            raise Invalid(
                f"{where}.{name} is {given}, which needs the branch of a worktree or clone.",
                field=f"{where}.{name}",
                given=str(given),
                hint='Set workspace = "worktree" or "clone" too, or leave this option out.',
            )
