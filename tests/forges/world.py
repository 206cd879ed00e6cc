"""An installation, an agent, and a GitHub with real git, for tests of pull requests."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.integrations.forges.forge_keeper import github_keeper
from detent.integrations.tracker_keeper import TrackerKeeper
from detent.kernel.entities import Task
from detent.operations.forge_deliveries import receive
from detent.operations.github_hook import GITHUB_HOOK
from detent.operations.lifecycles import save_lifecycles
from detent.operations.queries import why
from detent.operations.registry import Caller
from detent.store.log_walk import events_of
from tests.agents.repository import commit, git, make_repository
from tests.agents.scene import Scene, Step, scene
from tests.worker.waiting import until
from verification.github.github_people import Delivery, People
from verification.github.github_server import GitHubServer
from verification.github.github_state import PullState, RepoState

TOKEN, SECRET = "ghp_secret", "hook-secret"
REPO = "acme/app"


class World:
    """One repository at GitHub, its clone at the worker, and the installation."""

    def __init__(self, s: Scene, server: GitHubServer, repo: RepoState, clone: Path) -> None:
        self.s, self.server, self.repo, self.clone = s, server, repo, clone
        save_lifecycles(s.core)
        self.people = People(repo, SECRET)
        self.keeper = self.new_keeper()

    def new_keeper(self) -> TrackerKeeper:
        """The service of a process that starts now."""
        self.keeper = github_keeper(self.s.core, "keeper")
        return self.keeper

    # -- acting ----------------------------------------------------------------------------

    def agent(self, *runs: Sequence[Step], **options: Any) -> None:
        """What the agent does, run by run."""
        self.s.script(*runs, repos=[str(self.clone)])
        self.s.intent(workspace="worktree", prompt="Resolve: {payload}", **options)
        self.s.app.bind(self.s.core)

    def post(self, delivery: Delivery) -> str:
        """The gateway's part of a delivery."""
        return receive(self.s.core, GITHUB_HOOK, delivery.headers, delivery.body)["status"]

    def deliver(self, **options: Any) -> list[str]:
        found: list[str] = self.people.send(self.post, **options)
        return found

    def sync(self, passes: int = 1) -> None:
        for _ in range(passes):
            self.keeper.service.run_once()

    def reaches(self, state: str, task_id: str, rounds: int = 0) -> Task:
        """Run passes until the task is in a state."""

        def look() -> Task | None:
            self.sync()
            task = self.task(task_id)
            return task if task.state == state and task.rounds >= rounds else None

        try:
            found: Task = until(look, f"the task is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.task(task_id)}") from None
        return found

    def opened(self, title: str = "b is wrong") -> str:
        """The id of a task whose pull request is open."""
        issue = self.people.open_issue(title, labels=("detent",))
        self.deliver()
        task_id = f"github.acme.app.{issue.number}"
        self.reaches("open", task_id)
        return task_id

    def change(self, branch: str, files: dict[str, str]) -> str:
        """Another person commits on the branch main and pushes that to a branch by force."""
        other = self.s.directory / "other"
        if not other.exists():
            git(self.s.directory, "clone", "--quiet", str(self.repo.directory), str(other))
        git(other, "fetch", "--quiet", "origin")
        git(other, "reset", "--quiet", "--hard", "origin/main")
        made = commit(other, files, "the work of others")
        git(other, "push", "--quiet", "--force", "origin", f"HEAD:{branch}")
        self.people.pushed(branch)
        return made

    # -- reading ---------------------------------------------------------------------------

    def task(self, task_id: str) -> Task:
        with self.s.core.store.read() as view:
            return next(task for task, _ in view.tasks([task_id]))

    def events(self, task_id: str) -> list[str]:
        """The names of the task's events, oldest first."""
        with self.s.core.store.read() as view:
            return [each.name for each in events_of(view, task_id)]

    def data(self, task_id: str, name: str) -> list[Any]:
        with self.s.core.store.read() as view:
            found = [each for each in events_of(view, task_id) if each.name == name]
        return [json.loads(each.data or b"{}") for each in found]

    @property
    def pull(self) -> PullState:
        """The last pull request."""
        return self.repo.pulls[max(self.repo.pulls)]

    def comment(self, task_id: str) -> str:
        """The comment of the task's last event that has one."""
        return self.task(task_id).comment or ""

    def actions(self, task_id: str) -> list[str]:
        """What a person can do now."""
        found = why(self.s.core, Caller("person", frozenset()), task_id=task_id)
        return [*found["actions"], *found["events"]]

    def status(self) -> Any:
        with self.s.core.store.read() as view:
            return view.rows("system_state").get("github_status")


@contextmanager
def world(directory: Path, files: dict[str, str], **settings: Any) -> Iterator[World]:
    server = GitHubServer(directory / "github")
    repo = server.add_repo(REPO)
    secrets = {"token": TOKEN, "secret": SECRET}
    for name, text in secrets.items():
        (directory / name).write_text(text)
    with server.serving() as url:
        clone = make_repository(directory / "repos" / "app", files)
        # git asks for credentials with the token in the address, as a credential helper gives it.
        address = url.replace("http://", f"http://x-access-token:{TOKEN}@")
        git(clone, "remote", "add", "origin", f"{address}/git/{REPO}.git")
        git(clone, "push", "--quiet", "origin", "main")
        given: dict[str, Any] = {
            "github_token": f"file:{directory / 'token'}",
            "github_url": url,
            "github_repositories": (f"{REPO}=fix",),
            "github_webhook_secret": f"file:{directory / 'secret'}",
            "github_interval_ms": 3_600_000,
            **settings,
        }
        with scene(directory, **given) as s:
            yield World(s, server, repo, clone)
