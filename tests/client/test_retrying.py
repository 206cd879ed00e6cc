"""When a client asks again, and when it must not: against a gateway that answers badly."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest

from detent import AsyncClient, Client, errors, outage
from detent.client import shared
from tests.client.faulty import GONE, Answer, Faulty, events, faulty, problem
from tests.gateway.installation import DEADLINE_S

BUSY = problem(503, "unavailable", retry_after_s=3)
MADE = Answer(201, b'{"id": "t1", "repeated": false}')


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have waited, without the wait."""
    found: list[float] = []
    here, sleep = threading.get_ident(), time.sleep

    def note(seconds: float) -> None:
        if threading.get_ident() == here:
            found.append(seconds)
        else:  # another thread of this process sleeps
            sleep(seconds)

    monkeypatch.setattr(time, "sleep", note)
    return found


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@contextmanager
def connected(*answers: Answer, retries: int = 5) -> Iterator[tuple[Faulty, Client]]:
    with faulty(*answers) as gateway, Client(gateway.url, "token", retries=retries) as client:
        yield gateway, client


def test_a_read_is_asked_again_when_the_answer_says(pauses: list[float]) -> None:
    with connected(BUSY, BUSY, Answer(200, b'{"queueLength": 7}')) as (_, client):
        assert client.call("status") == {"queueLength": 7}
    assert pauses == [3.0, 3.0]


@pytest.mark.parametrize("failure", [BUSY, GONE], ids=["busy", "gone"])
def test_a_submission_is_repeated_under_one_key(failure: Answer, pauses: list[float]) -> None:
    with connected(failure, failure, MADE) as (gateway, client):
        assert client.submit("runQA").id == "t1"
    keys = {each.headers["idempotency-key"] for each in gateway.seen}
    assert (len(gateway.seen), len(keys)) == (3, 1)
    with connected(MADE) as (other, client):
        client.submit("runQA")
        client.submit("runQA", key="mine")
    own = [each.headers["idempotency-key"] for each in other.seen]
    assert own[0] not in keys
    assert own[1] == "mine"


@pytest.mark.parametrize("failure", [BUSY, GONE], ids=["busy", "gone"])
def test_a_verb_is_not_repeated(failure: Answer, pauses: list[float]) -> None:
    """A signal whose answer was lost may have arrived: twice is not the same as once."""
    with connected(failure) as (gateway, client), pytest.raises(errors.Unavailable) as raised:
        client.task("t1").signal("go")
    assert len(gateway.seen) == 1
    assert raised.value.retry_after_s in (1, 3)
    assert pauses == []


def test_giving_up_says_so(pauses: list[float]) -> None:
    with (
        connected(GONE, retries=2) as (gateway, client),
        pytest.raises(errors.Unavailable, match="does not answer"),
    ):
        client.call("status")
    assert len(gateway.seen) == 3
    assert pauses == sorted(pauses)


RUNNING = Answer(200, b'{"id": "j1", "state": "running"}')
COMPLETED = Answer(200, b'{"id": "j1", "state": "completed", "result": 7}')


@pytest.mark.usefixtures("pauses")
@pytest.mark.parametrize("failure", [BUSY, GONE], ids=["busy", "gone"])
def test_a_wait_goes_on_over_an_outage(failure: Answer) -> None:
    with connected(RUNNING, *[failure] * 20, COMPLETED) as (_, client):
        assert client.job("j1").result(timeout=DEADLINE_S) == 7


@pytest.mark.usefixtures("pauses")
def test_a_wait_does_not_begin_at_a_gateway_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with connected(*[BUSY] * 6) as (_, client), pytest.raises(errors.Unavailable):
        client.job("j1").wait()
    monkeypatch.setattr(outage, "LONGEST_S", 0.0)
    with connected(RUNNING, *[BUSY] * 6) as (_, client), pytest.raises(errors.Unavailable):
        client.job("j1").wait()


