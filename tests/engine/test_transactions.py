"""Transactions of the engine: who is notified after them, and what an unexpected error becomes.

`Engine.transaction` notifies waiters after a commit that appended events, or when asked to.
"""

import pytest

from detent.engine import CommandRequest, Engine, batch
from detent.errors import Refused, Unavailable
from detent.kernel import commands as c
from detent.store.memory import MemoryStore
from detent.store.port import WriteTransaction

ACTOR = c.Actor("person")
LIMITS = {"intent:dig": {"running": 1}}


class CountingStore(MemoryStore):
    """Counts how often waiters were notified."""

    def __init__(self) -> None:
        super().__init__()
        self.notified = 0

    def notify(self) -> None:
        self.notified += 1
        super().notify()


@pytest.fixture
def store() -> CountingStore:
    return CountingStore()


def submit(tx: WriteTransaction) -> None:
    request = CommandRequest(c.SubmitJob("job", "here", "dig"), ACTOR)
    batch.run(tx, [request], batch.Lifetimes())


def put_limits(tx: WriteTransaction) -> bool:
    tx.put_rows("limits", LIMITS)
    return True


def test_a_commit_with_events_notifies_waiters(store: CountingStore) -> None:
    Engine(store).transaction(submit)
    assert store.notified == 1


def test_the_result_of_the_work_does_not_decide(store: CountingStore) -> None:
    assert Engine(store).transaction(put_limits) is True
    assert store.notified == 0


def test_rows_without_events_notify_waiters_when_asked_to(store: CountingStore) -> None:
    Engine(store).transaction(put_limits, notify=True)
    assert store.notified == 1


def test_a_transaction_that_fails_notifies_no_waiter(store: CountingStore) -> None:
    engine = Engine(store)

    def fail(tx: WriteTransaction) -> None:
        submit(tx)
        raise Refused("no", code="stale_fence")

    with pytest.raises(Refused):
        engine.transaction(fail, notify=True)
    assert store.notified == 0
    engine.transaction(submit)  # the engine is free again
    assert store.notified == 1


def test_an_unexpected_error_is_logged_with_its_traceback(
    store: CountingStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*given: object) -> object:
        raise KeyError("job")

    monkeypatch.setattr(batch, "run", broken)
    with pytest.raises(Unavailable, match="KeyError: 'job'"):
        Engine(store).do(c.SubmitJob("job", "here", "dig"), ACTOR)
    (logged,) = caplog.records
    assert logged.getMessage() == "SubmitJob failed unexpectedly"
    assert logged.exc_info is not None
