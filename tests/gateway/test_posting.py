"""Group commit across requests: submissions that come together share a transaction."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from detent.errors import Unavailable
from detent.store.port import WriteTransaction
from tests.gateway.installation import DEADLINE_S, Installation, installed, until


class Gate:
    """Holds the first write back until it is opened, and counts the transactions."""

    def __init__(self, store: Any) -> None:
        self._write = store.write
        self.open = threading.Event()
        self.entered = threading.Event()
        self.writes = 0

    @contextmanager
    def write(self) -> Iterator[WriteTransaction]:
        self.writes += 1
        self.entered.set()
        assert self.open.wait(DEADLINE_S)
        with self._write() as tx:
            yield tx


@pytest.fixture
def gated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Installation, Gate]]:
    with installed(tmp_path) as gateway:
        gate = Gate(gateway.core.store)
        monkeypatch.setattr(gateway.core.store, "write", gate.write)
        yield gateway, gate
        gate.open.set()


def submit(gateway: Installation, **fields: object) -> Any:
    client = gateway.client()
    return client.post("/api/tasks", json={"intent": "runQA", **fields})


def test_requests_that_wait_together_are_written_together(
    gated: tuple[Installation, Gate],
) -> None:
    gateway, gate = gated
    with ThreadPoolExecutor(41) as pool:
        first = pool.submit(submit, gateway)
        assert gate.entered.wait(DEADLINE_S)
        others = [pool.submit(submit, gateway) for _ in range(40)]
        orders = gateway.server.gateway.dispatcher._submissions
        until(lambda: orders.qsize() == 40)
        gate.open.set()
        answers = [each.result() for each in (first, *others)]
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 41
    assert gate.writes == 2


def test_a_refusal_in_a_batch_is_its_own_alone(gated: tuple[Installation, Gate]) -> None:
    gateway, gate = gated
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(submit, gateway, id="same")
        assert gate.entered.wait(DEADLINE_S)
        twice = pool.submit(submit, gateway, id="same")
        unknown = pool.submit(submit, gateway, intent="fly")
        fine = pool.submit(submit, gateway, id="other")
        until(lambda: gateway.server.gateway.dispatcher._submissions.qsize() == 3)
        gate.open.set()
        answers = [each.result() for each in (first, twice, unknown, fine)]
    assert [answer.status_code for answer in answers] == [201, 409, 422, 201]
    assert answers[1].json()["code"] == "task_exists"


def test_two_submissions_with_one_key_make_one_task(gated: tuple[Installation, Gate]) -> None:
    gateway, gate = gated
    with ThreadPoolExecutor(9) as pool:
        pool.submit(submit, gateway)
        assert gate.entered.wait(DEADLINE_S)
        made = [pool.submit(submit, gateway, idempotency_key="one") for _ in range(8)]
        until(lambda: gateway.server.gateway.dispatcher._submissions.qsize() == 8)
        gate.open.set()
        answers = [each.result().json() for each in made]
    assert len({answer["id"] for answer in answers}) == 1
    assert sorted(answer["repeated"] for answer in answers) == [False] + [True] * 7


def test_an_unavailable_store_is_not_an_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> AbstractContextManager[WriteTransaction]:
        raise Unavailable("the disk is full", retry_after_s=3)

    with installed(tmp_path) as gateway:
        before = gateway.head()
        with monkeypatch.context() as patch:
            patch.setattr(gateway.core.store, "write", away)
            answer = submit(gateway)
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert answer.headers["Retry-After"] == "3"
        assert gateway.head() == before
        assert submit(gateway).status_code == 201