def test_a_refusal_is_not_asked_again(pauses: list[float]) -> None:
    with (
        connected(problem(409, "refused", legal=["run"])) as (gateway, client),
        pytest.raises(errors.Refused) as raised,
    ):
        client.call("status")
    assert (raised.value.legal, len(gateway.seen), pauses) == (("run",), 1, [])


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (Answer(502, b"<html>bad gateway</html>", "text/html"), errors.Unavailable),
        (problem(429, "too_many", retry_after_s=9), errors.TooMany),
        (problem(429, "too_deep"), errors.Refused),
        (problem(413, "too_large", limit=5), errors.TooLarge),
        (problem(412, "precondition_failed"), errors.Refused),
        (problem(500, "internal"), errors.DetentError),
        (problem(418, "teapot"), errors.DetentError),
    ],
)
def test_what_each_answer_becomes(
    answer: Answer, kind: type[errors.DetentError], pauses: list[float]
) -> None:
    with connected(answer, retries=0) as (_, client), pytest.raises(kind):
        client.call("status")


# ---- the feed --------------------------------------------------------------------------------


def event(position: int) -> dict[str, Any]:
    return {"type": "event", "position": position}


def test_a_cut_between_two_messages_of_a_position_repeats_none(pauses: list[float]) -> None:
    completed = {"type": "task_completed", "position": 2}
    first = events((0, {"type": "hello", "cursor": 0}), (1, event(1)), (None, event(2)), cut=True)
    second = events(
        (1, {"type": "hello", "cursor": 1}), (None, event(2)), (2, completed), (3, event(3))
    )
    with connected(first, second) as (gateway, client):
        found = list(islice(client.follow(0), 4))
    assert found == [event(1), event(2), completed, event(3)]
    assert [each.path for each in gateway.seen] == [
        "/api/events?cursor=0",
        "/api/events?cursor=1",
    ]


def test_a_reader_that_was_dropped_goes_on_where_it_was(pauses: list[float]) -> None:
    slow = events((1, event(1)), (1, {"type": "resync", "cursor": 1, "reason": "slow_reader"}))
    with connected(slow, events((2, event(2)))) as (gateway, client):
        assert list(islice(client.follow(0), 2)) == [event(1), event(2)]
    assert gateway.seen[1].path.endswith("cursor=1")


def test_a_history_that_was_cut_short_is_asked_for_again(pauses: list[float]) -> None:
    hello = {"type": "hello", "cursor": 0}
    stopping = events((0, hello), (1, event(1)), (1, {"type": "bye", "reason": "stopping"}))
    with connected(stopping, events((1, hello), (2, event(2)))) as (_, client):
        assert list(client.follow(0, follow=False)) == [event(1), event(2)]


def test_a_feed_that_stays_away_is_given_up(pauses: list[float]) -> None:
    with connected(BUSY, retries=2) as (gateway, client), pytest.raises(errors.Unavailable):
        next(client.follow(0))
    assert len(gateway.seen) == 3


@pytest.mark.anyio
async def test_coroutines_ask_again_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "MAX_PAUSE_S", 0.0)
    with faulty(BUSY, GONE, MADE) as gateway:
        async with AsyncClient(gateway.url, "token") as client:
            assert (await client.submit("runQA")).id == "t1"
    assert len({each.headers["idempotency-key"] for each in gateway.seen}) == 1
    with faulty(events((1, event(1)), cut=True), events((2, event(2)))) as gateway:
        async with AsyncClient(gateway.url, "token") as client:
            found = []
            async for message in client.follow(0):
                found.append(message)
                if len(found) == 2:
                    break
    assert found == [event(1), event(2)]


def test_the_cursor_of_a_stream_moves_after_its_messages_were_taken() -> None:
    stream = shared.Stream("http://here", 3, {}, 0)
    first, second = '{"type": "event", "position": 4}', '{"type": "task_completed"}'
    for line in (f"data: {first}", "", "id: 4", f"data: {second}"):
        assert list(stream.read(line)) == []
    taken = stream.read("")
    assert next(taken)["position"] == 4
    assert stream.cursor == 3
    assert [message["type"] for message in taken] == ["task_completed"]
    assert stream.cursor == 4
