"""The interfaces of issue trackers and forges, and the values that they exchange with detent.

An adapter for a system with issues implements `IssueTracker`, and `IssueSync` does everything else.
One for a system that also has pull requests implements `Forge`, which `ForgeSync` works with. Every
method reads or changes the system with one or a few requests. An adapter stores nothing.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from detent.errors import DetentError, Unavailable

#: The name under which detent's own status is shown at a commit.
STATUS_NAME = "detent"

# ---- values ----------------------------------------------------------------------------------


class Note(NamedTuple):
    """A comment of a conversation."""

    id: str
    author: str
    #: Whether the author may write to the repository: only then does detent act on the text.
    trusted: bool
    body: str


class Issue(NamedTuple):
    """An issue with its comments, oldest first."""

    repo: str
    number: int
    title: str
    body: str
    url: str
    open: bool
    labels: tuple[str, ...] = ()
    assignees: tuple[str, ...] = ()
    notes: tuple[Note, ...] = ()
    #: Whether it has comments; in a list, an adapter that does not know says that it has.
    has_notes: bool = True


class Check(NamedTuple):
    """The newest result of one check of a commit."""

    name: str
    state: Literal["pending", "passed", "failed"]
    #: The end of what a failed check has printed.
    log: str = ""
    url: str = ""


class Review(NamedTuple):
    """The verdict of a reviewer about one commit."""

    id: str
    author: str
    trusted: bool
    verdict: Literal["approved", "changes_requested", "commented", "dismissed"]
    commit: str
    body: str = ""


class LineThread(NamedTuple):
    """Comments of reviewers on lines of a file. `start` and `end` are 0 for a whole file."""

    id: str
    resolved: bool
    file: str
    side: Literal["before", "after"]
    start: int
    end: int
    notes: tuple[Note, ...]


class PullRequest(NamedTuple):
    """A pull request as it is now."""

    repo: str
    number: int
    url: str
    state: Literal["open", "closed", "merged"]
    branch: str
    base: str
    #: The last commit of its branch, as the request shows it.
    head: str
    #: None while the forge has not computed it.
    conflict: bool | None = None
    checks: tuple[Check, ...] = ()
    #: The last review of each reviewer that has a verdict.
    reviews: tuple[Review, ...] = ()
    threads: tuple[LineThread, ...] = ()
    #: Whether its branch exists. GitHub closes the request when it is deleted, GitLab does not.
    has_branch: bool = True


class NewRequest(NamedTuple):
    """A pull request to open. `base` is empty for the default branch."""

    title: str
    body: str
    branch: str
    base: str = ""


class Status(NamedTuple):
    """What detent shows at a commit."""

    state: Literal["pending", "passed", "failed"]
    text: str


# ---- errors ----------------------------------------------------------------------------------


class ForgeBusy(Unavailable):
    """The forge or tracker did not respond, or limits the rate of requests.

    Whether a request that was sent has changed something is not known.
    """


class ForgeRefused(DetentError):
    """The forge refuses this request; a retry would be refused again."""

    default_code = "refused"

    def __init__(self, status: int, message: str) -> None:
        self.http_status = status
        super().__init__(
            f"The forge refused the request with status {status}: {message}",
            hint="See the message of the forge; detent's log names the task.",
        )


# ---- interfaces ------------------------------------------------------------------------------


class IssueTracker(Protocol):
    """A system with issues and comments.

    A system without repositories has another name before the number: `repo` of ENG-12 is ENG.
    """

    #: The name of the settings, of the routes and of the leader's role.
    name: str

    def account(self) -> str:
        """The name of the account that the token belongs to; Misconfigured if it is refused."""

    def issues(self, repo: str, since: str | None) -> Iterable[Issue]:
        """Open issues that have changed since this time (ISO 8601), without their comments."""

    def issue(self, repo: str, number: int) -> Issue | None:
        """An issue with its comments; None if there is none, or if it is a pull request."""

    def comment(self, repo: str, number: int, body: str) -> None:
        """Comment on an issue or a pull request."""

    def close(self) -> None:
        """Close the connections."""


class Forge(IssueTracker, Protocol):
    """An issue tracker with repositories and pull requests."""

    def request(self, repo: str, branch: str) -> PullRequest | None:
        """The newest pull request of a branch with all that it has; None if there is none."""

    def branch_head(self, repo: str, branch: str) -> str | None:
        """The last commit of a branch; None if the branch does not exist."""

    def open_request(self, repo: str, new: NewRequest) -> None:
        """Open a pull request."""

    def reply(self, request: PullRequest, thread: LineThread, body: str) -> None:
        """Reply to comments on lines."""

    def resolve(self, request: PullRequest, thread: LineThread, /) -> None:
        """Mark comments on lines as resolved."""

    def status(self, repo: str, commit: str) -> Status | None:
        """What detent shows at a commit."""

    def set_status(self, repo: str, commit: str, status: Status) -> None:
        """Show this at a commit, under the name `STATUS_NAME`."""

    def merge(self, request: PullRequest, method: str) -> bool:
        """Merge it if `head` is still its last commit; False if it is not."""
