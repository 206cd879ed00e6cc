"""A GitHub for tests on a loopback socket: the part of its API that detent uses, and as strict.

Schemas: githubkit-schemas 26.10.21, API version 2026-03-10. Requests are validated with the models
of their bodies, responses with those of their documents. Git is served by `git http-backend`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from githubkit_schemas.latest import models
from pydantic import BaseModel, ValidationError

from verification.forge_socket import ForgeServer, Reply
from verification.github import github_documents as documents
from verification.github import graphql_subset
from verification.github.github_state import Comment, Json, PullState, Refusal, RepoState, invalid
from verification.github.schema_filler import document

LONGEST_DESCRIPTION = 140


class Request(NamedTuple):
    query: Mapping[str, str]
    body: Json
    login: str


#: GitHub's responses to a client that is too fast.
SECONDARY_LIMIT = Reply(
    403,
    {
        "message": "You have exceeded a secondary rate limit. Please wait a few minutes.",
        "documentation_url": "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api",
    },
    {"retry-after": "1"},
)


@dataclass
class GitHubServer(ForgeServer):
    """One server; `tokens` maps each valid token to the login of its account."""

    tokens: dict[str, str] = field(default_factory=lambda: {"ghp_secret": "detent-bot"})
    repos: dict[str, RepoState] = field(default_factory=dict)
    #: The requests that count for the rate limit.
    counted: list[str] = field(default_factory=list)

    def add_repo(self, full_name: str) -> RepoState:
        """A repository without commits."""
        repo = self.new_repo(full_name)
        self.repos[full_name] = repo
        return repo

    def changes(self) -> list[str]:
        """The requests that change something, without those of git."""
        return [each for each in self.asked if not each.startswith(("GET", "POST /graphql"))]

    # -- one request -----------------------------------------------------------------------

    def handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        split = urlsplit(target)
        path = unquote(split.path)
        with self.lock:
            self.asked.append(f"{method} {path}")
            if self.answers:
                return self.answers.popleft()
            try:
                login = self._login(headers)
                given = json.loads(body) if body else {}
                request = Request(dict(parse_qsl(split.query)), given, login)
                reply = self._routed(method, path, request)
                return self._conditional(method, f"{login} {target}", headers, reply)
            except Refusal as refusal:
                errors = [dict(each) for each in refusal.errors]
                reported = {"message": refusal.message, "documentation_url": "", "errors": errors}
                return Reply(refusal.status, reported)

    def _conditional(
        self, method: str, asked: str, headers: Mapping[str, str], reply: Reply
    ) -> Reply:
        """A reply with a tag of its document and account; 304 to a request that has this tag."""
        if method != "GET" or reply.document is None:
            self.counted.append(self.asked[-1])
            return reply
        content = f"{asked}\n{json.dumps(reply.document)}"
        tag = f'W/"{hashlib.sha256(content.encode()).hexdigest()}"'
        if headers.get("if-none-match") == tag:
            return Reply(304, None, {"etag": tag}, b"")
        self.counted.append(self.asked[-1])
        return reply._replace(headers={**reply.headers, "etag": tag})

    def _login(self, headers: Mapping[str, str]) -> str:
        if not headers.get("user-agent"):
            raise Refusal(403, "Request forbidden by administrative rules. User-Agent is missing.")
        given = headers.get("authorization", "").partition(" ")[2]
        if given not in self.tokens:
            raise Refusal(401, "Bad credentials")
        return self.tokens[given]

    def _routed(self, method: str, path: str, request: Request) -> Reply:
        for wanted, pattern, serve in ROUTES:
            found = re.fullmatch(pattern, path)
            if wanted == method and found is not None:
                return serve(self, request, *found.groups())
        raise Refusal(404, "Not Found")

    def repo(self, name: str) -> RepoState:
        if name not in self.repos:
            raise Refusal(404, "Not Found")
        self.repos[name].close_pulls_without_branch()
        return self.repos[name]

    def pull(self, name: str, number: str) -> tuple[RepoState, PullState]:
        repo = self.repo(name)
        if int(number) not in repo.pulls:
            raise Refusal(404, "Not Found")
        return repo, repo.pulls[int(number)]


# ---- routes ----------------------------------------------------------------------------------


def checked(model: type[BaseModel], given: Json, resource: str) -> Json:
    """The body of a request, if the published schema allows it."""
    try:
        model.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        raise invalid(resource, str(first["loc"][0]), "missing_field", first["msg"]) from None
    return given


def _paged(found: list[Json], request: Request) -> list[Json]:
    size, page = int(request.query.get("per_page", 30)), int(request.query.get("page", 1))
    return found[(page - 1) * size : page * size]


def _user(_: GitHubServer, request: Request) -> Reply:
    return Reply(200, documents.account(request.login))


def _repo(server: GitHubServer, _: Request, name: str) -> Reply:
    return Reply(200, documents.repository(server.repo(name)))


def _issues(server: GitHubServer, request: Request, name: str) -> Reply:
    repo, since = server.repo(name), request.query.get("since", "")
    found = [
        documents.issue(repo, each)
        for each in repo.issues.values()
        if each.state == request.query.get("state", "open") and each.updated_at >= since
    ]
    return Reply(200, _paged(found, request))


def _issue(server: GitHubServer, _: Request, name: str, number: str) -> Reply:
    repo = server.repo(name)
    if int(number) in repo.pulls:  # GitHub shows a pull request as an issue
        pull = repo.pulls[int(number)]
        fields = {"number": pull.number, "title": pull.title, "state": pull.state}
        links = {"diff_url": "", "html_url": "", "patch_url": "", "url": ""}
        fields["pull_request"] = links
        return Reply(200, document(models.Issue, fields))
    if int(number) not in repo.issues:
        raise Refusal(404, "Not Found")
    return Reply(200, documents.issue(repo, repo.issues[int(number)]))


def _comments(server: GitHubServer, request: Request, name: str, number: str) -> Reply:
    issue = server.repo(name).issues.get(int(number))
    if issue is None:
        raise Refusal(404, "Not Found")
    return Reply(200, _paged([documents.comment(each) for each in issue.comments], request))


def _add_comment(server: GitHubServer, request: Request, name: str, number: str) -> Reply:
    repo = server.repo(name)
    body = checked(models.ReposOwnerRepoIssuesIssueNumberCommentsPostBody, request.body, "Comment")
    if not body["body"].strip():
        raise invalid("IssueComment", "body", "missing_field")
    made = Comment(next(repo.ids), request.login, "MEMBER", body["body"])
    repo.issues[int(number)].comments.append(made)
    return Reply(201, documents.comment(made))


def _pulls(server: GitHubServer, request: Request, name: str) -> Reply:
    repo = server.repo(name)
    wanted, state = request.query.get("head", ""), request.query.get("state", "open")
    found = [
        each
        for each in reversed(repo.pulls.values())
        if wanted in ("", f"{repo.owner}:{each.branch}") and state in ("all", each.state)
    ]
    return Reply(200, _paged([documents.short_pull(repo, each) for each in found], request))


def _pull(server: GitHubServer, _: Request, name: str, number: str) -> Reply:
    return Reply(200, documents.pull(*server.pull(name, number)))


def _open(server: GitHubServer, request: Request, name: str) -> Reply:
    repo = server.repo(name)
    body = checked(models.ReposOwnerRepoPullsPostBody, request.body, "PullRequest")
    return Reply(201, documents.pull(repo, repo.open_pull(body)))


def _merge(server: GitHubServer, request: Request, name: str, number: str) -> Reply:
    repo, pull = server.pull(name, number)
    body = checked(models.ReposOwnerRepoPullsPullNumberMergePutBody, request.body, "PullRequest")
    commit = repo.merge(pull, body.get("sha"))
    given = {"sha": commit, "merged": True, "message": "Pull Request successfully merged"}
    return Reply(200, document(models.PullRequestMergeResult, given))


def _reviews(server: GitHubServer, request: Request, name: str, number: str) -> Reply:
    _, pull = server.pull(name, number)
    return Reply(200, _paged([documents.review(each) for each in pull.reviews], request))


def _reply(server: GitHubServer, request: Request, name: str, number: str, first: str) -> Reply:
    repo, pull = server.pull(name, number)
    model = models.ReposOwnerRepoPullsPullNumberCommentsCommentIdRepliesPostBody
    body = checked(model, request.body, "PullRequestReviewComment")
    for thread in pull.threads:
        if thread.comments[0].id == int(first):
            made = Comment(next(repo.ids), request.login, "MEMBER", body["body"])
            thread.comments.append(made)
            fields = {**documents.comment_fields(made), "path": thread.path}
            return Reply(201, document(models.PullRequestReviewComment, fields))
    raise Refusal(404, "Not Found")


def _checks(server: GitHubServer, request: Request, name: str, sha: str) -> Reply:
    path, found = f"{name}/commits/{sha}/check-runs", documents.checks(server.repo(name), sha)
    return _part(server, request, path, found, "check_runs")


def _combined(server: GitHubServer, request: Request, name: str, sha: str) -> Reply:
    path, found = f"{name}/commits/{sha}/status", documents.combined(server.repo(name), sha)
    return _part(server, request, path, found, "statuses")


def _part(server: GitHubServer, request: Request, path: str, whole: Json, field: str) -> Reply:
    """A document with one page of its list, and the link to the next page."""
    size, page = int(request.query.get("per_page", 30)), int(request.query.get("page", 1))
    query = urlencode({**request.query, "page": page + 1})
    link = f'<{server.url}/repos/{path}?{query}>; rel="next"'
    more = len(whole[field]) > page * size
    document = {**whole, field: _paged(whole[field], request)}
    return Reply(200, document, {"link": link} if more else {})


def _set_status(server: GitHubServer, request: Request, name: str, sha: str) -> Reply:
    repo = server.repo(name)
    body = checked(models.ReposOwnerRepoStatusesShaPostBody, request.body, "Status")
    if not repo.has_commit(sha):
        raise Refusal(422, f"No commit found for SHA: {sha}")
    if len(body.get("description") or "") > LONGEST_DESCRIPTION:
        raise invalid("Status", "description", "custom", "description is too long")
    given = {
        "id": next(repo.ids),
        "state": body["state"],
        "context": body.get("context", "default"),
        "description": body.get("description"),
        "target_url": body.get("target_url"),
        "creator": documents.user(request.login),
    }
    repo.statuses.setdefault(sha, []).append(given)
    return Reply(201, documents.status(given))


def _ref(server: GitHubServer, _: Request, name: str, branch: str) -> Reply:
    repo = server.repo(name)
    sha = repo.head(branch)
    if sha is None:
        raise Refusal(404, "Not Found")
    return Reply(200, documents.ref(branch, sha))


def _log(server: GitHubServer, _: Request, name: str, job: str) -> Reply:
    for found in server.repo(name).checks.values():
        for check in found:
            if check.id == int(job):
                lines = (f"2026-11-17T12:00:00.0000000Z {each}" for each in check.log.splitlines())
                return Reply(200, None, {"content-type": "text/plain"}, "\n".join(lines).encode())
    raise Refusal(404, "Not Found")


def _graphql(server: GitHubServer, request: Request) -> Reply:
    query, given = str(request.body["query"]), request.body.get("variables") or {}
    try:
        if "resolveReviewThread" in query:
            return Reply(200, {"data": graphql_subset.selected(query, _resolve(server, given))})
        return Reply(200, {"data": graphql_subset.selected(query, _threads(server, given))})
    except graphql_subset.Unknown as error:
        return Reply(
            200, {"data": None, "errors": [{"message": str(error), "type": "undefinedField"}]}
        )
    except Refusal as refusal:
        return Reply(
            200, {"data": None, "errors": [{"message": refusal.message, "type": "NOT_FOUND"}]}
        )


def _threads(server: GitHubServer, given: Json) -> Json:
    _, pull = server.pull(f"{given['owner']}/{given['name']}", str(given["number"]))
    page = {
        "pageInfo": {"hasNextPage": False, "endCursor": None},
        "nodes": [documents.thread(each) for each in pull.threads],
    }
    return {"repository": {"pullRequest": {"reviewThreads": page}}}


def _resolve(server: GitHubServer, given: Json) -> Json:
    for repo in server.repos.values():
        for pull in repo.pulls.values():
            for thread in pull.threads:
                if thread.id == given["thread"]:
                    thread.resolved = True
                    return {"resolveReviewThread": {"thread": documents.thread(thread)}}
    raise Refusal(404, f"Could not resolve to a node with the global id of '{given['thread']}'")


REPO = r"/repos/([^/]+/[^/]+)"
ROUTES: tuple[tuple[str, str, Callable[..., Reply]], ...] = (
    ("GET", r"/user", _user),
    ("POST", r"/graphql", _graphql),
    ("GET", REPO, _repo),
    ("GET", REPO + r"/issues", _issues),
    ("GET", REPO + r"/issues/(\d+)", _issue),
    ("GET", REPO + r"/issues/(\d+)/comments", _comments),
    ("POST", REPO + r"/issues/(\d+)/comments", _add_comment),
    ("GET", REPO + r"/pulls", _pulls),
    ("POST", REPO + r"/pulls", _open),
    ("GET", REPO + r"/pulls/(\d+)", _pull),
    ("PUT", REPO + r"/pulls/(\d+)/merge", _merge),
    ("GET", REPO + r"/pulls/(\d+)/reviews", _reviews),
    ("POST", REPO + r"/pulls/(\d+)/comments/(\d+)/replies", _reply),
    ("GET", REPO + r"/commits/([0-9a-f]{40})/check-runs", _checks),
    ("GET", REPO + r"/commits/([0-9a-f]{40})/status", _combined),
    ("POST", REPO + r"/statuses/([0-9a-f]{40})", _set_status),
    ("GET", REPO + r"/git/ref/heads/(.+)", _ref),
    ("GET", REPO + r"/actions/jobs/(\d+)/logs", _log),
)
