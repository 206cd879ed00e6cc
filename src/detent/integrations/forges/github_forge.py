"""GitHub behind the interface of a forge, with the client library githubkit.

Responses are parsed with githubkit's models of GitHub's published schemas. The library is an extra
and slow to import, so this module is imported by the process that uses it, when it uses it.
"""

import itertools
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import Any, Literal

from githubkit import GitHub
from githubkit.exception import (
    GraphQLFailed,
    RateLimitExceeded,
    RequestError,
    RequestFailed,
)
from githubkit_schemas.latest import models
from pydantic import ValidationError

from detent.errors import Misconfigured
from detent.integrations.forges import github_queries
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
from detent.integrations.forges.github_responses import KeptResponses

#: The library logs every request.
logging.getLogger("httpx").setLevel(logging.WARNING)

TIMEOUT_S = 20.0
PAGE_SIZE = 100
LONGEST_LOG = 50_000
#: The authors who may write to a repository.
TRUSTED = ("OWNER", "MEMBER", "COLLABORATOR")
#: The time stamps that GitHub Actions puts before each line of a log.
TIMESTAMP = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ", re.MULTILINE)
PASSED = ("success", "neutral", "skipped")
VERDICTS: dict[str, Literal["approved", "changes_requested", "commented", "dismissed"]] = {
    "APPROVED": "approved",
    "CHANGES_REQUESTED": "changes_requested",
    "COMMENTED": "commented",
    "DISMISSED": "dismissed",
}
STATES: dict[str, Literal["pending", "passed", "failed"]] = {
    "success": "passed",
    "pending": "pending",
    "failure": "failed",
    "error": "failed",
}
STATUSES: dict[str, Literal["pending", "success", "failure"]] = {
    "pending": "pending",
    "passed": "success",
    "failed": "failure",
}


