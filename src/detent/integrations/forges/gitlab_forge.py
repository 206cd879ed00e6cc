"""GitLab behind the interface of a forge, with the client library python-gitlab.

GitLab numbers issues and merge requests separately; a number alone means an issue. The library is
an extra, so this module is imported by the process that uses it, when it uses it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, cast

import gitlab
import requests
from gitlab.exceptions import GitlabAuthenticationError, GitlabError, GitlabParsingError
from gitlab.v4.objects import Project, ProjectMergeRequest

from detent.errors import Misconfigured
from detent.integrations.forges.forge import (
    STATUS_NAME,
    Check,
    ForgeBusy,
    ForgeRefused,
    Issue,
    LineThread,
    NewRequest,
    Note,
    PullRequest,
    Review,
    Status,
)
from detent.integrations.forges.gitlab_queries import ACTIONS

TIMEOUT_S = 20.0
PAGE_SIZE = 100
LONGEST_LOG = 50_000
RETRY_AFTER_S = 30
#: The access level from which a member may push to a repository: developer.
DEVELOPER = 30
#: Colours and section marks in the log of a job.
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|section_(?:start|end):\d+:[^\r\n]*\r?|\r")
STATES: dict[str, Literal["open", "closed", "merged"]] = {
    "opened": "open",
    "locked": "open",
    "closed": "closed",
    "merged": "merged",
}
#: While the conflict of a merge request is being computed.
COMPUTING = ("unchecked", "checking", "preparing", "cannot_be_merged_recheck")
#: By the state of a commit status or a job. A manual job waits for a person and fails nothing.
CHECKS: dict[str, Literal["pending", "passed", "failed"]] = {
    **dict.fromkeys(("success", "skipped", "manual"), "passed"),
    **dict.fromkeys(("failed", "canceled", "canceling"), "failed"),
}
STATUSES: dict[str, str] = {"pending": "running", "passed": "success", "failed": "failed"}
#: By the change that a note of GitLab's own reports, the verdict of its author.
VERDICTS: dict[str, Literal["approved", "changes_requested"]] = {
    "approved": "approved",
    "requested_changes": "changes_requested",
}
#: GitLab refuses a status that a commit has already.
SAME_STATUS = "Cannot transition status"


class _Client(gitlab.Gitlab):
    """A client that repeats nothing and does not sleep: the service decides when it tries again."""

    def http_request(self, *arguments: Any, **options: Any) -> requests.Response:
        given = {**options, "obey_rate_limit": False, "max_retries": 0}
        return super().http_request(*arguments, **given)


class GitLabForge:
    """A connection with one token."""

    name = "gitlab"

    def __init__(self, url: str, token: str) -> None:
        self._gitlab = _Client(url, private_token=token, timeout=TIMEOUT_S, user_agent="detent")
        self._gitlab.session.hooks["response"].append(self._note_limit)
        self._retry_after_s = RETRY_AFTER_S
        self._account: str | None = None

    def close(self) -> None:
        self._gitlab.session.close()

    def _note_limit(self, response: requests.Response, *_: Any, **__: Any) -> None:
        given = response.headers.get("Retry-After", "")
        self._retry_after_s = int(given[:6]) if given.isdecimal() else RETRY_AFTER_S

    # -- issues ----------------------------------------------------------------------------

    def account(self) -> str:
        if self._account is None:
            with self._errors():
                self._gitlab.auth()
                assert self._gitlab.user is not None
                self._account = str(self._gitlab.user.username)
        return self._account

    def issues(self, repo: str, since: str | None) -> Iterable[Issue]:
        wanted: dict[str, Any] = {"state": "opened", "order_by": "updated_at", **_all()}
        if since is not None:
            wanted["updated_after"] = since
        with self._errors():
            found = self._project(repo).issues.list(**wanted)
        return [_issue(repo, each) for each in found]

    def issue(self, repo: str, number: int) -> Issue | None:
        project = self._project(repo)
        try:
            with self._errors():
                found = project.issues.get(number)
                notes = found.notes.list(sort="asc", order_by="created_at", **_all())
        except ForgeRefused as error:
            if error.http_status == 404:
                return None
            raise
        written = [each for each in notes if not each.system]
        trusted = self._members(project, written)
        return _issue(repo, found)._replace(
            notes=tuple(_note(each.attributes, trusted) for each in written)
        )

    def comment(self, repo: str, number: int, body: str) -> None:
        with self._errors():
            self._project(repo).issues.get(number, lazy=True).notes.create({"body": body})

    # -- merge requests --------------------------------------------------------------------

    def request(self, repo: str, branch: str) -> PullRequest | None:
        project = self._project(repo)
        with self._errors():
            listed = project.mergerequests.list(
                source_branch=branch, order_by="created_at", sort="desc", per_page=1,
                get_all=False,
            )  # fmt: skip
            if not listed:
                return None
            found = project.mergerequests.get(listed[0].iid)
        computing = (found.merge_status or "unchecked") in COMPUTING
        seen = PullRequest(
            repo,
            found.iid,
            found.web_url,
            STATES[found.state],
            found.source_branch,
            found.target_branch,
            found.sha or "",
            None if computing else bool(found.has_conflicts),
        )
        seen = seen._replace(has_branch=self.branch_head(repo, branch) is not None)
        if seen.state != "open":
            return seen
        with self._errors():
            discussions = found.discussions.list(**_all())
        notes = [note for each in discussions for note in each.attributes["notes"]]
        trusted = self._members(project, notes)
        return seen._replace(
            checks=self._checks(project, seen.head),
            reviews=self._reviews(seen, found, notes, trusted),
            threads=tuple(_threads(discussions, trusted)),
        )

    def branch_head(self, repo: str, branch: str) -> str | None:
        try:
            with self._errors():
                return str(self._project(repo).branches.get(branch).commit["id"])
        except ForgeRefused as error:
            if error.http_status == 404:
                return None
            raise

    def open_request(self, repo: str, new: NewRequest) -> None:
        with self._errors():
            base = new.base or self._gitlab.projects.get(repo).default_branch
            self._project(repo).mergerequests.create(
                {
                    "source_branch": new.branch,
                    "target_branch": base,
                    "title": new.title,
                    "description": new.body,
                }
            )

    def merge(self, request: PullRequest, method: str) -> bool:
        merge = self._request(request).merge
        try:
            with self._errors():
                merge(sha=request.head, squash=method == "squash")
        except ForgeRefused as error:
            if error.http_status == 409:
                return False
            raise
        return True

    # -- reviews ---------------------------------------------------------------------------

    def _reviews(
        self,
        request: PullRequest,
        found: ProjectMergeRequest,
        notes: Sequence[Mapping[str, Any]],
        trusted: frozenset[str],
    ) -> tuple[Review, ...]:
        """The present verdict of each reviewer, about the commit that the reviewer has seen.

        The lists of reviewers and approvals have no commit and no time. Those come from the note
        that GitLab writes for a verdict, and from the versions of the merge request. A verdict
        without such a note is about no commit.
        """
        with self._errors():
            details = found.reviewer_details.list(**_all())
            approved = found.approvals.get().approved_by
        verdicts: dict[str, Literal["approved", "changes_requested"]] = {
            each["user"]["username"]: "approved" for each in approved
        }
        for each in details:
            if each.state == "requested_changes":
                verdicts[each.user["username"]] = "changes_requested"
        if not verdicts:
            return ()
        with self._errors():
            versions = found.diffs.list(**_all())
        reported = self._verdicts_of_notes(request)
        made = []
        for author, verdict in verdicts.items():
            own = [each for each in notes if _author(each) == author]
            last = max(
                (each for each in own if reported.get(int(each["id"])) == verdict),
                key=lambda each: str(each["created_at"]),
                default=None,
            )
            ident = f"{author}:{verdict}" if last is None else str(last["id"])
            commit = "" if last is None else _version_at(versions, last["created_at"])
            text = _remarks(own, versions, commit)
            made.append(Review(ident, author, author in trusted, verdict, commit, text))
        return tuple(made)

    def _verdicts_of_notes(self, request: PullRequest) -> Mapping[int, str]:
        """By the id of a note of GitLab's own, the verdict that it reports."""
        found: dict[int, str] = {}
        after: str | None = None
        while True:
            page = self._query(
                ACTIONS, {"project": request.repo, "request": str(request.number), "after": after}
            )["project"]["mergeRequest"]["notes"]
            for each in page["nodes"]:
                action = (each["systemNoteMetadata"] or {}).get("action")
                if action in VERDICTS:
                    found[int(each["id"].rpartition("/")[2])] = VERDICTS[action]
            if not page["pageInfo"]["hasNextPage"]:
                return found
            after = page["pageInfo"]["endCursor"]

    def _query(self, query: str, variables: Mapping[str, Any]) -> Any:
        """The data of a GraphQL query."""
        given = {"query": query, "variables": variables}
        with self._errors():
            found = self._gitlab.http_post(f"{self._gitlab.url}/api/graphql", post_data=given)
        errors = found.get("errors") if isinstance(found, dict) else "no object"
        if errors:
            raise ForgeRefused(200, f"the query of notes failed: {errors}")
        return found["data"]  # type: ignore[index]

    def reply(self, request: PullRequest, thread: LineThread, body: str) -> None:
        with self._errors():
            discussion = self._request(request).discussions.get(thread.id)
            discussion.notes.create({"body": body})

    def resolve(self, request: PullRequest, thread: LineThread, /) -> None:
        with self._errors():
            self._request(request).discussions.update(thread.id, {"resolved": True})

    # -- checks ----------------------------------------------------------------------------

    def _checks(self, project: Project, commit: str) -> tuple[Check, ...]:
        """The jobs of pipelines and the statuses of others at a commit, without detent's own."""
        with self._errors():
            listed = project.commits.get(commit, lazy=True).statuses.list(**_all())
        newest = {str(each.name): each for each in sorted(listed, key=lambda each: each.id)}
        return tuple(
            self._check(project, name, each.attributes)
            for name, each in newest.items()
            if name != STATUS_NAME
        )

    def _check(self, project: Project, name: str, status: Mapping[str, Any]) -> Check:
        state = CHECKS.get(status["status"], "pending")
        url = status.get("target_url") or ""
        if state != "failed":
            return Check(name, state, url=url)
        if status.get("allow_failure"):
            return Check(name, "passed", url=url)
        texts = [status.get("description") or "", self._trace(project, status["id"])]
        return Check(name, "failed", "\n".join(filter(None, texts))[-LONGEST_LOG:], url)

    def _trace(self, project: Project, job_id: int) -> str:
        """The end of the log of a job; a status that another system has set has none."""
        end, job = b"", project.jobs.get(job_id, lazy=True)
        try:
            with self._errors():
                pieces = job.trace(streamed=True, iterator=True, chunk_size=LONGEST_LOG)
                for piece in cast(Iterator[bytes], pieces):
                    end = (end + piece)[-4 * LONGEST_LOG :]  # it has control characters, too
        except ForgeRefused:
            return ""
        return CONTROL.sub("", end.decode("utf-8", "replace"))

    def status(self, repo: str, commit: str) -> Status | None:
        with self._errors():
            statuses = self._project(repo).commits.get(commit, lazy=True).statuses
            listed = statuses.list(name=STATUS_NAME, **_all())
        newest = max(listed, key=lambda each: int(each.id), default=None)
        if newest is None:
            return None
        return Status(CHECKS.get(newest.status, "pending"), newest.description or "")

    def set_status(self, repo: str, commit: str, status: Status) -> None:
        given = {"state": STATUSES[status.state], "name": STATUS_NAME, "description": status.text}
        try:
            with self._errors():
                self._project(repo).commits.get(commit, lazy=True).statuses.create(given)
        except ForgeRefused as error:
            if SAME_STATUS not in error.message:
                raise

    # -- access ----------------------------------------------------------------------------

    def _project(self, repo: str) -> Project:
        return self._gitlab.projects.get(repo, lazy=True)

    def _request(self, request: PullRequest) -> ProjectMergeRequest:
        return self._project(request.repo).mergerequests.get(request.number, lazy=True)

    def _members(self, project: Project, notes: Sequence[Any]) -> frozenset[str]:
        """The people who may push to the repository; empty if there is nothing to trust."""
        if not notes:
            return frozenset()
        with self._errors():
            found = project.members_all.list(**_all())
        return frozenset(str(each.username) for each in found if each.access_level >= DEVELOPER)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raises detent's errors instead of those of python-gitlab."""
        try:
            yield
        except GitlabAuthenticationError as error:
            raise Misconfigured(
                f"GitLab does not accept the token: {error.error_message}",
                setting="gitlab.token",
                hint="The token has expired or was revoked. Create another one, and set "
                "gitlab.token.",
            ) from None
        except GitlabParsingError as error:
            raise ForgeRefused(200, f"the response is not GitLab's: {error}") from None
        except GitlabError as error:
            raise self._failed(error) from None
        except requests.RequestException as error:
            raise ForgeBusy(
                f"GitLab does not respond: {type(error).__name__}", retry_after_s=RETRY_AFTER_S
            ) from None

    def _failed(self, error: GitlabError) -> Exception:
        status = error.response_code or 0
        if status == 429:
            seconds = max(1, self._retry_after_s)
            return ForgeBusy(
                f"GitLab limits the rate of requests; next request in {seconds} s.",
                retry_after_s=seconds,
            )
        if status >= 500:
            return ForgeBusy(f"GitLab has a fault: {status}", retry_after_s=RETRY_AFTER_S)
        return ForgeRefused(status, str(error.error_message))


