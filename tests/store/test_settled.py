"""Settled subtasks in every store: verified, rebuilt, exported and imported."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.integrity.rebuild import rebuild
from detent.integrity.verify import verify
from detent.kernel import commands as c
from detent.store.port import Store
from detent.store.store_url import open_store
from detent.store.types import Changes
from detent.testing.audit import picture
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import (
    claim,
    claim_one,
    complete,
    do,
    names,
    run_of,
    submit_task,
    suspend,
    task_of,
)
from detent.transfer.exporter import export_task
from detent.transfer.importer import import_archive

PERSON = c.Actor("person:ann")
LEASE_US = 30_000_000
ONCE = {"retry": {"max_attempts": 1}}


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    urls = {"memory": "memory:", "sqlite": str(tmp_path / "detent.db")}
    url = urls.get(request.param) or request.getfixturevalue("postgres_url")
    made = open_store(url, VirtualClock())
    yield made
    made.close()


def tree(engine: Engine) -> tuple[str, str, str]:
    """A task that has handled one failed subtask, and waits for another one that failed."""
    top = submit_task(engine, options=ONCE)
    parent = claim_one(engine)
    handled, failed = (submit_task(engine, parent_id=top, options=ONCE) for _ in range(2))
    detail = {"outcomes": True}
    suspend(engine, parent, "one", "subtasks", needs=(f"task:{handled}",), detail=detail)
    for each in claim(engine, 2):
        do(engine, c.FailRun(each.grant, run_of(each), "error", "it failed"))
    complete(engine, claim_one(engine))
    assert task_of(engine.store, top).state == "blocked"
    return top, handled, failed


def test_a_tree_is_verified_and_rebuilt_as_it_was(store: Store) -> None:
    engine = Engine(store)
    top, handled, failed = tree(engine)
    assert task_of(store, top).settled == (handled,)
    do(engine, c.DismissSubtask(failed, "not needed"))
    found = task_of(store, top)
    assert (found.state, found.settled, found.open_subtasks) == ("done", (handled, failed), 0)
    assert verify(store).differences == []
    before = picture(store)
    rebuild(store, LEASE_US)
    assert picture(store) == before


def test_a_wrong_counter_is_found(store: Store) -> None:
    engine = Engine(store)
    top, _, failed = tree(engine)
    do(engine, c.DismissSubtask(failed))
    with store.read() as view:
        ((task, version),) = view.tasks([top])
    assert verify(store).differences == []
    broken = task._replace(open_subtasks=1, settled=())
    with store.write() as tx:
        tx.save(Changes(tasks=[broken], versions={top: version}))
    fields = {each.field for each in verify(store).differences}
    assert fields == {"open_subtasks", "settled"}


def test_it_is_exported_and_goes_on_elsewhere(store: Store, tmp_path: Path) -> None:
    source = Engine(open_store("memory:", VirtualClock()))
    top, handled, failed = tree(source)
    export_task(source.store, top, tmp_path / "tree.zip", lambda *_: b"")
    target = Engine(store)
    import_archive(target, tmp_path / "tree.zip", PERSON, lambda *_: None)
    assert task_of(store, top) == task_of(source.store, top)
    do(target, c.RetryTask(handled))
    complete(target, claim_one(target))
    assert task_of(store, handled).state == "done"
    assert task_of(store, top).open_subtasks == 1, "it was settled before, and is not counted twice"
    do(target, c.DismissSubtask(failed))
    assert task_of(store, top).state == "done"
    with store.read() as view:
        assert names(view, top)[-4:] == [
            "task_imported",
            "subtask_dismissed",
            "task_started",
            "task_completed",
        ]
    assert verify(store).differences == []
