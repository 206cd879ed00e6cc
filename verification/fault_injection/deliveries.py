"""What readers of the log were given, compared with the log event by event. Pure.

A connection must deliver the log from its cursor on: nothing missed, nothing twice, in order. The
next connection goes on from the cursor that the last one ended with. A webhook gets each event at
least once, and the events of one task in order.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

#: Problems of one reader that are reported; the first ones say enough.
MAX_PROBLEMS = 5


class Event(NamedTuple):
    """An event as a reader gets it: its position, and a digest of everything it says."""

    position: int
    digest: bytes


def event_of(shown: Mapping[str, Any]) -> Event:
    """From the fields of an event as the feed, `/api/log` and webhooks show them."""
    text = json.dumps(shown, sort_keys=True).encode()
    return Event(shown["position"], blake2b(text, digest_size=8).digest())


@dataclass(slots=True)
class Connection:
    """One connection of a reader: the cursor it began with, and what it delivered."""

    start: int
    events: list[Event] = field(default_factory=list)
    #: Up to here everything was delivered, as far as the connection says.
    cursor: int = 0

    def __post_init__(self) -> None:
        self.cursor = self.start


class Log(NamedTuple):
    """The log as far as it was read."""

    events: list[Event]
    positions: list[int]

    def append(self, event: Event) -> None:
        self.events.append(event)
        self.positions.append(event.position)

    def between(self, after: int, upto: int) -> Sequence[Event]:
        first, last = (bisect_right(self.positions, each) for each in (after, upto))
        return self.events[first:last]


def log_of(events: Iterable[Event]) -> Log:
    found = list(events)
    return Log(found, [each.position for each in found])


def reader_problems(
    name: str, connections: Sequence[Connection], log: Log, head: int | None = None
) -> list[str]:
    """P7: everything that a reader was not given as the log has it.

    `head` is the position that the reader must have reached; by default the end of the log.
    """
    found = [
        *_gap_problems(connections),
        *(each for one in connections for each in _connection_problems(one, log)),
    ]
    last = connections[-1].cursor if connections else 0
    wanted = head if head is not None else max(log.positions, default=0)
    if last < wanted:
        found.append(f"the log ends at {wanted}, and it was given up to {last}")
    return [f"P7: {name}: {each}" for each in found[:MAX_PROBLEMS]]


def _gap_problems(connections: Sequence[Connection]) -> Iterator[str]:
    last = connections[0].start if connections else 0
    for each in connections:
        if each.start != last:
            yield f"a connection began at {each.start}, and the one before ended at {last}"
        last = each.cursor


def _connection_problems(connection: Connection, log: Log) -> Iterator[str]:
    """What the connection delivered against the log from its cursor on."""
    given = connection.events
    upto = max(connection.cursor, given[-1].position if given else 0)
    expected = log.between(connection.start, upto)
    where = f"the connection from {connection.start} to {upto}"
    for one, other in zip(given, expected, strict=False):
        if one.position != other.position:
            yield f"{where} delivered {one.position} where {other.position} was next"
            return
        if one.digest != other.digest:
            yield f"{where} delivered another event at {one.position} than the log has"
    if len(given) != len(expected):
        yield f"{where} delivered {len(given)} events of {len(expected)}"


# ---- webhooks ----------------------------------------------------------------------------------


class Message(NamedTuple):
    """A webhook's message: its id, the stream of its event, and the event."""

    id: str
    stream: str
    event: Event


def webhook_problems(messages: Sequence[Message], wanted: Log) -> list[str]:
    """P20: each event at least once under one id, nothing else, and in order for each task."""
    first = dict.fromkeys(messages)
    got = {each.event for each in first}
    found = [f"{each.position} never came" for each in wanted.events if each not in got]
    found += [f"{each.position} is not in the log" for each in got - {*wanted.events}]
    if len({each.id for each in first}) != len(got):
        found.append("an event came under two ids")
    last: dict[str, int] = {}
    for each in first:
        if each.event.position < last.get(each.stream, 0):
            found.append(f"{each.event.position} of {each.stream} came after {last[each.stream]}")
        last[each.stream] = max(last.get(each.stream, 0), each.event.position)
    return [f"P20: {each}" for each in found[:MAX_PROBLEMS]]
