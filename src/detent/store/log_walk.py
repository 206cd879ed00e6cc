"""Reads the log, or one stream of it, in batches from a position to its end."""

from collections.abc import Iterator, Sequence

from detent.store.logged_commit import LoggedCommit
from detent.store.port import LogReader, ReadTransaction
from detent.store.rows import END_OF_LOG
from detent.store.types import LoggedEvent

BATCH = 1_000
#: A page for a reader has no further event after this many bytes of data. One event can have more.
PAGE_BYTES = 4 * 1_024 * 1_024


def next_events(
    view: ReadTransaction, after: int, limit: int, upto: int = END_OF_LOG
) -> Sequence[LoggedEvent]:
    """The next events after a position, as many as a reader can hold; none only at the end."""
    found: list[LoggedEvent] = []
    size = 0
    for commit in view.commits(after, limit, upto, PAGE_BYTES):
        for event in commit.between(after, upto):
            if len(found) == limit or size >= PAGE_BYTES:
                return found
            found.append(event)
            size += len(event.data)
    return found


def batches(
    view: LogReader, after: int = 0, *, stream: str | None = None, upto: int | None = None
) -> Iterator[Sequence[LoggedEvent]]:
    """Batches of events after a position, up to another one or to the end."""
    while events := view.events(after, BATCH, stream=stream, upto=upto):
        yield events
        after = events[-1].position
        if not after:
            return  # events of a stream without a position come last, and all of them


def commits(
    view: ReadTransaction, after: int = 0, upto: int | None = None
) -> Iterator[Sequence[LoggedCommit]]:
    """The commits with events after a position, up to another one or to the end, in batches."""
    while some := view.commits(after, BATCH, upto):
        yield some
        after = some[-1].last


def all_committed(view: LogReader) -> Iterator[Sequence[LoggedEvent]]:
    """Batches of all events, also of those that have no position yet: what the rows say."""
    yield from batches(view)
    rest = view.unsequenced()
    if rest:
        yield rest


def events_of(view: LogReader, stream: str) -> Iterator[LoggedEvent]:
    """All events of a stream, in order."""
    for events in batches(view, stream=stream):
        yield from events