class GitHubForge:
    """A connection with one token."""

    name = "github"

    def __init__(self, url: str, token: str) -> None:
        self._github = GitHub(
            token,
            base_url=url,
            user_agent="detent",
            timeout=TIMEOUT_S,
            http_cache=False,  # keeps all responses; `KeptResponses` is bounded
            auto_retry=False,  # the service decides when it tries again
        )
        # Keeps connections open. githubkit remembers them for the thread that has made this object.
        self._connections = ExitStack()
        self._connections.enter_context(self._github)
        self._account: str | None = None
        self._kept = KeptResponses()

    def close(self) -> None:
        self._connections.close()

    # -- issues ----------------------------------------------------------------------------

    def account(self) -> str:
        if self._account is None:
            with _errors():
                self._account = self._github.rest.users.get_authenticated().parsed_data.login
        return self._account

    def issues(self, repo: str, since: str | None) -> Iterable[Issue]:
        options: dict[str, Any] = {} if since is None else {"since": datetime.fromisoformat(since)}
        found: list[models.Issue] = self._all(
            self._github.rest.issues.list_for_repo,
            *_place(repo),
            state="open",
            sort="updated",
            **options,
        )
        return [_issue(repo, each) for each in found if not each.pull_request]

    def issue(self, repo: str, number: int) -> Issue | None:
        try:
            with _errors():
                found = self._get(self._github.rest.issues.get, *_place(repo), number)
        except ForgeRefused as error:
            if error.http_status in (404, 410):
                return None
            raise
        if found.pull_request:
            return None
        return _issue(repo, found)._replace(notes=self._notes(repo, number))

    def comment(self, repo: str, number: int, body: str) -> None:
        with _errors():
            self._github.rest.issues.create_comment(*_place(repo), number, body=body)

    def _notes(self, repo: str, number: int) -> tuple[Note, ...]:
        list_comments = self._github.rest.issues.list_comments
        found: list[models.IssueComment] = self._all(list_comments, *_place(repo), number)
        return tuple(
            _note(each.id, each.user, each.author_association, each.body or "") for each in found
        )

    # -- pull requests ---------------------------------------------------------------------

    def request(self, repo: str, branch: str) -> PullRequest | None:
        owner, name = _place(repo)
        pulls = self._github.rest.pulls
        with _errors():
            given = {"state": "all", "sort": "created", "direction": "desc"}
            listed = self._get(pulls.list, owner, name, head=f"{owner}:{branch}", **given)
            if not listed:
                return None
            found: models.PullRequest = self._get(pulls.get, owner, name, listed[0].number)
        seen = PullRequest(
            repo,
            found.number,
            found.html_url,
            "merged" if found.merged else "open" if found.state == "open" else "closed",
            found.head.ref,
            found.base.ref,
            found.head.sha,
            None if found.mergeable is None else not found.mergeable,
        )
        if seen.state != "open":
            return seen._replace(has_branch=self.branch_head(repo, branch) is not None)
        # A review appears together with its comments: comments that were read have their review.
        threads = self._threads(repo, seen.number)
        return seen._replace(
            checks=self._checks(repo, seen.head),
            reviews=self._reviews(repo, seen.number),
            threads=threads,
        )

    def branch_head(self, repo: str, branch: str) -> str | None:
        try:
            with _errors():
                get_ref = self._github.rest.git.get_ref
                sha: str = self._get(get_ref, *_place(repo), f"heads/{branch}").object_.sha
                return sha
        except ForgeRefused as error:
            if error.http_status == 404:
                return None
            raise

    def open_request(self, repo: str, new: NewRequest) -> None:
        owner, name = _place(repo)
        with _errors():
            base = new.base or self._github.rest.repos.get(owner, name).parsed_data.default_branch
            self._github.rest.pulls.create(
                owner, name, title=new.title, body=new.body, head=new.branch, base=base
            )

    def merge(self, request: PullRequest, method: str) -> bool:
        try:
            with _errors():
                self._github.rest.pulls.merge(
                    *_place(request.repo),
                    request.number,
                    data={"sha": request.head, "merge_method": _method(method)},
                )
        except ForgeRefused as error:
            if error.http_status == 409:
                return False
            raise
        return True

    # -- reviews ---------------------------------------------------------------------------

    def _reviews(self, repo: str, number: int) -> tuple[Review, ...]:
        list_reviews = self._github.rest.pulls.list_reviews
        found: list[models.PullRequestReview] = self._all(list_reviews, *_place(repo), number)
        last: dict[str, Review] = {}
        for each in found:
            verdict = VERDICTS.get(each.state)
            author = _login(each.user)
            # A comment leaves an earlier verdict of its author as it is.
            if verdict is None or (verdict == "commented" and author in last):
                continue
            trusted = each.author_association in TRUSTED
            body, commit = each.body, each.commit_id or ""
            last[author] = Review(str(each.id), author, trusted, verdict, commit, body)
        return tuple(last.values())

    def _threads(self, repo: str, number: int) -> tuple[LineThread, ...]:
        owner, name = _place(repo)
        found: list[LineThread] = []
        after: str | None = None
        while True:
            given = {"owner": owner, "name": name, "number": number, "after": after}
            data = self._ask(github_queries.THREADS, given)
            page = data["repository"]["pullRequest"]["reviewThreads"]
            found += map(_thread, page["nodes"])
            if not page["pageInfo"]["hasNextPage"]:
                return tuple(found)
            after = page["pageInfo"]["endCursor"]

    def reply(self, request: PullRequest, thread: LineThread, body: str) -> None:
        first = int(thread.notes[0].id)
        with _errors():
            self._github.rest.pulls.create_reply_for_review_comment(
                *_place(request.repo), request.number, first, body=body
            )

    def resolve(self, _request: PullRequest, thread: LineThread, /) -> None:
        self._ask(github_queries.RESOLVE, {"thread": thread.id})

    def _ask(self, query: str, given: dict[str, Any]) -> dict[str, Any]:
        with _errors():
            return self._github.graphql(query, given)

    # -- checks ----------------------------------------------------------------------------

    def _checks(self, repo: str, commit: str) -> tuple[Check, ...]:
        """The check runs and statuses of a commit, without detent's own status."""
        runs: list[models.CheckRun] = self._all(
            self._github.rest.checks.list_for_ref,
            *_place(repo),
            commit,
            among="check_runs",
            filter_="latest",
        )
        found = [self._check(repo, each) for each in runs]
        for status in self._statuses(repo, commit):
            if status.context != STATUS_NAME:
                reported, url = status.description or "", status.target_url or ""
                found.append(Check(status.context, STATES[status.state], reported, url))
        return tuple(found)

    def _check(self, repo: str, run: models.CheckRun) -> Check:
        if run.conclusion is None:
            return Check(run.name, "pending")
        url = run.html_url or ""
        if run.conclusion in PASSED:
            return Check(run.name, "passed", url=url)
        return Check(run.name, "failed", self._log(repo, run), url)

    def _log(self, repo: str, run: models.CheckRun) -> str:
        """What a failed check says; for a job of GitHub Actions, the end of its log."""
        output = run.output
        reported = [output.title, output.summary, output.text]
        if run.app is not None and run.app.slug == "github-actions":
            reported.append(self._actions_log(repo, run.id))
        return "\n".join(filter(None, reported))[-LONGEST_LOG:]

    def _actions_log(self, repo: str, job_id: int) -> str:
        try:
            with _errors():
                found = self._github.rest.actions.download_job_logs_for_workflow_run(
                    *_place(repo), job_id
                )
        except ForgeRefused:
            return ""  # it is gone, or the token may not read it
        return TIMESTAMP.sub("", found.text)

    def _statuses(self, repo: str, commit: str) -> list[models.SimpleCommitStatus]:
        """The newest status of each context at a commit."""
        found: list[models.SimpleCommitStatus] = self._all(
            self._github.rest.repos.get_combined_status_for_ref,
            *_place(repo),
            commit,
            among="statuses",
        )
        return found

    def status(self, repo: str, commit: str) -> Status | None:
        for each in self._statuses(repo, commit):
            if each.context == STATUS_NAME:
                return Status(STATES[each.state], each.description or "")
        return None

    def set_status(self, repo: str, commit: str, status: Status) -> None:
        with _errors():
            self._github.rest.repos.create_commit_status(
                *_place(repo),
                commit,
                state=STATUSES[status.state],
                description=status.text,
                context=STATUS_NAME,
            )

    def _get(self, request: Any, *place: object, **options: object) -> Any:
        """The data of a response.

        Its type is not known here: the classes of githubkit have a method `list`, which hides the
        type in the signatures of the others.
        """
        return self._kept.get(request, *place, **options).parsed_data

    def _all(self, request: Any, *place: object, among: str = "", **options: object) -> Any:
        """All pages of a list; `among` is its field in a response that is an object.

        A full page can have a next one without a link to it: the link may have appeared since the
        page itself has changed.
        """
        found: list[Any] = []
        with _errors():
            for page in itertools.count(1):
                given = {"per_page": PAGE_SIZE, "page": page, **options}
                response = self._kept.get(request, *place, **given)
                data = response.parsed_data
                read = getattr(data, among) if among else data
                found += read
                if len(read) < PAGE_SIZE and "next" not in response.raw_response.links:
                    break
        return found


