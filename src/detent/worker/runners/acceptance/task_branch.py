"""The branch of a task's worktree at an acceptance: what was reviewed, as one commit.

The agent can write to the repository's configuration, and git starts programs that are named there
(filters, merge drivers, transports): every git command runs in the sandbox of the agent.
"""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from detent.worker.runners.agent.launch import Setting
from detent.worker.workspaces import (
    Workspace,
    WorkspaceFailed,
    git,
    git_result,
    started_from,
)

#: The author of the commits that detent makes.
NAME, EMAIL = "detent", "detent@localhost"
LONGEST_SUBJECT = 200
#: The trailer by which the commit of a verdict is recognised.
VERDICT = "Detent-Verdict"
NOTHING = hashlib.sha256(b"").hexdigest()


class Verdict(NamedTuple):
    """The acceptance of a person, whose action is carried out."""

    #: Unique to the verdict: the id of the job that carries it out.
    key: str
    task_id: str
    title: str
    by: str
    comment: str | None
    #: When it was given, in seconds since 1970.
    at_s: int
    #: The SHA-256 of the diff that was reviewed; that of nothing if there is none.
    diff: str

    def message(self, subject: str) -> str:
        """The message of a commit for this verdict."""
        head = " ".join(subject.split())[:LONGEST_SUBJECT]
        people = f"Detent-Task: {self.task_id}\n{VERDICT}: {self.key}\nAccepted-by: {self.by}"
        return "\n\n".join(filter(None, (head, (self.comment or "").strip(), people)))


class Reviewed(NamedTuple):
    """The reviewed work."""

    #: The commit with its content.
    commit: str
    #: The commit against which its diff was made.
    base: str


class TaskBranch:
    """The worktree of a task and its repository."""

    def __init__(self, setting: Setting, verdict: Verdict) -> None:
        self.setting, self.verdict = setting, verdict
        self.workspace: Workspace = setting.workspace
        self.repo = Path(self.workspace.repo or "")
        date = f"@{verdict.at_s} +0000"
        #: The same date in every try: a repeated commit is the same commit.
        self.environment = {
            **setting.plain_environment(),
            **{f"GIT_{each}_NAME": NAME for each in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{each}_EMAIL": EMAIL for each in ("AUTHOR", "COMMITTER")},
            **{f"GIT_{each}_DATE": date for each in ("AUTHOR", "COMMITTER")},
            "GIT_OPTIONAL_LOCKS": "0",
        }

    @property
    def target(self) -> str | None:
        """The branch from which the worktree started."""
        if self.workspace.target is not None:
            return self.workspace.target
        base, within = self.setting.agent.base, self.setting.confined
        return started_from(self.repo, base, self.environment, within)

    # -- git -------------------------------------------------------------------------------

    def read(self, *arguments: str) -> str:
        """The output of a git command."""
        within = self.setting.confined
        found = git(self.workspace.work, arguments, self.environment, within)
        return found.decode("utf-8", "replace").strip()

    def commit_of(self, name: str) -> str:
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return self.read(*asked)
        except WorkspaceFailed:
            raise WorkspaceFailed(f"{self.repo} has no branch {name}") from None

    def contains(self, tip: str, commit: str) -> bool:
        """Whether the history of `tip` has the commit."""
        asked = ["merge-base", "--is-ancestor", commit, tip]
        return self.confined(asked).returncode == 0

    def confined(
        self, arguments: Sequence[str], where: Path | None = None, *, remote: bool = False
    ) -> "subprocess.CompletedProcess[bytes]":
        """How a git command ended; it may write to `where`, and connect to a `remote`."""
        setting, place = self.setting, where or self.workspace.work
        within = setting.confined if where is None else setting.confined_with(where)
        return git_result(place, arguments, self.environment, within, remote=remote)

    def commit(self, tree: str, parents: Sequence[str], subject: str) -> str:
        """A commit of a tree; no branch has it yet."""
        named = [word for parent in parents for word in ("-p", parent)]
        return self.read("commit-tree", tree, *named, "-m", self.verdict.message(subject))

    # -- what was reviewed -----------------------------------------------------------------

    def reviewed(self) -> Reviewed:
        """The commit with the reviewed content; what the agent did not commit is committed.

        Refused if the content is not what was reviewed. The diff is made again against the commit
        that it was made against then: the target may contain the work meanwhile.
        """
        index, within = self.setting.run.files.directory() / "index.part", self.setting.confined
        since = self.workspace.diff_base
        with self.workspace.staged(self.environment, index, within, since) as staged:
            assert staged is not None, "only a worktree has a branch"
            base, tree, digest = (
                staged.base,
                staged.tree(),
                hashlib.sha256(staged.diff()).hexdigest(),
            )
        if digest != self.verdict.diff:
            raise WorkspaceFailed(
                f"the branch {self.workspace.branch} has changed since the review: its diff is "
                f"{digest[:12]}, and {self.verdict.diff[:12]} was reviewed. Reject the task and "
                "run it again, or accept it without the action."
            )
        head = self.read("rev-parse", "HEAD")
        if self.read("rev-parse", "HEAD^{tree}") == tree:
            return Reviewed(head, base)
        made = self.commit(tree, [head], f"Work of task {self.verdict.task_id}")
        self.read("update-ref", "-m", "detent: commit the reviewed work", "HEAD", made, head)
        self.confined(["reset", "--quiet"])  # update the index of the worktree
        return Reviewed(made, base)
