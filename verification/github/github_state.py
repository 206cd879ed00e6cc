"""What the GitHub of tests holds: issues, pull requests, reviews and checks.

It has a bare git repository: commits, branches, conflicts and merges are those of git.
"""

import itertools
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Json = dict[str, Any]


class Refusal(Exception):
    """A request that the real server refuses."""

    def __init__(self, status: int, message: str, *errors: Mapping[str, str]) -> None:
        self.status, self.message, self.errors = status, message, errors
        super().__init__(message)


@dataclass
class Comment:
    id: int
    author: str
    association: str
    body: str


@dataclass
class IssueState:
    number: int
    title: str
    body: str
    state: str = "open"
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    updated_at: str = "2026-11-17T12:00:00Z"


@dataclass
class ReviewState:
    id: int
    author: str
    state: str
    commit: str
    body: str
    association: str = "MEMBER"


@dataclass
class ThreadState:
    id: str
    path: str
    line: int
    side: str
    comments: list[Comment]
    resolved: bool = False


@dataclass
class PullState:
    number: int
    title: str
    body: str
    branch: str
    base: str
    state: str = "open"
    merged: bool = False
    #: The head when it was closed.
    last_head: str = ""
    reviews: list[ReviewState] = field(default_factory=list)
    threads: list[ThreadState] = field(default_factory=list)
    #: Base and head for which a conflict was computed: the first read starts it, as at GitHub.
    computed: tuple[str, str] | None = None


@dataclass
class CheckState:
    id: int
    name: str
    conclusion: str | None
    log: str = ""


@dataclass
class RepoState:
    """One repository; its git directory is bare."""

    full_name: str
    directory: Path
    issues: dict[int, IssueState] = field(default_factory=dict)
    pulls: dict[int, PullState] = field(default_factory=dict)
    checks: dict[str, list[CheckState]] = field(default_factory=dict)
    statuses: dict[str, list[Json]] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1_000))

    @property
    def owner(self) -> str:
        return self.full_name.partition("/")[0]

    # -- git -------------------------------------------------------------------------------

    def git(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        who = ["-c", "user.name=github", "-c", "user.email=noreply@github.example"]
        command = ["git", *who, "-C", str(self.directory), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def head(self, branch: str) -> str | None:
        found = self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}")
        return found.stdout.strip() or None

    def has_commit(self, sha: str) -> bool:
        return self.git("cat-file", "-e", f"{sha}^{{commit}}").returncode == 0

    def head_of(self, pull: PullState) -> str:
        now = self.head(pull.branch) if pull.state == "open" else None
        pull.last_head = now or pull.last_head
        return pull.last_head

    def mergeable(self, pull: PullState) -> bool | None:
        """None for the first read after a push, as at GitHub, which computes it then."""
        ends = (self.head(pull.base) or "", self.head_of(pull))
        if pull.state != "open":
            return None
        if pull.computed != ends:
            pull.computed = ends
            return None
        return self.git("merge-tree", "--write-tree", *ends).returncode == 0

    # -- pull requests ---------------------------------------------------------------------

    def open_pull(self, given: Json) -> PullState:
        branch, base = str(given["head"]).removeprefix(f"{self.owner}:"), str(given["base"])
        for name, value in (("base", base), ("head", branch)):
            if self.head(value) is None:
                raise invalid("PullRequest", name, "invalid")
        if any(each.branch == branch and each.state == "open" for each in self.pulls.values()):
            text = f"A pull request already exists for {self.owner}:{branch}."
            raise invalid("PullRequest", "head", "custom", text)
        if not self.git("rev-list", "-1", f"{base}..{branch}").stdout:
            text = f"No commits between {base} and {branch}"
            raise invalid("PullRequest", "head", "custom", text)
        number = next(self.numbers)
        pull = PullState(number, str(given["title"]), str(given.get("body") or ""), branch, base)
        self.pulls[number] = pull
        self.head_of(pull)
        return pull

    def merge(self, pull: PullState, sha: str | None) -> str:
        if pull.state != "open":
            raise Refusal(405, "Pull Request is not mergeable")
        head, base = self.head_of(pull), self.head(pull.base) or ""
        if sha not in (None, head):
            raise Refusal(409, "Head branch was modified. Review and try the merge again.")
        made = self.git("merge-tree", "--write-tree", base, head)
        if made.returncode != 0:
            raise Refusal(405, "Pull Request is not mergeable")
        tree = made.stdout.split()[0]
        message = f"Merge pull request #{pull.number}"
        commit = self.git("commit-tree", tree, "-p", base, "-p", head, "-m", message).stdout.strip()
        self.git("update-ref", f"refs/heads/{pull.base}", commit, base)
        pull.state, pull.merged = "closed", True
        return commit

    def close_pulls_without_branch(self) -> list[PullState]:
        """GitHub closes a pull request when its branch is deleted."""
        gone = [
            each
            for each in self.pulls.values()
            if each.state == "open" and self.head(each.branch) is None
        ]
        for pull in gone:
            pull.state = "closed"
        return gone


def invalid(resource: str, field_name: str, code: str, message: str = "") -> Refusal:
    error = {"resource": resource, "field": field_name, "code": code, "message": message}
    return Refusal(422, "Validation Failed", error)
