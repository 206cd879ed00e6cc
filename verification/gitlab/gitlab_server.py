"""A GitLab for tests on a loopback socket: the part of API v4 that detent uses, and as strict.

Its documents are those that @gitbeaker/core 43.8.0 declares; `gitlab_schemas` completes and checks
them. Requests are checked by `gitlab_rules`. Git is served by `git http-backend`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from verification.forge_socket import ForgeServer, Reply
from verification.gitlab import gitlab_documents as documents
from verification.gitlab import gitlab_graphql
from verification.gitlab.gitlab_rules import body_of, check_query, checked, merge_options
from verification.gitlab.gitlab_state import (
    IssueState,
    Json,
    MergeRequestState,
    NoteState,
    ProjectState,
    Refusal,
)

MAX_PAGE = 100
#: Options that @gitbeaker/core declares at the method instead of as a type of their own.
NOTE_OPTIONS = frozenset(("sort", "order_by"))
STATUS_OPTIONS = frozenset(("ref", "stage", "name", "all"))
STATUS_STATES = ("pending", "running", "success", "failed", "canceled", "skipped")


class Request(NamedTuple):
    path: str
    query: Mapping[str, str]
    body: Json
    username: str


@dataclass
class GitLabServer(ForgeServer):
    """One server; `tokens` maps each valid token to the name of its account."""

    tokens: dict[str, str] = field(default_factory=lambda: {"glpat-secret": "detent-bot"})
    projects: dict[str, ProjectState] = field(default_factory=dict)

    def add_project(self, path: str) -> ProjectState:
        made = ProjectState(path, self.new_repo(path), len(self.projects) + 1)
        self.projects[path] = made
        made.members["detent-bot"] = 40
        return made

    # -- one request -----------------------------------------------------------------------

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        split = urlsplit(target)
        with self.lock:
            self.asked.append(f"{method} {split.path}")
            if self.answers:
                return self.answers.popleft()
            try:
                name = self._username(headers)
                query = dict(parse_qsl(split.query))
                request = Request(split.path, query, body_of(headers, body), name)
                return self._routed(method, split.path, request)
            except Refusal as refusal:
                return Reply(refusal.status, {"message": refusal.message})

    def changes(self) -> list[str]:
        """The requests that change something, without those of git."""
        return [each for each in self.asked if not each.startswith(("GET", "POST /api/graphql"))]

    def _username(self, headers: Mapping[str, str]) -> str:
        given = headers.get("private-token", "")
        if given not in self.tokens:
            raise Refusal(401, "401 Unauthorized")
        return self.tokens[given]

    def _routed(self, method: str, path: str, request: Request) -> Reply:
        for wanted, pattern, serve in ROUTES:
            found = re.fullmatch(f"/api{pattern}", path)
            if wanted == method and found is not None:
                return serve(self, request, *map(unquote, found.groups()))
        raise Refusal(404, "404 Not Found")

    def project(self, path: str) -> ProjectState:
        """A project by its path or by its id, which documents about its parts have."""
        for each in self.projects.values():
            if path in (each.path, str(each.id)):
                return each
        raise Refusal(404, "404 Project Not Found")

    def _url(self, path: str) -> str:
        return f"{self.url}/{self.project(path).path}"

    # -- routes ----------------------------------------------------------------------------

    def account(self, request: Request) -> Reply:
        return Reply(200, documents.account(self.url, request.username))

    def show_project(self, _: Request, path: str) -> Reply:
        return Reply(200, documents.project(self.project(path)))

    def members(self, request: Request, path: str) -> Reply:
        found = self.project(path).members.items()
        return self._page(request, [documents.member(name, at) for name, at in found])

    def branch(self, _: Request, path: str, name: str) -> Reply:
        head = self.project(path).git.head(name)
        if head is None:
            raise Refusal(404, "404 Branch Not Found")
        return Reply(200, documents.branch(name, head))

    def list_issues(self, request: Request, path: str) -> Reply:
        check_query(request.query, "list_issues")
        since = request.query.get("updated_after", "")
        wanted = request.query.get("state", "all")
        found = [
            documents.issue(self._url(path), each)
            for each in self.project(path).issues.values()
            if wanted in ("all", each.state) and each.updated_at >= since
        ]
        return self._page(request, found)

    def _issue_state(self, path: str, iid: str) -> IssueState:
        found = self.project(path).issues.get(int(iid))
        if found is None:
            raise Refusal(404, "404 Issue Not Found")
        return found

    def show_issue(self, _: Request, path: str, iid: str) -> Reply:
        return Reply(200, documents.issue(self._url(path), self._issue_state(path, iid)))

    def issue_notes(self, request: Request, path: str, iid: str) -> Reply:
        check_query(request.query, NOTE_OPTIONS)
        found = self._issue_state(path, iid)
        notes = [documents.issue_note(each, found.iid) for each in found.notes]
        if request.query.get("sort", "desc") != "asc":
            notes.reverse()
        return self._page(request, notes)

    def add_issue_note(self, request: Request, path: str, iid: str) -> Reply:
        body = checked("POST notes", request.body)["body"]
        issue = self._issue_state(path, iid)
        made = NoteState(next(self.project(path).ids), request.username, body)
        issue.notes.append(made)
        return Reply(201, documents.issue_note(made, issue.iid))

    # -- merge requests --------------------------------------------------------------------

    def list_requests(self, request: Request, path: str) -> Reply:
        check_query(request.query, "list_requests")
        project = self.project(path)
        found = [
            documents.listed_request(self._url(path), each)
            for each in project.requests.values()
            if request.query.get("source_branch") in (None, each.source_branch)
            and request.query.get("state", "all") in ("all", each.state)
        ]
        if request.query.get("sort", "desc") == "desc":
            found.reverse()
        return self._page(request, found)

    def create_request(self, request: Request, path: str) -> Reply:
        project = self.project(path)
        made = project.create_request(checked("POST merge_requests", request.body))
        return Reply(201, self._request(path, made, conflict=None))

    def _found(self, path: str, iid: str) -> tuple[ProjectState, MergeRequestState]:
        project = self.project(path)
        if int(iid) not in project.requests:
            raise Refusal(404, "404 Not found")
        found = project.requests[int(iid)]
        project.refresh(found)
        return project, found

    def show_request(self, _: Request, path: str, iid: str) -> Reply:
        project, found = self._found(path, iid)
        conflict = project.conflict(found) if found.state == "opened" else False
        return Reply(200, self._request(path, found, conflict=conflict))

    def merge_request(self, request: Request, path: str, iid: str) -> Reply:
        project, found = self._found(path, iid)
        given = merge_options(request.query, request.body)
        project.merge(found, given.get("sha"), squash=given.get("squash", False))
        return Reply(200, self._request(path, found, conflict=False))

    def _request(self, path: str, found: MergeRequestState, *, conflict: bool | None) -> Json:
        return documents.request(self._url(path), found, conflict=conflict)

    def reviewers(self, request: Request, path: str, iid: str) -> Reply:
        found = self._found(path, iid)[1].reviewers.items()
        return self._page(request, [documents.reviewer(name, state) for name, state in found])

    def approvals(self, _: Request, path: str, iid: str) -> Reply:
        return Reply(200, documents.approvals(self._found(path, iid)[1]))

    def versions(self, request: Request, path: str, iid: str) -> Reply:
        found = self._found(path, iid)[1].versions
        shown = [documents.version(at, sha, time) for at, (sha, time) in enumerate(found, 1)]
        return self._page(request, shown[::-1])

    def discussions(self, request: Request, path: str, iid: str) -> Reply:
        found = self._found(path, iid)[1]
        shown = [
            documents.discussion(name, notes, found.iid)
            for name, notes in found.discussions.items()
        ]
        return self._page(request, shown)

    def _notes(self, path: str, iid: str, name: str) -> list[NoteState]:
        found = self._found(path, iid)[1].discussions
        if name not in found:
            raise Refusal(404, "404 Discussion Not Found")
        return found[name]

    def show_discussion(self, _: Request, path: str, iid: str, name: str) -> Reply:
        return Reply(200, documents.discussion(name, self._notes(path, iid, name), int(iid)))

    def reply_to_discussion(self, request: Request, path: str, iid: str, name: str) -> Reply:
        body = checked("POST discussion notes", request.body)["body"]
        notes = self._notes(path, iid, name)
        made = NoteState(
            next(self.project(path).ids), request.username, body, position=notes[0].position
        )
        notes.append(made)
        return Reply(201, documents.discussion_note(made, int(iid)))

    def resolve_discussion(self, request: Request, path: str, iid: str, name: str) -> Reply:
        resolved = checked("PUT discussion", request.body)["resolved"]
        notes = self._notes(path, iid, name)
        if notes[0].position is None:
            raise Refusal(403, "403 Forbidden")
        for each in notes:
            each.resolved = bool(resolved)
        return Reply(200, documents.discussion(name, notes, int(iid)))

    # -- GraphQL ---------------------------------------------------------------------------

    def graphql(self, request: Request) -> Reply:
        return Reply(200, gitlab_graphql.execute(self.projects.get, request.body))

    # -- statuses --------------------------------------------------------------------------

    def list_statuses(self, request: Request, path: str, commit: str) -> Reply:
        check_query(request.query, STATUS_OPTIONS)
        project = self.project(path)
        if not project.git.has_commit(commit):
            raise Refusal(404, "404 Commit Not Found")
        newest = {each.name: each for each in project.statuses.get(commit, [])}
        wanted = request.query.get("name")
        found = [each for each in newest.values() if wanted in (None, each.name)]
        return self._page(request, [documents.status(each, commit) for each in found])

    def create_status(self, request: Request, path: str, commit: str) -> Reply:
        project, given = self.project(path), checked("POST statuses", request.body)
        if not project.git.has_commit(commit):
            raise Refusal(404, "404 Commit Not Found")
        if given["state"] not in STATUS_STATES:
            raise Refusal(400, "state does not have a valid value")
        more = {"description": given.get("description")}
        made = project.set_status(commit, given.get("name", "default"), given["state"], **more)
        return Reply(201, documents.status(made, commit))

    def trace(self, _: Request, path: str, job: str) -> Reply:
        project = self.project(path)
        known = (each for statuses in project.statuses.values() for each in statuses)
        found = next(
            (each for each in known if each.id == int(job) and each.trace is not None), None
        )
        if found is None:
            raise Refusal(404, "404 Not found")
        return Reply(200, text=(found.trace or "").encode())

    # -- pages -----------------------------------------------------------------------------

    def _page(self, request: Request, found: Sequence[Json]) -> Reply:
        size, at = int(request.query.get("per_page", 20)), int(request.query.get("page", 1))
        if not 1 <= size <= MAX_PAGE:
            raise Refusal(400, "per_page does not have a valid value")
        shown = list(found[(at - 1) * size : at * size])
        more = at * size < len(found)
        headers = {"X-Page": str(at), "X-Per-Page": str(size), "X-Total": str(len(found))}
        if more:
            query = urlencode({**request.query, "page": str(at + 1)})
            headers["Link"] = f'<{self.url}{request.path}?{query}>; rel="next"'
        return Reply(200, shown, headers)


_P = r"/v4/projects/([^/]+)"
_MR, _ISSUE = f"{_P}/merge_requests/(\\d+)", f"{_P}/issues/(\\d+)"
_COMMIT = f"{_P}/repository/commits/([^/]+)"
ROUTES: tuple[tuple[str, str, Callable[..., Reply]], ...] = (
    ("GET", "/v4/user", GitLabServer.account),
    ("GET", _P, GitLabServer.show_project),
    ("GET", f"{_P}/members/all", GitLabServer.members),
    ("GET", f"{_P}/repository/branches/([^/]+)", GitLabServer.branch),
    ("GET", f"{_P}/issues", GitLabServer.list_issues),
    ("GET", _ISSUE, GitLabServer.show_issue),
    ("GET", f"{_ISSUE}/notes", GitLabServer.issue_notes),
    ("POST", f"{_ISSUE}/notes", GitLabServer.add_issue_note),
    ("GET", f"{_P}/merge_requests", GitLabServer.list_requests),
    ("POST", f"{_P}/merge_requests", GitLabServer.create_request),
    ("GET", _MR, GitLabServer.show_request),
    ("PUT", f"{_MR}/merge", GitLabServer.merge_request),
    ("GET", f"{_MR}/reviewers", GitLabServer.reviewers),
    ("GET", f"{_MR}/approvals", GitLabServer.approvals),
    ("GET", f"{_MR}/versions", GitLabServer.versions),
    ("GET", f"{_MR}/discussions", GitLabServer.discussions),
    ("GET", f"{_MR}/discussions/([^/]+)", GitLabServer.show_discussion),
    ("PUT", f"{_MR}/discussions/([^/]+)", GitLabServer.resolve_discussion),
    ("POST", f"{_MR}/discussions/([^/]+)/notes", GitLabServer.reply_to_discussion),
    ("GET", f"{_COMMIT}/statuses", GitLabServer.list_statuses),
    ("POST", f"{_P}/statuses/([^/]+)", GitLabServer.create_status),
    ("GET", f"{_P}/jobs/(\\d+)/trace", GitLabServer.trace),
    ("POST", "/graphql", GitLabServer.graphql),
)
