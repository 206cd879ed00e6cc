"""Each forge with its local server, and what people do there, under the same names."""

import base64
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from detent.integrations.forges.forge import Forge
from detent.integrations.forges.github_forge import GitHubForge
from detent.integrations.forges.gitlab_forge import GitLabForge
from detent.operations.forge_hook import Hook
from detent.operations.github_hook import GITHUB_HOOK
from detent.operations.gitlab_hook import GITLAB_HOOK
from tests.agents.repository import git, make_repository
from verification.forge_socket import ForgeServer, Reply
from verification.github import github_server, github_state
from verification.github.github_people import Delivery, People
from verification.github.github_state import RepoState
from verification.gitlab import gitlab_people, gitlab_server
from verification.gitlab.gitlab_people import GitLabPeople
from verification.gitlab.gitlab_state import MergeRequestState, ProjectState

REPO = "acme/app"
BRANCH = "detent/t1"
FILES = {"code.py": "a = 1\nb = 2\nc = 3\n"}
SIGNING_KEY = "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


@dataclass
class ForgeCase:
    """A forge with one repository, and a clone of it."""

    forge: Forge
    url: str
    token: str
    hook: Hook
    secret: str
    repo: RepoState
    clone: Path
    #: Replies to the next request with a status and headers, or makes the token invalid.
    answer: Callable[[int, Mapping[str, str]], None]
    revoke: Callable[[], None]
    server: ForgeServer
    #: The requests that changed something.
    changes: Callable[[], int]
    #: The branch that a delivery names.
    branch: str = BRANCH
    #: What people do; each action makes a delivery that waits.
    people: Any = None

    def requests(self) -> list[Any]:
        """The requests that the forge has."""
        raise NotImplementedError

    def push(self, files: dict[str, str], branch: str = BRANCH) -> str:
        """Commit files to a branch, which begins at main; returns the commit."""
        git(
            self.clone, "checkout", "--quiet", "-B", branch, branch if self._has(branch) else "main"
        )
        for name, text in files.items():
            (self.clone / name).write_text(text)
        git(self.clone, "add", "-A")
        git(self.clone, "commit", "--quiet", "-m", f"change {branch}")
        git(
            self.clone, "push", "--quiet", "--force", str(self.repo.directory), f"{branch}:{branch}"
        )
        return git(self.clone, "rev-parse", "HEAD")

    def _has(self, branch: str) -> bool:
        return bool(git(self.clone, "branch", "--list", branch))

    def delete_branch(self) -> None:
        self.repo.git("update-ref", "-d", f"refs/heads/{BRANCH}")

    # -- people ----------------------------------------------------------------------------

    def open_issue(self, title: str, body: str, *labels: str) -> int:
        raise NotImplementedError

    def write(self, issue: int, text: str, author: str = "alice", *, trusted: bool = True) -> None:
        raise NotImplementedError

    def check(self, name: str, state: str, log: str = "") -> None:
        """A check of the last commit: pending, passed or failed."""
        raise NotImplementedError

    def review(self, verdict: str, author: str = "alice", text: str = "") -> None:
        """Approve the request, or request changes."""
        raise NotImplementedError

    def comment_on_line(self, file: str, line: int, text: str) -> None:
        raise NotImplementedError

    def close_request(self) -> None:
        raise NotImplementedError

    def conversations(self) -> list[list[str]]:
        """The comments on lines of the last request, by thread."""
        raise NotImplementedError

    def delivery(self) -> Delivery:
        """A delivery about the request."""
        raise NotImplementedError

    def again(self, delivery: Delivery) -> Delivery:
        """The same content under another id: it was not received before."""
        raise NotImplementedError