def _place(repo: str) -> tuple[str, str]:
    owner, _, name = repo.partition("/")
    return owner, name


def _method(given: str) -> Literal["merge", "squash", "rebase"]:
    return "squash" if given == "squash" else "rebase" if given == "rebase" else "merge"


# ---- values ----------------------------------------------------------------------------------


def _issue(repo: str, found: models.Issue) -> Issue:
    labels = (each if isinstance(each, str) else each.name for each in found.labels)
    return Issue(
        repo,
        found.number,
        found.title,
        found.body or "",
        found.html_url,
        found.state == "open",
        tuple(str(each) for each in labels if each),
        tuple(each.login for each in found.assignees or ()),
        has_notes=found.comments > 0,
    )


def _note(ident: int, user: object, association: object, body: str) -> Note:
    return Note(str(ident), _login(user), str(association) in TRUSTED, body)


def _login(user: object) -> str:
    """The name of an account; a deleted one has none."""
    return str(getattr(user, "login", "") or "ghost")


def _thread(node: dict[str, Any]) -> LineThread:
    comments = node["comments"]["nodes"]
    end = node["line"] or node["originalLine"] or 0
    start = node["startLine"] or node["originalStartLine"] or end
    notes = tuple(
        Note(
            str(each["databaseId"]),
            (each["author"] or {}).get("login") or "ghost",
            each["authorAssociation"] in TRUSTED,
            each["body"],
        )
        for each in comments
    )
    side: Literal["before", "after"] = "before" if node["diffSide"] == "LEFT" else "after"
    lines = (min(start, end), end)
    return LineThread(node["id"], node["isResolved"], node["path"], side, *lines, notes)


# ---- errors ----------------------------------------------------------------------------------


@contextmanager
def _errors() -> Iterator[None]:
    """Raises detent's errors instead of those of githubkit."""
    try:
        yield
    except RateLimitExceeded as error:
        seconds = max(1, int(error.retry_after.total_seconds()))
        raise ForgeBusy(
            f"GitHub limits the rate of requests; next request in {seconds} s.",
            retry_after_s=seconds,
        ) from None
    except RequestFailed as error:
        raise _failed(error) from None
    except RequestError as error:
        raise ForgeBusy(f"GitHub does not respond: {error.exc}", retry_after_s=30) from None
    except GraphQLFailed as error:
        reported = "; ".join(each.message for each in error.response.errors or ())
        raise ForgeRefused(200, reported) from None
    except ValidationError as error:
        raise ForgeRefused(200, f"the response does not have GitHub's schema: {error}") from None


def _failed(error: RequestFailed) -> Exception:
    response = error.response
    try:
        document = response.json()
    except ValueError:
        document = {}
    reported = [str(document.get("message") or response.status_code)]
    reported += [_reason(each) for each in document.get("errors") or ()]
    message = "; ".join(filter(None, reported))
    if response.status_code == 401:
        return Misconfigured(
            f"GitHub does not accept the token: {message}",
            setting="github.token",
            hint="The token has expired or was revoked. Create another one, and set github.token.",
        )
    if response.status_code >= 500:
        return ForgeBusy(f"GitHub has a fault: {message}", retry_after_s=30)
    return ForgeRefused(response.status_code, message)


def _reason(given: object) -> str:
    return str(given.get("message") or given.get("code")) if isinstance(given, dict) else str(given)
