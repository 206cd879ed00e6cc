"""The ids of tasks that are made from issues: one for each issue, also if names look alike."""

from types import SimpleNamespace
from typing import cast

import pytest

from detent.engine import Engine
from detent.integrations.forges.forge import Forge, Issue
from detent.integrations.forges.forge_config import ForgeConfig
from detent.integrations.forges.forge_sync import ForgeSync
from detent.integrations.forges.issue_sync import Kind
from detent.integrations.forges.issue_tasks import (
    IssueConfig,
    Place,
    add_task,
    find_task,
    place_of,
)
from detent.kernel import commands as c
from detent.operations.context import Core
from detent.operations.forge_hook import Named
from detent.operations.lifecycles import save_lifecycles
from detent.operations.registry import Caller, call
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
    return {row["id"]: place_of("gitlab", row) for row in rows}


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


def test_a_task_of_another_caller_is_no_task_of_an_issue(core: Core) -> None:
    """It can have the id and the payload of one, but not the source."""
    body = {"forge": "gitlab", "repository": "a/b", "number": 1}
    for number, issue in ((1, body), (2, {"forge": "gitlab"}), (3, "text")):
        given = {"id": f"gitlab.a.b.{number}", "intent": "fix", "payload": {"issue": issue}}
        call("submit_task", core, Caller("mallory"), **given)
    with core.store.read() as view:
        assert [find_task(view, "gitlab", f"gitlab.a.b.{each}") for each in (1, 2, 3)] == [None] * 3
    made = take(core, "a/b")
    assert made.startswith("gitlab.a.b-"), "the issue gets the other id"
    with core.store.read() as view:
        found = find_task(view, "gitlab", made)
    assert found is not None
    assert found.place == Place("a/b", 1)


def test_an_edited_payload_does_not_lead_to_another_issue(core: Core) -> None:
    made = take(core, "a/b")
    other = {"issue": {"forge": "gitlab", "repository": "other/secret", "number": 1}}
    core.engine.do(c.EditTask(made, {"payload": other}), c.Actor("person"))
    with core.store.read() as view:
        assert find_task(view, "gitlab", made) is None


def test_issues_and_requests_with_the_same_number_have_their_own_tasks(core: Core) -> None:
    forge = cast(Forge, SimpleNamespace(name="gitlab"))
    sync = ForgeSync(core, forge, ForgeConfig(repositories={"a/b": "fix"}))
    sync.note_task(Kind.ISSUE, "a/b", 5, "of the issue")
    sync.note_task(Kind.REQUEST, "a/b", 5, "of the request")
    assert sync.tasks_of(Named("a/b", issues=(5,))) == ["of the issue"]
    assert sync.tasks_of(Named("a/b", requests=(5,))) == ["of the request"]
