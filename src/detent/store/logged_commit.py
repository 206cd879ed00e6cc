"""A commit as readers of the log get it, and the commits that were read last.

A commit is decoded when a reader needs its events, and once for all readers of the process.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Container, Iterable, Iterator
from threading import Lock

from detent.store import commit_body
from detent.store.codec import data_digest
from detent.store.commit_body import Part
from detent.store.event_template import Row, TemplateGroup
from detent.store.types import LoggedEvent

#: How many events the commits that are kept may have together, and how many bytes of text.
MAX_EVENTS = 8_192
MAX_BYTES = 16 * 1_024 * 1_024


class LoggedCommit:
    """The events of one commit, with the position of the first one. They must not be changed."""

    def __init__(self, first: int, at: int, count: int, text: str | bytes) -> None:
        self.first = first
        self.at = at
        self.count = count
        self._text: str | bytes = text
        self._has_text = True
        self._decoded: list[Part] | None = None
        self._events: list[LoggedEvent] | None = None

    @classmethod
    def of(cls, events: list[LoggedEvent]) -> "LoggedCommit":
        """A commit of events that are in memory."""
        made = cls(events[0].position, events[0].at, len(events), b"[]")
        made._events, made._has_text = events, False
        return made

    @property
    def last(self) -> int:
        """The position of the last event."""
        return self.first + self.count - 1

    @property
    def text_size(self) -> int:
        """The size of the text of the body."""
        return len(self._text)

    @property
    def oldest(self) -> int:
        """The time of the oldest event."""
        if self._events is not None:
            return min((each.at for each in self._events), default=self.at)
        return commit_body.oldest_of(self._parts(), self.at)

    def events(self) -> list[LoggedEvent]:
        if self._events is None:
            self._events = commit_body.events_of(self._parts(), self.at, self.first)
        return self._events

    def between(self, after: int, upto: int) -> list[LoggedEvent]:
        """The events after a position, up to another one."""
        if after < self.first and self.last <= upto:
            return self.events()
        return self.events()[max(after + 1 - self.first, 0) : max(upto + 1 - self.first, 0)]

    def sections(self) -> Iterator[tuple[list[TemplateGroup] | None, list[Row], str]]:
        """The templates with their rows, and the streams of the other events."""
        if self._has_text:
            return commit_body.sections_of(self._parts())
        return ((None, [], stream) for stream in {each.stream for each in self.events()})

    def events_except(self, ids: Container[str]) -> list[LoggedEvent]:
        """The events without those of the rows of templates with these ids."""
        if not self._has_text:
            return self.events()
        return commit_body.events_except(self._parts(), self.at, self.first, ids)

    def size(self) -> int:
        """The number of events in the body."""
        if self._events is not None:
            return len(self._events)
        return commit_body.count_of(self._parts())

    def digests(self) -> Iterator[bytes]:
        """The digests of the events in the hash chain, in their order."""
        if self._events is not None:
            return map(data_digest, self._events)
        return commit_body.digests_of(self._parts(), self.at)

    def kinds_after(self, after: int, names: Collection[str]) -> Iterator[tuple[str, str, int]]:
        """The events after a position with these names: name, data, and how many there are of it.

        The data of the events of a template may have marks instead of ids and values.
        """
        if self._events is not None or after >= self.first:
            found = self.between(after, self.last)
            return ((each.name, each.data, 1) for each in found if each.name in names)
        return commit_body.kinds_of(self._parts(), names)

    def _parts(self) -> list[Part]:
        if self._decoded is None:
            self._decoded = commit_body.decode_parts(self._text)
        return self._decoded


def as_commits(events: Iterable[LoggedEvent]) -> list[LoggedCommit]:
    """Events of a log without commits, divided where positions are missing."""
    found: list[list[LoggedEvent]] = []
    for event in events:
        if not found or found[-1][-1].position + 1 != event.position:
            found.append([])
        found[-1].append(event)
    return [LoggedCommit.of(each) for each in found]


class RecentCommits:
    """The commits that were read last, for all readers of a store in this process.

    They are found by position and stored body. A commit that was blanked has another body, and one
    that was trimmed is not read any more, so that nothing needs to be removed here.
    """

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[int, str | bytes], LoggedCommit] = OrderedDict()
        self._events = self._bytes = 0
        self._guard = Lock()

    def commit(
        self,
        first: int,
        at: int,
        count: int,
        body: str | bytes,
        text_of: Callable[[bytes], bytes] | None = None,
    ) -> LoggedCommit:
        """The commit of a row of the log. `text_of` decompresses its body."""
        key = first, body
        with self._guard:
            known = self._kept.get(key)
        if known is not None:
            return known
        text = body if text_of is None or isinstance(body, str) else text_of(body)
        made = LoggedCommit(first, at, count, text)
        if count <= MAX_EVENTS and made.text_size <= MAX_BYTES:
            self._keep(key, made)
        return made

    def _keep(self, key: tuple[int, str | bytes], made: LoggedCommit) -> None:
        with self._guard:
            if key in self._kept:
                return
            self._kept[key] = made
            self._events += made.count
            self._bytes += made.text_size
            while self._events > MAX_EVENTS or self._bytes > MAX_BYTES:
                _, dropped = self._kept.popitem(last=False)
                self._events -= dropped.count
                self._bytes -= dropped.text_size
