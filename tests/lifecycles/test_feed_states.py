"""The feed's message about a task that stopped names the right state of its lifecycle."""

import tomllib
from pathlib import Path

from detent.engine import Engine
from detent.gateway.feed_messages import with_states
from detent.kernel import commands as c
from detent.kernel.commands.lifecycle_commands import InstallLifecycle
from detent.store.memory.store import MemoryStore

DOCUMENT = Path(__file__).parent / "documents" / "build_and_deploy.toml"
PERSON = c.Actor("person")


def test_an_event_that_leads_to_several_states_is_named_by_the_present_one() -> None:
    """`task_blocked` leads to build_blocked or, in the second stage, to deploy_blocked."""
    store = MemoryStore()
    engine = Engine(store)
    name = engine.do(InstallLifecycle(tomllib.loads(DOCUMENT.read_text())), PERSON)
    engine.do(c.SubmitTask("base", "p", name, "build", "cli"), PERSON)
    engine.do(
        c.SubmitTask("task", "p", name, "build", "cli", depends_on=("base",), queue=True), PERSON
    )
    with store.read() as view:
        ((task, _),) = view.tasks(["task"])
        events = view.events(0, 100, stream="task")
    assert task.state == "build_blocked"
    named = {each.logged.name: each.state for each in with_states(store, events)}
    assert named["task_blocked"] == "build_blocked"
    assert named["task_queued"] is None
