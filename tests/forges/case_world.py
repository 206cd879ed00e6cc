"""A forge, an installation that works on its repository, and what both have; for every forge."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.integrations.forges.forge_keeper import github_keeper, gitlab_keeper
from detent.integrations.tracker_keeper import TrackerKeeper
from detent.kernel.entities import Task
from detent.operations.context import Core
from detent.operations.forge_deliveries import receive
from detent.operations.lifecycles import save_lifecycles
from detent.store.log_walk import events_of
from tests.agents.repository import commit, git
from tests.agents.scene import Scene, Step, scene
from tests.forges.forge_cases import CASES, REPO, ForgeCase
from tests.worker.waiting import until
from verification.github.github_people import Delivery

KEEPERS: dict[str, Callable[[Core, str], TrackerKeeper]] = {
    "github": github_keeper,
    "gitlab": gitlab_keeper,
}


class CaseWorld:
    """A forge, an installation that works on its repository, and a keeper."""

    def __init__(self, case: ForgeCase, s: Scene) -> None:
        self.case, self.s = case, s
        self.task_id = f"{case.forge.name}.acme.app.1"
        save_lifecycles(s.core)
        self.keeper = KEEPERS[case.forge.name](s.core, "keeper")

    def agent(self, *runs: Sequence[Step]) -> None:
        """What the agent does, run by run."""
        self.s.script(*runs, repos=[str(self.case.clone)])
        self.s.intent(workspace="worktree", prompt="Resolve: {payload}")
        self.s.app.bind(self.s.core)

    def post(self, delivery: Delivery) -> str:
        """The gateway's part of a delivery."""
        return receive(self.s.core, self.case.hook, delivery.headers, delivery.body)["status"]

    def deliver(self) -> None:
        """Every delivery arrives twice."""
        delivery = self.case.delivery()
        assert [self.post(delivery), self.post(delivery)] == ["accepted", "repeated"]

    def change(self, files: dict[str, str], branch: str = "main") -> None:
        """Another person commits on the branch main and pushes that to a branch by force."""
        other = self.s.directory / "other"
        git(self.s.directory, "clone", "--quiet", str(self.case.repo.directory), str(other))
        commit(other, files, "the work of others")
        git(other, "push", "--quiet", "--force", "origin", f"HEAD:{branch}")
        shutil.rmtree(other)
        self.case.people.pushed(branch)

    def task(self) -> Task | None:
        with self.s.core.store.read() as view:
            return next((task for task, _ in view.tasks([self.task_id])), None)

    def reaches(self, state: str, rounds: int = 0) -> None:
        def look() -> bool:
            self.keeper.service.run_once()
            task = self.task()
            return task is not None and (task.state, task.rounds) == (state, rounds)

        try:
            until(look, f"the task is {state} in round {rounds}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.task()}") from None

    def events(self) -> list[str]:
        with self.s.core.store.read() as view:
            return [each.name for each in events_of(view, self.task_id)]


@contextmanager
def case_world(forge: str, directory: Path, **more: Any) -> Iterator[CaseWorld]:
    with CASES[forge](directory) as case:
        # git asks for credentials with the token in the address, as a credential helper gives it.
        address = case.url.replace("http://", f"http://git:{case.token}@")
        git(case.clone, "remote", "add", "origin", f"{address}/git/{REPO}.git")
        for name, text in (("token", case.token), ("secret", case.secret)):
            (directory / name).write_text(text)
        settings: dict[str, Any] = {
            f"{forge}_token": f"file:{directory / 'token'}",
            f"{forge}_webhook_secret": f"file:{directory / 'secret'}",
            f"{forge}_url": case.url,
            f"{forge}_repositories": (f"{REPO}=fix",),
            f"{forge}_interval_ms": 200,
            f"{forge}_merge": "merge",
            **more,
        }
        with scene(directory, **settings) as s:
            yield CaseWorld(case, s)
