"""The workspaces of agents: one directory or git worktree for each task, shared by all its runs.

`<data_dir>/workspaces/<task>/` contains `work`, which belongs to the agent, and detent's files:
`workspace.json`, and one marker for each session that is stored on this machine.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from detent import private_files
from detent.app.failures import Failure
from detent.errors import Invalid
from detent.kernel.retry import FailureClass
from detent.submission.options import WorkspaceMode

DIRECTORY, WORKTREE = WorkspaceMode.DIRECTORY.value, WorkspaceMode.WORKTREE.value
WORK, FACTS, SESSIONS = "work", "workspace.json", "sessions"
GIT_S = 120.0
#: Maps a program's argv to the argv that starts it in the sandbox.
Within = Callable[[Sequence[str]], list[str]]
#: What a repository could make git run on our behalf: hooks, monitors, programs for signatures.
HARMLESS = (
    *("-c", "core.hooksPath=/dev/null"),
    *("-c", "core.fsmonitor=false"),
    *("-c", "core.pager=cat"),
    *("-c", "core.editor=false"),
    *("-c", "protocol.ext.allow=never"),
    *("-c", "log.showSignature=false"),
    *(word for each in ("", "ssh.", "x509.") for word in ("-c", f"gpg.{each}program=false")),
)
#: Objects, and the parents of commits, as they are: nothing is replaced or fetched.
FIXED = {
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": os.devnull,
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
#: For a command that needs no remote. Versions of git that fetch missing objects whatever
#: GIT_NO_LAZY_FETCH says have no transport for that.
OFFLINE_OPTIONS = ("-c", "credential.helper=")
OFFLINE = {"GIT_ALLOW_PROTOCOL": ""}
#: The form of a diff, whatever the configuration of the repository says.
DIFF_OPTIONS = (
    *("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--find-renames", "--unified=3"),
    *("--inter-hunk-context=0", "--diff-algorithm=default", "--submodule=short", "-O/dev/null"),
    "--ignore-submodules=none",
)


class WorkspaceFailed(Failure):
    """The workspace cannot be used as it is: a person must check it."""

    kind = FailureClass.NEEDS_USER


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

    @property
    def work(self) -> Path:
        return self.root / WORK

    # -- sessions --------------------------------------------------------------------------

    def hold(self, session_id: str) -> None:
        """Record that this session is stored on this machine, before its process starts."""
        marks = self.root / SESSIONS
        private_files.make_directory(marks)
        (marks / _mark(session_id)).touch(mode=0o600)

    # -- size ------------------------------------------------------------------------------

    def used_bytes(self, most: int) -> int:
        """How much it holds; the count ends soon after `most`."""
        total, waiting = 0, [self.root]
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

    def check_quota(self, quota_bytes: int | None) -> None:
        if quota_bytes is not None and self.used_bytes(quota_bytes) > quota_bytes:
            raise over_quota(self, quota_bytes)

    # -- what was changed ------------------------------------------------------------------

    def git_dir(self, environment: Mapping[str, str]) -> Path | None:
        """The directory of the worktree's repository that git writes to."""
        return None if self.repo is None else git_dir(Path(self.repo), environment)

    @contextmanager
    def staged(
        self,
        environment: Mapping[str, str],
        index: Path,
        within: Within,
        start: str | None = None,
    ) -> Iterator["Staged | None"]:
        """The work tree as it is now, new files included; None if there is no worktree.

        The work tree is the agent's, and a filter that it names is a program: `within` the agent's
        own sandbox that has no more rights than the agent. `index` is a file that may be written.
        Changes are shown against `start`; if it is None, against where the work starts now.
        """
        if self.mode != WORKTREE or self.base is None:
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

    def record_diff_base(self, base: str) -> None:
        """Record the commit against which the diff was made that a person will review."""
        _noted(replace(self, diff_base=base))

    def _start(self, base: str, environment: Mapping[str, str], within: Within) -> str:
        """The commit against which changes are shown.

        After the agent has merged the branch that it started from, that branch's own changes are
        not shown.
        """
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

    def worktree_for(
        self,
        owner: str,
        repo: Path,
        base: str | None,
        environment: Mapping[str, str],
        within: Callable[[Workspace], Within] = lambda _: list,
    ) -> Workspace:
        """A work tree of a repository on a branch of its own; the same one every time.

        An earlier agent may have named programs in the repository's configuration that see each
        file on its way to the work tree: the tree is made and filled `within` the sandbox of the
        agent that gets it. Only what git does with no object and no program is outside: the
        sandbox hides the worktrees of other tasks, which `worktree prune` must find.
        """
        found = self.find(owner)
        if found is not None and (found.work / ".git").exists():
            return found
        root, branch = self.root(owner), branch_of(owner)
        shutil.rmtree(root / WORK, ignore_errors=True)  # left by a run that was interrupted
        git(repo, ["worktree", "prune"], environment)
        private_files.make_directory(root / WORK)
        inside = within(Workspace(root, WORKTREE, str(repo), branch))
        start = _commit(repo, base or "HEAD", environment, inside)
        known = is_known(repo, f"refs/heads/{branch}", environment, inside)
        where = [str(root / WORK), branch] if known else ["-b", branch, str(root / WORK), start]
        git(repo, ["worktree", "add", "--no-checkout", *where], environment, inside)
        if known:
            ends = ["merge-base", start, f"refs/heads/{branch}"]
            start = git(repo, ends, environment, inside).decode().strip()
        target = started_from(repo, base, environment, inside)
        made = Workspace(root, WORKTREE, str(repo), branch, start, target)
        git(made.work, ["reset", "--quiet", "--hard"], environment, inside)
        return _noted(made)

    def forget(self, owner: str) -> bool:
        """Remove it with its session marks; True if it was here. A worktree's branch is kept."""
        root = self.root(owner)
        found = self.find(owner)
        if not root.exists():
            return False
        shutil.rmtree(root, ignore_errors=True)
        if found is not None and found.repo is not None and Path(found.repo).is_dir():
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
            "the work needs a repository: payload.repo must be an absolute path on this machine, "
            "or the project must have one"
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


def git(
    where: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    within: Within = list,
) -> bytes:
    """The output of git; hooks and monitors of the repository are not executed."""
    done = git_result(where, arguments, environment, within)
    if done.returncode != 0:
        raise WorkspaceFailed(f"git {arguments[0]} failed in {where}: {error_text(done)}")
    return done.stdout


def git_result(
    where: Path,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    within: Within = list,
    *,
    remote: bool = False,
) -> "subprocess.CompletedProcess[bytes]":
    """How git ended; hooks and monitors of the repository are not executed.

    Only with `remote` may git connect to a remote.
    """
    options = HARMLESS if remote else (*HARMLESS, *OFFLINE_OPTIONS)
    try:
        return subprocess.run(
            within(["git", *options, "-C", str(where), *arguments]),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_S,
            env={**environment, **FIXED, **({} if remote else OFFLINE)},
            check=False,
        )
    except FileNotFoundError:
        raise WorkspaceFailed("a worktree needs git, which is not installed here") from None
    except subprocess.TimeoutExpired:
        raise WorkspaceFailed(f"git {arguments[0]} took longer than {GIT_S:.0f} s") from None


def error_text(done: "subprocess.CompletedProcess[bytes]") -> str:
    """The end of what git has written about an error."""
    return done.stderr.decode("utf-8", "replace").strip()[-500:]
