"""Converts the log of layout 1, one row for each event, to commits. No input or output.

Events keep their positions. A commit has events without a gap in their positions, and does not
cross the end of a chain block, so that the log can still be trimmed there.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from detent.store import commit_body
from detent.store.types import LoggedEvent

#: The maximum number of events in a converted commit.
MAX_EVENTS = 500
#: The number of events that are converted in one transaction.
CHUNK = 10_000

#: Called with the position up to which the log is converted, and its end.
Progress = Callable[[int, int], None]


class ConvertedCommit(NamedTuple):
    """A commit made of logged events, and its streams."""

    id: int
    at: int
    events: int
    body: str
    streams: Sequence[str]


def convert(events: Sequence[LoggedEvent], ends: Collection[int]) -> list[ConvertedCommit]:
    """The commits of consecutive events; `ends` are the last positions of chain blocks."""
    return [_commit(part) for part in _parts(events, ends)]


def _parts(events: Sequence[LoggedEvent], ends: Collection[int]) -> Iterator[list[LoggedEvent]]:
    part: list[LoggedEvent] = []
    for event in events:
        last = part[-1].position if part else 0
        if part and (event.position != last + 1 or last in ends or len(part) == MAX_EVENTS):
            yield part
            part = []
        part.append(event)
    if part:
        yield part


def _commit(part: Sequence[LoggedEvent]) -> ConvertedCommit:
    """The commit's time is that of its last event: the store's clock continues from it."""
    at = part[-1].at
    streams = list(dict.fromkeys(event.stream for event in part))
    return ConvertedCommit(
        part[0].position, at, len(part), commit_body.from_logged(part, at), streams
    )
