"""A worker waits until the store has noticed a commit, of its own process or of another one."""

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from detent.engine import Engine
from detent.ids import new_id
from detent.kernel import commands as c
from detent.store.memory import MemoryStore
from detent.store.port import Store
from detent.store.store_url import open_store

DEADLINE_S = 60.0


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two stores of the same data, as two processes have them."""
    if request.param == "memory":
        only = MemoryStore()
        yield only, only
        return
    url = str(tmp_path / "detent.db")
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        yield first, second


def submit(store: Store) -> None:
    Engine(store).do(c.SubmitJob(new_id(), "here", "dig"), c.Actor("person"), fresh=True)


def test_a_commit_is_noticed_while_a_thread_waits_and_before(stores: tuple[Store, Store]) -> None:
    waiting, writing = stores
    submit(writing)
    for _ in range(3):
        noticed = waiting.noticed()
        submit(writing)
        assert _noticed_after(waiting, noticed)
    noticed = waiting.noticed()
    found: list[bool] = []
    waiter = threading.Thread(target=lambda: found.append(_noticed_after(waiting, noticed)))
    waiter.start()
    submit(writing)
    waiter.join(DEADLINE_S)
    assert found == [True]


def _noticed_after(store: Store, noticed: int) -> bool:
    return any(store.wait_for_notice(noticed, 1.0) for _ in range(int(DEADLINE_S)))


def test_without_a_commit_the_wait_ends(stores: tuple[Store, Store]) -> None:
    waiting, _ = stores
    assert isinstance(waiting.wait_for_notice(waiting.noticed(), 0.01), bool)
