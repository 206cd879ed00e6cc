"""The branch of a task's worktree or clone at an acceptance: what was reviewed, as one commit.

The agent can write to the configuration of a worktree's repository, and git starts programs that
are named there (filters, merge drivers, transports): every git command runs in the sandbox of the
agent. The commit of a clone is fetched into the repository, and all the rest happens there.
"""

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from detent.worker.git_command import AUTHOR, WorkspaceFailed, git, git_result
from detent.worker.runners.agent.launch import Setting
from detent.worker.workspaces import CLONE, Workspace, started_from

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
    """The worktree or clone of a task and its repository."""

    def __init__(self, setting: Setting, verdict: Verdict) -> None:
        self.setting, self.verdict = setting, verdict
        self.workspace: Workspace = setting.workspace
        self.repo = Path(self.workspace.repo or "")
        #: Where the branches of the repository are read and changed.
        self.place = self.repo if self.workspace.mode == CLONE else self.workspace.work
        date = f"@{verdict.at_s} +0000"
        #: The same date in every try: a repeated commit is the same commit.
        self.environment = {
            **setting.plain_environment(),
            **AUTHOR,
            **{f"GIT_{each}_DATE": date for each in ("AUTHOR", "COMMITTER")},
            "GIT_OPTIONAL_LOCKS": "0",
        }

    @property
    def target(self) -> str | None:
        """The branch from which the workspace started."""
        if self.workspace.target is not None:
            return self.workspace.target
        base, within = self.setting.agent.base, self.setting.confined
        return started_from(self.repo, base, self.environment, within)

    # -- git -------------------------------------------------------------------------------

    def read(self, *arguments: str) -> str:
        """The output of a git command."""
        within = self.setting.confined_with(*self._repository())
        found = git(self.place, arguments, self.environment, within)
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
        writable = [*self._repository(), *filter(None, [where])]
        within = self.setting.confined_with(*writable, online=remote)
        return git_result(where or self.place, arguments, self.environment, within, remote=remote)

    def _repository(self) -> list[Path]:
        """What git writes to in the repository of a clone; the agent's sandbox does not have it."""
        return [] if self.workspace.mode != CLONE else [self.setting.repository_dir()]

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
            assert staged is not None, "only a worktree or clone has a branch"
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
        head = self._with_content(tree)
        self.workspace.publish(
            head, self.environment, self.setting.confined_with(*self._repository())
        )
        return Reviewed(head, base)

    def _with_content(self, tree: str) -> str:
        """The commit that is checked out, after what is not committed has been committed."""
        work, within = self.workspace.work, self.setting.confined

        def local(*arguments: str) -> str:
            return git(work, arguments, self.environment, within).decode().strip()

        head = local("rev-parse", "HEAD")
        if local("rev-parse", "HEAD^{tree}") == tree:
            return head
        message = self.verdict.message(f"Work of task {self.verdict.task_id}")
        made = local("commit-tree", tree, "-p", head, "-m", message)
        local("update-ref", "-m", "detent: commit the reviewed work", "HEAD", made, head)
        # Update the index of the work tree.
        git_result(work, ["reset", "--quiet"], self.environment, within)
        return made