class GitHubCase(ForgeCase):
    people: People

    @property
    def pull(self) -> github_state.PullState:
        return self.requests()[-1]

    def requests(self) -> list[github_state.PullState]:
        return list(self.people.repo.pulls.values())

    def open_issue(self, title: str, body: str, *labels: str) -> int:
        return self.people.open_issue(title, body, labels).number

    def write(self, issue: int, text: str, author: str = "alice", *, trusted: bool = True) -> None:
        association = "MEMBER" if trusted else "NONE"
        self.people.comment(self.people.repo.issues[issue], text, author, association)

    def check(self, name: str, state: str, log: str = "") -> None:
        conclusion = {"pending": None, "passed": "success", "failed": "failure"}[state]
        self.people.check(self.pull, name, conclusion, log)

    def review(self, verdict: str, author: str = "alice", text: str = "") -> None:
        self.people.review(self.pull, verdict.upper(), text, author)

    def comment_on_line(self, file: str, line: int, text: str) -> None:
        self.people.comment_on_line(self.pull, file, line, text)

    def close_request(self) -> None:
        self.people.close(self.pull)

    def conversations(self) -> list[list[str]]:
        return [[each.body for each in found.comments] for found in self.pull.threads]

    def delivery(self) -> Delivery:
        self.people.pushed(self.branch)
        return self.people.waiting.pop()

    def again(self, delivery: Delivery) -> Delivery:
        return Delivery({**delivery.headers, "x-github-delivery": str(uuid.uuid4())}, delivery.body)


class GitLabCase(ForgeCase):
    people: GitLabPeople

    @property
    def project(self) -> ProjectState:
        return self.people.project

    @property
    def request(self) -> MergeRequestState:
        found = self.requests()[-1]
        self.project.refresh(found)
        return found

    def requests(self) -> list[MergeRequestState]:
        return list(self.project.requests.values())

    def open_issue(self, title: str, body: str, *labels: str) -> int:
        return self.people.open_issue(title, body, labels).iid

    def write(self, issue: int, text: str, author: str = "alice", *, trusted: bool = True) -> None:
        self.project.members[author] = 30 if trusted else 10
        self.people.comment(self.project.issues[issue], text, author)

    def check(self, name: str, state: str, log: str = "") -> None:
        status = {"pending": "running", "passed": "success", "failed": "failed"}[state]
        self.people.check(self.request, name, status, log)

    def review(self, verdict: str, author: str = "alice", text: str = "") -> None:
        self.people.review(self.request, verdict, author, text)

    def comment_on_line(self, file: str, line: int, text: str) -> None:
        self.people.comment_on_line(self.request, file, line, text)

    def close_request(self) -> None:
        self.people.close(self.request)

    def conversations(self) -> list[list[str]]:
        found = self.requests()[-1].discussions.values()
        return [[each.body for each in notes] for notes in found if notes[0].position is not None]

    def delivery(self) -> Delivery:
        found = MergeRequestState(1, self.branch, "main", "Fix b", "")
        self.people.announce_request(found)
        return self.people.waiting.pop()

    def again(self, delivery: Delivery) -> Delivery:
        header = delivery.headers["x-gitlab-event"]
        return gitlab_people.delivery(self.secret, header, delivery.body.decode())


def _clone(directory: Path, repo: RepoState) -> Path:
    clone = make_repository(directory / "clone", FILES)
    git(clone, "push", "--quiet", str(repo.directory), "main")
    return clone


@contextmanager
def github_case(directory: Path) -> Iterator[ForgeCase]:
    server = github_server.GitHubServer(directory / "github")
    repo = server.add_repo(REPO)
    with server.serving() as url:

        def answer(status: int, headers: Mapping[str, str]) -> None:
            server.answers.append(Reply(status, {"message": "no"}, headers))

        made = GitHubCase(
            *(GitHubForge(url, "ghp_secret"), url, "ghp_secret", GITHUB_HOOK, "hook-secret", repo),
            *(_clone(directory, repo), answer, server.tokens.clear, server),
            lambda: len(server.changes()),
        )
        made.people = People(repo)
        yield made
        made.forge.close()


@contextmanager
def gitlab_case(directory: Path) -> Iterator[ForgeCase]:
    server = gitlab_server.GitLabServer(directory / "gitlab")
    project = server.add_project(REPO)
    with server.serving() as url:

        def answer(status: int, headers: Mapping[str, str]) -> None:
            server.answers.append(Reply(status, {"message": "no"}, headers))

        made = GitLabCase(
            *(GitLabForge(url, "glpat-secret"), url, "glpat-secret", GITLAB_HOOK, SIGNING_KEY),
            project.git,
            *(_clone(directory, project.git), answer, server.tokens.clear, server),
            lambda: len(server.changes()),
        )
        made.people = GitLabPeople(project, SIGNING_KEY)
        yield made
        made.forge.close()


CASES: dict[str, Any] = {"github": github_case, "gitlab": gitlab_case}
