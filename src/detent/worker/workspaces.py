"""The workspaces of agents: one directory, git worktree or clone for each task.

All runs of a task share it, except that the attempt after a failed one can have a new one.

`<data_dir>/workspaces/<task>/` contains `work`, which belongs to the agent, and detent's files:
`workspace.json`, and one marker for each session that is stored on this machine.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from detent import private_files
from detent.errors import Invalid
from detent.submission.workspace_options import WorkspaceMode
from detent.worker.git_command import AUTHOR, Within, WorkspaceFailed, git, git_result

DIRECTORY, WORKTREE = WorkspaceMode.DIRECTORY.value, WorkspaceMode.WORKTREE.value
CLONE = WorkspaceMode.CLONE.value
WORK, FACTS, SESSIONS = "work", "workspace.json", "sessions"
#: For a fetch between a clone and its repository: one branch and nothing else.
FETCH = (
    *("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"),
    *("--no-recurse-submodules", "--"),
)
#: Where a clone pushes to by default: an agent must not push to the repository by mistake.
NO_PUSH = "remote.origin.pushUrl=pushing-is-disabled"
#: The form of a diff, whatever the configuration of the repository says.
DIFF_OPTIONS = (
    *("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--find-renames", "--unified=3"),
    *("--inter-hunk-context=0", "--diff-algorithm=default", "--submodule=short", "-O/dev/null"),
    "--ignore-submodules=none",
)


@dataclass(frozen=True, slots=True)
class Workspace:
    """The workspace of one task."""

    root: Path
    mode: str = DIRECTORY
    repo: str | None = None
    branch: str | None = None
    #: The commit at which the branch starts.
    base: str | None = None
    #: The branch from which it starts, if it starts from one.
    target: str | None = None
    #: The commit against which the last diff was made that is kept as evidence.
    diff_base: str | None = None
    #: The commit with the work of the last run that did not fail, if such commits are kept.
    good: str | None = None
    #: The failed run after which this workspace was made.
    made_after: str | None = None

    @property
    def work(self) -> Path:
        return self.root / WORK

    def is_usable(self, failed_run: str | None) -> bool:
        """Whether it is complete and was not used by the failed run."""
        return (self.work / ".git").exists() and failed_run in (None, self.made_after)

    # -- sessions --------------------------------------------------------------------------

    def hold(self, session_id: str) -> None:
        """Record that this session is stored on this machine, before its process starts."""
        marks = self.root / SESSIONS
        private_files.make_directory(marks)
        (marks / _mark(session_id)).touch(mode=0o600)

    # -- size ------------------------------------------------------------------------------

    def check_quota(self, quota_bytes: int | None) -> None:
        if quota_bytes is not None and used_bytes(self.root, quota_bytes) > quota_bytes:
            raise over_quota(self, quota_bytes)

    # -- what was changed ------------------------------------------------------------------

    @contextmanager
    def staged(
        self,
        environment: Mapping[str, str],
        index: Path,
        within: Within,
        start: str | None = None,
    ) -> Iterator["Staged | None"]:
        """The work tree as it is now, new files included; None if there is no branch.

        The work tree is the agent's, and a filter that it names is a program: `within` the agent's
        own sandbox that has no more rights than the agent. `index` is a file that may be written.
        Changes are shown against `start`; if it is None, against where the work starts now.
        """
        if self.repo is None or self.base is None:
            yield None
            return
        private = {**environment, "GIT_INDEX_FILE": str(index)}
        try:
            git(self.work, ["read-tree", "HEAD"], private, within)
            git(self.work, ["add", "--all"], private, within)
            since = start or self._start(self.base, environment, within)
            yield Staged(self.work, since, private, within)
        finally:
            index.unlink(missing_ok=True)

    def with_diff_base(self, base: str) -> "Workspace":
        """Record the commit against which the diff was made that a person will review."""
        return _noted(replace(self, diff_base=base))

    def with_good(self, commit: str) -> "Workspace":
        """Record the commit at which the attempt after a failure starts."""
        return _noted(replace(self, good=commit))

    def commit_all(self, message: str, environment: Mapping[str, str], within: Within) -> None:
        """Commit what the agent has not committed."""
        private = {**environment, **AUTHOR}
        git(self.work, ["add", "--all"], private, within)
        asked = ["diff-index", "--cached", "--quiet", "HEAD", "--"]
        if git_result(self.work, asked, private, within).returncode != 0:
            options = ["--quiet", "--no-verify", "--no-gpg-sign"]
            git(self.work, ["commit", *options, "--message", message], private, within)

    def head(self, environment: Mapping[str, str], within: Within) -> str:
        return git(self.work, ["rev-parse", "HEAD"], environment, within).decode().strip()

    # -- a clone and its repository --------------------------------------------------------

    def publish(self, commit: str, environment: Mapping[str, str], within: Within) -> None:
        """Fetch a commit of a clone into the repository, as the branch of the task.

        The repository's own git reads the clone: nothing that the agent has written there, except
        the objects of the commit, gets into the repository. Repeating it changes nothing.
        """
        if self.mode == CLONE:
            repo, refs = Path(self.repo or ""), f"+{commit}:refs/heads/{self.branch}"
            git(repo, [*FETCH, str(self.work), refs], environment, within, local=True)

    def update_target(self, environment: Mapping[str, str], within: Within) -> None:
        """Fetch the branch that a clone started from, as it is now in the repository.

        If that fails, for example because the agent has checked that branch out, the clone keeps
        its copy. An acceptance reads the branch in the repository.
        """
        if self.mode == CLONE and self.target is not None:
            refs = f"+refs/heads/{self.target}:refs/heads/{self.target}"
            git_result(self.work, [*FETCH, str(self.repo), refs], environment, within, local=True)

    def _start(self, base: str, environment: Mapping[str, str], within: Within) -> str:
        """The commit against which changes are shown.

        After the agent has merged the branch that it started from, that branch's own changes are
        not shown.
        """
        self.update_target(environment, within)
        target = f"refs/heads/{self.target}"
        if self.target is None or not is_known(self.work, target, environment, within):
            return base
        try:
            asked = ["merge-base", "HEAD", target]
            return git(self.work, asked, environment, within).decode().strip()
        except WorkspaceFailed:
            return base  # the histories have nothing in common any more


@dataclass(frozen=True, slots=True)
class Staged:
    """The content of a work tree, staged in an index of its own."""

    work: Path
    #: The commit against which changes are shown.
    base: str
    environment: Mapping[str, str]
    within: Within

    def git(self, *arguments: str) -> bytes:
        return git(self.work, arguments, self.environment, self.within)

    def diff(self) -> bytes:
        return self.git("diff", "--cached", *DIFF_OPTIONS, self.base)

    def tree(self) -> str:
        """The git tree with this content."""
        return self.git("write-tree").decode().strip()


def over_quota(workspace: Workspace, quota_bytes: int) -> WorkspaceFailed:
    return WorkspaceFailed(
        f"the workspace {workspace.root} holds more than its quota of "
        f"{quota_bytes // 1_048_576} MB. Clear it, or raise quota_mb, and retry."
    )


def used_bytes(root: Path, most: int) -> int:
    """How much a directory holds; the count ends soon after `most`."""
    total, waiting = 0, [root]
    while waiting and total <= most:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue  # gone by now
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            else:
                total += _blocks(entry)
    return total


def _blocks(entry: "os.DirEntry[str]") -> int:
    try:
        return entry.stat(follow_symlinks=False).st_blocks * 512
    except OSError:
        return 0


# ---- all of a machine ------------------------------------------------------------------------


class Workspaces:
    """The workspaces in one data directory."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "workspaces"

    def root(self, owner: str) -> Path:
        """Where the workspace of a task, or of a job alone, is or would be."""
        if "/" in owner or owner.startswith("."):
            raise Invalid(f"{owner!r} cannot name a directory.", field="task_id", given=owner)
        return self.directory / owner

    def find(self, owner: str) -> Workspace | None:
        """The workspace of that owner, if it is here."""
        root = self.root(owner)
        try:
            facts = json.loads((root / FACTS).read_text())
        except (OSError, ValueError):
            return None
        return Workspace(root, **facts)

    def holds(self, owner: str, session_id: str) -> bool:
        """Whether this session is stored on this machine."""
        return (self.root(owner) / SESSIONS / _mark(session_id)).exists()

    def directory_for(self, owner: str) -> Workspace:
        """A plain directory; the same one every time."""
        found = self.find(owner)
        if found is not None and found.work.is_dir():
            return found
        made = Workspace(self.root(owner))
        private_files.make_directory(made.work)
        return _noted(made)

    def branch_for(
        self,
        owner: str,
        repo: Path,
        base: str | None,
        environment: Mapping[str, str],
        within: Callable[[Workspace], Within] = lambda _: list,
        *,
        mode: str = WORKTREE,
        failed_run: str | None = None,
    ) -> Workspace:
        """A worktree or clone of a repository, on a branch of its own.

        It is the same one every time, unless `failed_run` has used it: then a new one starts at the
        last good commit.

        An earlier agent may have named programs in the repository's configuration that see each
        file on its way to the work tree: the tree is made and filled `within` the sandbox of the
        agent that gets it. Only what git does with no object and no program is outside: the
        sandbox hides the worktrees of other tasks, which `worktree prune` must find.
        """
        found = self.find(owner)
        if found is not None and found.is_usable(failed_run):
            return found
        root = self.root(owner)
        shutil.rmtree(root / WORK, ignore_errors=True)  # of a run that failed or was interrupted
        git(repo, ["worktree", "prune"], environment)
        private_files.make_directory(root / WORK)
        planned = Workspace(root, mode, str(repo), branch_of(owner), made_after=failed_run)
        inside = within(planned)
        if found is not None and found.base is not None and failed_run is not None:
            shutil.rmtree(root / SESSIONS, ignore_errors=True)  # they know other files
            tip = found.good or found.base
            made = replace(planned, base=found.base, target=found.target, good=found.good)
        else:
            tip, start = _ends(repo, planned, base, environment, inside)
            target = started_from(repo, base, environment, inside)
            made = replace(planned, base=start, target=target)
        _add(made, tip, environment, inside)
        git(made.work, ["reset", "--quiet", "--hard"], environment, inside)
        return _noted(made)

    def forget(self, owner: str) -> bool:
        """Remove it with its session marks; True if it was here. Its branch is kept."""
        root = self.root(owner)
        found = self.find(owner)
        if not root.exists():
            return False
        shutil.rmtree(root, ignore_errors=True)
        if found is None or found.mode != WORKTREE or found.repo is None:
            return True
        if Path(found.repo).is_dir():
            environment = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
            git(Path(found.repo), ["worktree", "prune"], environment)
        return True


