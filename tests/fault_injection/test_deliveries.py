"""The comparison of readers with the log finds every way in which a reader may be wrong."""

import pytest

from verification.fault_injection.deliveries import (
    Connection,
    Event,
    Message,
    event_of,
    log_of,
    reader_problems,
    webhook_problems,
)

#: Positions have gaps.
LOG = log_of(Event(position, str(position).encode()) for position in (2, 3, 5, 8, 9, 12))


def connection(start: int, *positions: int, cursor: int | None = None) -> Connection:
    """One that delivered these positions; its cursor is the last of them by default."""
    made = Connection(start, [Event(each, str(each).encode()) for each in positions])
    made.cursor = cursor if cursor is not None else (positions or (start,))[-1]
    return made


@pytest.mark.parametrize(
    "connections",
    [
        [connection(0, 2, 3, 5, 8, 9, 12)],
        [connection(0), connection(0, 2, 3), connection(3), connection(3, 5, 8, 9, 12)],
        # A cut between an event and its cursor: the event comes again over the next connection.
        [connection(0, 2, 3, 5, cursor=3), connection(3, 5, 8, 9, 12)],
        [connection(5, 8, 9, 12)],
        [connection(12)],
    ],
)
def test_a_reader_that_was_given_the_log(connections: list[Connection]) -> None:
    assert reader_problems("r", connections, LOG) == []


@pytest.mark.parametrize(
    ("connections", "problem"),
    [
        ([connection(0, 2, 5, 8, 9, 12)], "delivered 5 where 3 was next"),
        ([connection(0, 2, 3, 3, 5, 8, 9, 12)], "delivered 3 where 5 was next"),
        ([connection(0, 3, 2, 5, 8, 9, 12)], "delivered 3 where 2 was next"),
        ([connection(5, 5, 8, 9, 12)], "delivered 5 where 8 was next"),
        ([connection(0, 2, 3, 5, 8, 9)], "the log ends at 12, and it was given up to 9"),
        ([connection(0, 2, 3, cursor=9), connection(9, 12)], "delivered 2 events of 5"),
        (
            [connection(0, 2, 3), connection(5, 8, 9, 12)],
            "began at 5, and the one before ended at 3",
        ),
        ([connection(0, 2, 3, 5, 8, 9, 12, 13)], "delivered 7 events of 6"),
        ([], "given up to 0"),
    ],
)
def test_a_reader_that_was_not(connections: list[Connection], problem: str) -> None:
    found = reader_problems("r", connections, LOG)
    assert found
    assert all(each.startswith("P7: r: ") for each in found)
    assert problem in " ".join(found)


def test_an_event_with_other_content_is_another_event() -> None:
    shown = {"position": 2, "name": "job_created", "data": {"a": 1, "b": [1.5, None]}}
    same = {"data": {"b": [1.5, None], "a": 1}, "name": "job_created", "position": 2}
    other = {**shown, "data": {"a": 2, "b": [1.5, None]}}
    assert event_of(shown) == event_of(same)
    log = log_of([event_of(shown)])
    (problem,) = reader_problems("r", [Connection(0, [event_of(other)], 0)], log)[:1]
    assert "another event at 2" in problem


# ---- webhooks ----------------------------------------------------------------------------------


def message(position: int, stream: str, ident: str = "") -> Message:
    return Message(ident or f"m{position}", stream, Event(position, str(position).encode()))


DELIVERED = [message(2, "a"), message(3, "b"), message(5, "a"), message(8, "b"), message(9, "c")]
LAST = message(12, "c")


@pytest.mark.parametrize(
    "messages",
    [
        [*DELIVERED, LAST],
        [*DELIVERED, *DELIVERED, LAST],
        # Between tasks there is no order.
        [DELIVERED[1], DELIVERED[3], DELIVERED[0], DELIVERED[4], LAST, DELIVERED[2]],
        [*DELIVERED, LAST, DELIVERED[4]],
    ],
)
def test_a_webhook_that_was_sent_everything(messages: list[Message]) -> None:
    assert webhook_problems(messages, LOG) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (DELIVERED, "12 never came"),
        ([*DELIVERED[:4], LAST, DELIVERED[4]], "9 of c came after 12"),
        ([*DELIVERED, LAST, message(13, "d")], "13 is not in the log"),
        ([*DELIVERED, LAST, message(12, "c", "other")], "an event came under two ids"),
        ([], "2 never came"),
    ],
)
def test_a_webhook_that_was_not(messages: list[Message], problem: str) -> None:
    found = webhook_problems(messages, LOG)
    assert f"P20: {problem}" in found