def _all() -> dict[str, Any]:
    """Options of a list with all its pages."""
    return {"get_all": True, "per_page": PAGE_SIZE}


# ---- values ----------------------------------------------------------------------------------


def _issue(repo: str, found: Any) -> Issue:
    return Issue(
        repo,
        found.iid,
        found.title,
        found.description or "",
        found.web_url,
        found.state == "opened",
        tuple(map(str, found.labels)),
        tuple(str(each["username"]) for each in found.assignees),
        has_notes=found.user_notes_count > 0,
    )


def _author(note: Mapping[str, Any]) -> str:
    return str((note.get("author") or {}).get("username") or "ghost")


def _note(note: Mapping[str, Any], trusted: frozenset[str]) -> Note:
    author = _author(note)
    return Note(str(note["id"]), author, author in trusted, note["body"])


def _remarks(notes: Iterable[Mapping[str, Any]], versions: Sequence[Any], commit: str) -> str:
    """What a reviewer has written about a commit, without comments on lines."""
    return "\n\n".join(
        str(each["body"])
        for each in notes
        if not each["system"]
        and not each.get("position")
        and commit
        and _version_at(versions, each["created_at"]) == commit
    )


def _version_at(versions: Sequence[Any], at: str) -> str:
    """The last commit of the merge request at a time; empty before the first one."""
    earlier = [each for each in versions if str(each.created_at) <= str(at)]
    newest = max(earlier, key=lambda each: str(each.created_at), default=None)
    return "" if newest is None else str(newest.head_commit_sha)


def _threads(discussions: Sequence[Any], trusted: frozenset[str]) -> Iterator[LineThread]:
    """The discussions about lines or files of the diff."""
    for each in discussions:
        notes = [note for note in each.attributes["notes"] if not note["system"]]
        position = notes[0].get("position") if notes else None
        if not position:
            continue
        side, start, end = _lines(position)
        path = position["new_path"] if side == "after" else position["old_path"]
        resolved = all(note["resolved"] for note in notes if note.get("resolvable"))
        made = tuple(_note(note, trusted) for note in notes)
        yield LineThread(str(each.id), resolved, path, side, start, end, made)


def _lines(position: Mapping[str, Any]) -> tuple[Literal["before", "after"], int, int]:
    """The side of a comment, its first and its last line; 0 for a whole file."""
    side: Literal["before", "after"] = "after"
    if position.get("new_line") is None and position.get("old_line") is not None:
        side = "before"
    field = "new_line" if side == "after" else "old_line"
    end = int(position.get(field) or 0)
    span = position.get("line_range") or {}
    start = int((span.get("start") or {}).get(field) or end)
    return side, min(start, end), end