def forget(data_dir: Path, task_id: str) -> bool:
    """Remove the workspace of a task that is gone; called by retention."""
    return Workspaces(data_dir).forget(task_id)


def _noted(workspace: Workspace) -> Workspace:
    facts = {name: value for name, value in asdict(workspace).items() if name != "root"}
    draft = workspace.root / f".{FACTS}.part"
    private_files.write_text(draft, json.dumps(facts))
    draft.replace(workspace.root / FACTS)
    return workspace


def _mark(session_id: str) -> str:
    """A session's id as a file name; ids of other programs may be anything."""
    return session_id.encode().hex()[:200]


# ---- git -------------------------------------------------------------------------------------


def branch_of(owner: str) -> str:
    """The branch of a task's worktree."""
    return f"detent/{owner.replace(':', '-')}"


def repo_from(given: object, roots: Sequence[str]) -> Path:
    """The repository that a payload names, if it is beneath a directory that may be named."""
    if not isinstance(given, str) or not given.startswith("/"):
        raise WorkspaceFailed(
            "the work needs a repository: submit payload.repo with an absolute path on this "
            "machine, set the repository of the project, or name exactly one in repos of the agent"
        )
    repo = Path(os.path.realpath(given))
    allowed = [Path(os.path.realpath(each)) for each in roots]
    if not any(repo == each or each in repo.parents for each in allowed):
        raise WorkspaceFailed(
            f"payload.repo names {given!r}, which no setting allows; list it, or a directory "
            "above it, in repos of the agent"
        )
    return repo


