"""What the GitLab of tests holds: issues, merge requests, discussions and statuses of one project.

Commits, branches, conflicts and merges are those of git.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

from verification.github.github_state import RepoState

Json = dict[str, Any]

#: A time for each change, later than the one before.
_seconds = itertools.count(1)
#: The states that a commit status can have next.
TRANSITIONS = {
    None: ("pending", "running", "success", "failed", "canceled", "skipped"),
    "pending": ("running", "success", "failed", "canceled", "skipped"),
    "running": ("success", "failed", "canceled", "skipped"),
}


class Refusal(Exception):
    """A request that GitLab refuses."""

    def __init__(self, status: int, message: Any) -> None:
        self.status, self.message = status, message
        super().__init__(str(message))


def now() -> str:
    passed = next(_seconds)
    return f"2026-11-17T{12 + passed // 3600:02}:{passed // 60 % 60:02}:{passed % 60:02}.000Z"


@dataclass
class NoteState:
    id: int
    author: str
    body: str
    system: bool = False
    position: Json | None = None
    resolved: bool = False
    #: What a note of GitLab's own reports.
    action: str | None = None
    created_at: str = field(default_factory=now)


@dataclass
class IssueState:
    iid: int
    title: str
    description: str
    labels: list[str] = field(default_factory=list)
    assignees: list[str] = field(default_factory=list)
    state: str = "opened"
    notes: list[NoteState] = field(default_factory=list)
    updated_at: str = field(default_factory=now)


@dataclass
class MergeRequestState:
    iid: int
    source_branch: str
    target_branch: str
    title: str
    description: str
    state: str = "opened"
    sha: str = ""
    #: By id, the notes of each discussion.
    discussions: dict[str, list[NoteState]] = field(default_factory=dict)
    #: By the name of a reviewer, the state of the review.
    reviewers: dict[str, str] = field(default_factory=dict)
    approved_by: list[str] = field(default_factory=list)
    #: The last commit of each version, with its time.
    versions: list[tuple[str, str]] = field(default_factory=list)
    #: The ends for which a conflict was computed: the first read starts it, as at GitLab.
    computed: tuple[str, str] | None = None


@dataclass
class StatusState:
    id: int
    name: str
    status: str
    description: str | None = None
    #: The log of a job; None for a status of another system.
    trace: str | None = None
    allow_failure: bool = False


@dataclass
class ProjectState:
    """One project; its git repository is bare."""

    path: str
    git: RepoState
    id: int = 1
    #: By name, the access level of the members.
    members: dict[str, int] = field(default_factory=lambda: {"alice": 30, "guest": 10})
    issues: dict[int, IssueState] = field(default_factory=dict)
    requests: dict[int, MergeRequestState] = field(default_factory=dict)
    #: By commit, its statuses, oldest first.
    statuses: dict[str, list[StatusState]] = field(default_factory=dict)
    ids: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1_000))

    # -- merge requests --------------------------------------------------------------------

    def refresh(self, request: MergeRequestState) -> None:
        """Follow the branch: a push makes a version, a deleted branch leaves the request open."""
        head = self.git.head(request.source_branch)
        if request.state != "opened" or head is None or head == request.sha:
            return
        request.sha = head
        request.versions.append((head, now()))

    def conflict(self, request: MergeRequestState) -> bool | None:
        """Whether it has conflicts; None for the first read after a change, which computes it."""
        ends = (self.git.head(request.target_branch) or "", request.sha)
        if request.computed != ends:
            request.computed = ends
            return None
        return self.git.git("merge-tree", "--write-tree", *ends).returncode != 0

    def create_request(self, given: Json) -> MergeRequestState:
        source, target = given["source_branch"], given["target_branch"]
        if source == target:
            raise Refusal(
                400, {"base": ["You can't use same project/branch for source and target"]}
            )
        for branch, name in ((source, "source_branch"), (target, "target_branch")):
            if self.git.head(branch) is None:
                raise Refusal(400, {name: ["does not exist"]})
        for each in self.requests.values():
            if each.state == "opened" and each.source_branch == source:
                reason = (
                    f"Another open merge request already exists for this source branch: !{each.iid}"
                )
                raise Refusal(409, [reason])
        made = MergeRequestState(
            len(self.requests) + 1, source, target, given["title"], given.get("description") or ""
        )
        self.requests[made.iid] = made
        self.refresh(made)
        return made

    def merge(self, request: MergeRequestState, sha: str | None, *, squash: bool = False) -> None:
        self.refresh(request)
        if request.state != "opened":
            raise Refusal(405, "405 Method Not Allowed")
        if sha is not None and sha != request.sha:
            raise Refusal(409, "SHA does not match HEAD of source branch")
        base = self.git.head(request.target_branch) or ""
        tree = self.git.git("merge-tree", "--write-tree", base, request.sha)
        if tree.returncode != 0:
            raise Refusal(422, "Branch cannot be merged")
        parents = ["-p", base] + ([] if squash else ["-p", request.sha])
        made = self.git.git("commit-tree", tree.stdout.split()[0], *parents, "-m", request.title)
        self.git.git("update-ref", f"refs/heads/{request.target_branch}", made.stdout.strip())
        request.state = "merged"

    # -- statuses --------------------------------------------------------------------------

    def set_status(self, commit: str, name: str, state: str, **more: Any) -> StatusState:
        """A status of another system; GitLab refuses a state that cannot follow the present one."""
        known = [each for each in self.statuses.get(commit, []) if each.name == name]
        present = known[-1].status if known else None
        if present == state or (
            present in ("pending", "running") and state not in TRANSITIONS[present]
        ):
            event = {"running": "run", "pending": "enqueue"}.get(state, state)
            raise Refusal(400, f"Cannot transition status via :{event} from :{present}")
        made = StatusState(next(self.ids), name, state, **more)
        self.statuses.setdefault(commit, []).append(made)
        return made
