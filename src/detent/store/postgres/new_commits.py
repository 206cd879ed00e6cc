"""The commits of one save: its events as bodies, and which body has the events of each stream."""

from collections.abc import Collection, Iterator, Sequence

from detent.store import commit_body
from detent.store.codec import to_json
from detent.store.commit_body import Body
from detent.store.postgres.connection import Query
from detent.store.postgres.reader import READY
from detent.store.types import NewEvent

#: A task or job has the ids of the commits with its first events in its row, up to this version.
MAX_INLINE_VERSION = 16
#: The maximum number of commits of one save: the sequence of ids is incremented by this.
MAX_PARTS = 1_024


class NewCommits:
    """The bodies of a save. `before` has the version of each stream before its first event."""

    def __init__(
        self,
        entries: Sequence[NewEvent],
        at: int,
        rowless: Collection[str] = (),
        deleted: Collection[str] = (),
    ) -> None:
        self._entries, self.at = entries, at
        self._rowless, self._deleted = rowless, deleted
        self.before: dict[str, int] = {}
        for entry in entries:
            self.before.setdefault(entry.stream, entry.version - 1)
        self.bodies: list[Body] = []
        #: The number of the body with the first events of a stream, for the row of the stream.
        self.part: dict[str, int] = {}
        #: Bodies of streams that are not in a row: (stream, number of the body).
        self.further: list[tuple[str, int]] = []

    def statements(self, rows: Iterator[Query]) -> Iterator[Query]:
        """Allocate the commit id, write the rows, and append the commits.

        The locks of all these rows are held before the first statement.
        """
        if not self._entries:
            yield from rows
            return
        self._encode()
        yield READY["allocate_commit"]()
        yield from rows
        yield READY["insert_commits"](
            rows=to_json(
                [
                    {"part": part, "at": self.at, "events": body.events, "body": body.text}
                    for part, body in enumerate(self.bodies)
                ]
            )
        )
        if self.further:
            listed = [{"stream": stream, "part": part} for stream, part in self.further]
            yield READY["insert_stream_commits"](rows=to_json(listed))

    def _encode(self) -> None:
        self.bodies = [self._blanked(body) for body in _merged(self._bodies())]
        for part, body in enumerate(self.bodies):
            for stream in dict.fromkeys(body.streams):
                inline = stream not in self._rowless and stream not in self.part
                if inline and self.before[stream] < MAX_INLINE_VERSION:
                    self.part[stream] = part
                else:
                    self.further.append((stream, part))

    def _bodies(self) -> list[Body]:
        return commit_body.encode(self._entries, self.at)

    def _blanked(self, body: Body) -> Body:
        """The body without the data of streams that are deleted by the same save."""
        if not any(stream in self._deleted for stream in body.streams):
            return body
        return body._replace(text=commit_body.blank(body.text, self.at, self._deleted))


def _merged(bodies: list[Body]) -> list[Body]:
    """At most `MAX_PARTS` bodies, in the same order."""
    if len(bodies) <= MAX_PARTS:
        return bodies
    size = -(-len(bodies) // MAX_PARTS)
    return [_joined(bodies[at : at + size]) for at in range(0, len(bodies), size)]


def _joined(bodies: Sequence[Body]) -> Body:
    text = ",".join(body.text[1:-1] for body in bodies)
    streams = [stream for body in bodies for stream in body.streams]
    return Body(f"[{text}]", sum(body.events for body in bodies), streams)
