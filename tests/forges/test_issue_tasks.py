"""The ids of tasks that are made from issues: one for each issue, also if names look alike."""

import pytest

from detent.engine import Engine
from detent.integrations.forges.forge import Issue
from detent.integrations.forges.issue_tasks import IssueConfig, Place, add_task, place_of
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.lifecycles import save_lifecycles
from detent.settings import Settings
from detent.store.memory import MemoryStore
from detent.store.types import Query
from detent.testing.clock import VirtualClock

ALIKE = ("a/b.c", "a/b/c", "a.b/c")


@pytest.fixture
def core() -> Core:
    store = MemoryStore(VirtualClock())
    made = Core(store, Engine(store), Settings())
    made.intents = {"fix": {}}
    save_lifecycles(made)
    return made


def take(core: Core, repo: str) -> str:
    config = IssueConfig(repositories={repo: "fix"})
    return add_task(core, "gitlab", Issue(repo, 1, "b is wrong", "", "URL", True), config)


def places(core: Core) -> dict[str, Place | None]:
    """The issue of each task."""
    with core.store.read() as view:
        rows = view.page(Query("tasks", limit=10))
    return {row["id"]: place_of("gitlab", row["payload"]) for row in rows}


def test_repositories_whose_names_look_alike_have_their_own_tasks(core: Core) -> None:
    made = [take(core, each) for each in ALIKE]
    assert made[0] == "gitlab.a.b.c.1"
    assert [take(core, each) for each in ALIKE] == made, "an issue becomes one task"
    assert places(core) == {
        task_id: Place(repo, 1) for task_id, repo in zip(made, ALIKE, strict=True)
    }


def test_an_issue_keeps_its_task_when_that_of_the_other_is_deleted(core: Core) -> None:
    first, second = (take(core, each) for each in ALIKE[:2])
    core.engine.do(c.CancelTask(first), c.Actor("person"))
    core.engine.do(c.DeleteTask(first), c.Actor("person"))
    assert take(core, ALIKE[1]) == second
    assert list(places(core)) == [second]
