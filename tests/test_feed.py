"""The rule that every reader of the log follows: the cursor moves only after delivery."""

from collections.abc import Sequence

import pytest

from detent import feed
from detent.engine import Engine
from detent.errors import Unavailable
from detent.kernel import commands as c
from detent.store.memory import MemoryStore
from detent.store.types import LoggedEvent
from tests.gateway.installation import until

PERSON = c.Actor("person")


class Taker:
    """Takes events; fails before the deliveries that are named, by their numbers from 1."""

    def __init__(self, *failing: int) -> None:
        self.seen: list[int] = []
        self._failing = failing
        self._count = 0

    def __call__(self, batch: Sequence[LoggedEvent]) -> None:
        self._count += 1
        if self._count in self._failing:
            raise Unavailable("The reader does not take it.", retry_after_s=1)
        self.seen += [each.position for each in batch]


def store_with(count: int) -> MemoryStore:
    store = MemoryStore()
    add(store, count)
    return store


def add(store: MemoryStore, count: int, name: str = "j") -> None:
    for number in range(count):
        Engine(store).do(c.SubmitJob(f"{name}{number}", "p", "dig"), PERSON)


def positions(store: MemoryStore) -> list[int]:
    return [each.position for each in feed.read(store, 0)]


def test_a_batch_that_was_not_delivered_is_delivered_again() -> None:
    store, taker = store_with(3), Taker(1, 2)
    tail = feed.Tail(store, taker, 0)
    for _ in range(2):
        with pytest.raises(Unavailable):
            tail.step()
        assert tail.cursor == 0
    assert (tail.step(), tail.step()) == (3, 0)
    assert taker.seen == positions(store)
    assert tail.cursor == feed.head(store)


def test_a_follower_survives_failures_of_the_reader_and_of_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, taker = store_with(3), Taker(1, 3)
    read, failures = feed.read, [Unavailable("It is unavailable.", retry_after_s=1), OSError("cut")]

    def failing(*given: int) -> Sequence[LoggedEvent]:
        if failures:
            raise failures.pop()
        return read(store, *given[1:])

    monkeypatch.setattr(feed, "read", failing)
    follower = feed.Follower(store, "test", taker, poll_s=0.01)
    follower.start(0)
    until(lambda: taker.seen == [1, 2, 3])
    add(store, 2, "later")
    until(lambda: len(taker.seen) >= 5)
    follower.stop()
    follower.join()
    assert taker.seen == [each.position for each in read(store, 0)]
    assert failures == []
