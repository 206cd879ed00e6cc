"""The adapter for GitHub, and the GitHub of tests, which refuses what the real one refuses."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import Misconfigured
from detent.integrations.forges.forge import (
    ForgeBusy,
    ForgeRefused,
    LineThread,
    NewRequest,
    Note,
    PullRequest,
    Status,
)
from detent.integrations.forges.github_forge import GitHubForge
from tests.agents.repository import commit, git, make_repository
from verification.forge_socket import Reply
from verification.github.github_people import People
from verification.github.github_server import SECONDARY_LIMIT, GitHubServer
from verification.github.github_state import RepoState

REPO = "acme/app"


class Site:
    """A repository with the branches main and work, and a connection to it."""

    def __init__(self, directory: Path, server: GitHubServer) -> None:
        self.server = server
        self.repo: RepoState = server.add_repo(REPO)
        self.clone = make_repository(directory / "clone", {"code.py": "a = 1\nb = 2\n"})
        git(self.clone, "remote", "add", "origin", str(self.repo.directory))
        git(self.clone, "push", "--quiet", "origin", "main")
        self.forge = GitHubForge(server.url, "ghp_secret")
        self.people = People(self.repo)

    def branch(self, name: str, text: str) -> str:
        git(self.clone, "checkout", "--quiet", "-B", name, "main")
        made = commit(self.clone, {"code.py": text}, name)
        git(self.clone, "push", "--quiet", "--force", "origin", name)
        return made

    def opened(self, name: str, text: str = "a = 1\nb = 20\n") -> PullRequest:
        self.branch(name, text)
        self.forge.open_request(REPO, NewRequest("title", "body", name))
        return self.request(name)

    def request(self, name: str) -> PullRequest:
        self.forge.request(REPO, name)  # GitHub begins to compute whether it can be merged
        found = self.forge.request(REPO, name)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("github")
    server = GitHubServer(directory / "github")
    with server.serving():
        made = Site(directory, server)
        yield made
        made.forge.close()


def test_a_request_is_read_with_all_that_it_has(site: Site) -> None:
    opened = site.opened("work")
    pull = site.repo.pulls[opened.number]
    site.people.check(pull, "tests", "failure", "E  assert 1 == 2")
    site.people.check(pull, "lint", None)
    site.people.review(pull, "CHANGES_REQUESTED", "No.")
    site.people.review(pull, "COMMENTED")
    site.people.comment_on_line(pull, "code.py", 2, "Why?")
    found = site.request("work")
    assert (found.state, found.base, found.conflict) == ("open", "main", False)
    assert [(each.name, each.state) for each in found.checks] == [
        ("tests", "failed"),
        ("lint", "pending"),
    ]
    assert "E  assert 1 == 2" in found.checks[0].log
    assert "2026-" not in found.checks[0].log
    assert [(each.verdict, each.commit) for each in found.reviews] == [
        ("changes_requested", found.head)
    ]
    (thread,) = found.threads
    assert (thread.file, thread.side, thread.start, thread.end) == ("code.py", "after", 2, 2)
    site.forge.reply(found, thread, "Because.")
    site.forge.resolve(found, thread)
    (after,) = site.request("work").threads
    assert after.resolved
    assert [(each.author, each.body) for each in after.notes] == [
        ("alice", "Why?"),
        ("detent-bot", "Because."),
    ]


def test_checks_and_statuses_on_later_pages_count(site: Site) -> None:
    """A failed check after the first hundred is not a passed one."""
    request = site.opened("many-checks")
    for number in range(150):
        site.people.check(site.repo.pulls[request.number], f"check {number:03}", "success")
    site.people.check(site.repo.pulls[request.number], "the last one", "failure", "red")
    for number in range(100):
        status = {"state": "success", "context": f"status {number:03}"}
        site.repo.statuses.setdefault(request.head, []).append(
            {"id": number, "description": "", "target_url": None, **status}
        )
    site.forge.set_status(REPO, request.head, Status("pending", "works"))
    found = site.request("many-checks")
    assert len(found.checks) == 251
    assert [each.name for each in found.checks if each.state == "failed"] == ["the last one"]
    assert site.forge.status(REPO, request.head) == Status("pending", "works")


def test_a_conflict_is_that_of_git(site: Site) -> None:
    opened = site.opened("conflict")
    site.branch("main", "a = 1\nb = 3\n")
    assert site.request("conflict").conflict
    with pytest.raises(ForgeRefused, match="not mergeable") as raised:
        site.forge.merge(opened, "merge")
    assert raised.value.http_status == 405


def test_only_the_commit_that_was_read_is_merged(site: Site) -> None:
    stale = site.opened("stale", "a = 5\nb = 2\n")
    site.branch("stale", "a = 6\nb = 2\n")
    assert not site.forge.merge(stale, "merge")


def test_a_status_is_shown_under_the_name_of_detent(site: Site) -> None:
    head = site.branch("status", "s\n")
    assert site.forge.status(REPO, head) is None
    site.forge.set_status(REPO, head, Status("failed", "A person must decide."))
    assert site.forge.status(REPO, head) == Status("failed", "A person must decide.")
    with pytest.raises(ForgeRefused, match="No commit found for SHA"):
        site.forge.set_status(REPO, "0" * 40, Status("passed", ""))
    with pytest.raises(ForgeRefused, match="too long"):
        site.forge.set_status(REPO, head, Status("passed", "x" * 141))


@pytest.mark.parametrize(
    ("new", "message"),
    [
        (NewRequest("t", "b", "absent"), "Validation Failed; invalid"),
        (NewRequest("t", "b", "double", "absent"), "Validation Failed; invalid"),
        (NewRequest("t", "b", "main"), "No commits between main and main"),
        (NewRequest("t", "b", "double"), "already exists for acme:double"),
    ],
)
def test_a_request_that_cannot_be_opened(site: Site, new: NewRequest, message: str) -> None:
    if site.repo.head("double") is None:
        site.opened("double")
    with pytest.raises(ForgeRefused, match=message) as raised:
        site.forge.open_request(REPO, new)
    assert raised.value.http_status == 422


def test_a_deleted_branch_closes_its_request(site: Site) -> None:
    site.opened("deleted", "a = 7\nb = 2\n")
    git(site.repo.directory, "update-ref", "-d", "refs/heads/deleted")
    found = site.request("deleted")
    assert (found.state, found.has_branch) == ("closed", False)
    assert site.forge.branch_head(REPO, "deleted") is None


def test_errors_of_github_have_a_cause(site: Site) -> None:
    with pytest.raises(Misconfigured, match="does not accept the token: Bad credentials"):
        GitHubForge(site.server.url, "ghp_other").account()
    with pytest.raises(ForgeRefused, match="404: Not Found"):
        site.forge.request("acme/other", "main")
    site.server.answers.append(SECONDARY_LIMIT)
    with pytest.raises(ForgeBusy, match="limits the rate") as limited:
        site.forge.issues(REPO, None)
    assert limited.value.retry_after_s == 1
    site.server.answers.append(Reply(502, {"message": "Server Error"}))
    with pytest.raises(ForgeBusy, match="has a fault"):
        site.forge.issues(REPO, None)
    site.server.answers.append(Reply(200, {"login": 3}))
    with pytest.raises(ForgeRefused, match="does not have GitHub's schema"):
        GitHubForge(site.server.url, "ghp_secret").account()
    with pytest.raises(ForgeBusy, match="does not respond"):
        GitHubForge("http://127.0.0.1:1", "ghp_secret").account()
    unknown = LineThread("PRRT_0", False, "f", "after", 1, 1, (Note("1", "a", True, "x"),))
    with pytest.raises(ForgeRefused, match="Could not resolve to a node"):
        site.forge.resolve(PullRequest(REPO, 1, "", "open", "b", "main", ""), unknown)


def test_issues_are_listed_without_pull_requests(site: Site) -> None:
    issue = site.people.open_issue("broken", "It is.", labels=("detent",))
    site.people.comment(issue, "Indeed.")
    (found,) = site.forge.issues(REPO, None)
    assert (found.title, found.labels, found.notes) == ("broken", ("detent",), ())
    assert not list(site.forge.issues(REPO, "2027-01-01T00:00:00.000Z"))
    read = site.forge.issue(REPO, issue.number)
    assert read is not None
    assert [each.body for each in read.notes] == ["Indeed."]
    assert site.forge.issue(REPO, 999) is None
    opened = site.opened("issue", "a = 8\nb = 2\n")
    assert site.forge.issue(REPO, opened.number) is None