def git_dir(repo: Path, environment: Mapping[str, str]) -> Path:
    """The directory of a repository that git writes to.

    The sandbox must know it, so it is found outside: git reads no object for this and starts no
    program.
    """
    asked = ["rev-parse", "--path-format=absolute", "--git-common-dir"]
    return Path(os.fsdecode(git(repo, asked, environment).removesuffix(b"\n")))


def _ends(
    repo: Path,
    planned: Workspace,
    base: str | None,
    environment: Mapping[str, str],
    within: Within,
) -> tuple[str, str]:
    """The last and the first commit of a task's branch, which may exist already."""
    start = _commit(repo, base or "HEAD", environment, within)
    branch = f"refs/heads/{planned.branch}"
    if not is_known(repo, branch, environment, within):
        return start, start
    common = git(repo, ["merge-base", start, branch], environment, within).decode().strip()
    return _commit(repo, branch, environment, within), common


def _add(workspace: Workspace, tip: str, environment: Mapping[str, str], within: Within) -> None:
    """Make the worktree or clone, without files, with its branch at `tip`.

    The objects of a clone are copies: a link to a file of the repository could be written to.
    """
    repo, work, branch = Path(workspace.repo or ""), workspace.work, str(workspace.branch)
    if workspace.mode == WORKTREE:
        asked = ["worktree", "add", "--no-checkout", "-B", branch, str(work), tip]
        git(repo, asked, environment, within)
        return
    options = ["--quiet", "--no-hardlinks", "--no-checkout", "--template=", "--config", NO_PUSH]
    asked = ["clone", *options, "--", str(repo), str(work)]
    git(repo, asked, environment, within, local=True)
    git(work, ["update-ref", f"refs/heads/{branch}", tip], environment, within)
    git(work, ["symbolic-ref", "HEAD", f"refs/heads/{branch}"], environment, within)
    workspace.update_target(environment, within)


def _commit(repo: Path, name: str, environment: Mapping[str, str], within: Within) -> str:
    asked = ["rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
    return git(repo, asked, environment, within).decode().strip()


def started_from(
    repo: Path, name: str | None, environment: Mapping[str, str], within: Within
) -> str | None:
    """The branch with this name, or the one that is checked out; None if there is none."""
    if name is not None:
        return name if is_known(repo, f"refs/heads/{name}", environment, within) else None
    try:
        asked = ["symbolic-ref", "--quiet", "--short", "HEAD"]
        return git(repo, asked, environment, within).decode().strip()
    except WorkspaceFailed:
        return None  # a commit is checked out, not a branch


def is_known(repo: Path, name: str, environment: Mapping[str, str], within: Within) -> bool:
    try:
        _commit(repo, name, environment, within)
    except WorkspaceFailed:
        return False
    return True
