"""The log on SQLite: one row for each commit, and the ids of the commits of each stream.

The id of a commit is the position of its first event. A row of a task or job has the ids of the
first commits of its stream, each followed by a comma; later ones are in `stream_commits`.
"""

import zlib
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from detent.errors import Refused
from detent.store import commit_body
from detent.store.logged_commit import LoggedCommit, RecentCommits
from detent.store.rows import ANY_SIZE, END_OF_LOG
from detent.store.sqlite.connection import Connection, array, numbers
from detent.store.statements import load
from detent.store.types import LoggedEvent, NewEvent

SQL = load("detent.store.sql", "detent.store.sqlite.sql")

#: The commits of a stream after this version are in `stream_commits`.
INLINE_VERSIONS = 16
#: How many commits of a stream are read together: at first, and at most.
FEWEST, MOST = 4, 64

AFTER, BY_ID, STREAMS = SQL["commits_after"].text, SQL["commits"].text, SQL["streams"].text
HEAD, INSERT = SQL["head"].text, SQL["insert_commits"].text
STREAM_COMMITS, INSERT_STREAM_COMMITS = (
    SQL[name].text for name in ("stream_commits", "insert_stream_commits")
)
LAST_STREAM_COMMIT, COMMIT_AT = SQL["last_stream_commit"].text, SQL["commit_at"].text

#: A commit: its id, its time, the number of its events, the size of its text, the compressed text.
Commit = tuple[int, int, int, int, bytes]


class LogReader:
    """Reads events within a transaction."""

    def __init__(self, connection: Connection, recent: RecentCommits) -> None:
        self._all, self._each = connection.all, connection.each
        self._recent = recent

    def head(self) -> int:
        position: int = self._all(HEAD)[0][0]
        return position

    def boundary(self, upto: int) -> int:
        """The last position at or before another one at which no commit is divided."""
        for commit_id, events in self._all(COMMIT_AT, (upto,)):
            return upto if commit_id + events - 1 <= upto else commit_id - 1
        return upto

    def events(self, after: int, limit: int, upto: int = END_OF_LOG) -> list[LoggedEvent]:
        """Events after a position, up to another one."""
        found: list[LoggedEvent] = []
        for commit in self.commits(after, limit, upto):
            found += commit.between(after, upto)
        return found[:limit]

    def commits(
        self, after: int, limit: int, upto: int = END_OF_LOG, max_bytes: int = ANY_SIZE
    ) -> list[LoggedCommit]:
        """The commits with the first events after a position, until they reach `max_bytes`."""
        found: list[LoggedCommit] = []
        count = 0
        # One more than needed: the first may end before the position.
        for commit_id, at, events, body in self._each(AFTER, (after, upto, limit + 1)):
            commit = self._recent.commit(commit_id, at, events, body, zlib.decompress)
            if commit.last <= after:
                continue
            found.append(commit)
            count += commit.last - max(after, commit.first - 1)
            max_bytes -= commit.text_size
            if count >= limit or max_bytes <= 0:
                break
        return found

    def stream(
        self, stream: str, after: int, limit: int, upto: int = END_OF_LOG
    ) -> list[LoggedEvent]:
        """Events of a stream after a position, up to another one."""
        ids = self._commits_of(stream)
        ids = ids[max(bisect_right(ids, after) - 1, 0) : bisect_right(ids, upto)]
        found: list[LoggedEvent] = []
        size = FEWEST
        while ids and len(found) < limit:
            part, ids = ids[:size], ids[size:]
            for commit_id, at, _, body in self._all(BY_ID, (numbers(part),)):
                text = zlib.decompress(body)
                events = commit_body.decode_streams(text, at, commit_id, (stream,))
                found += [each for each in events if after < each.position <= upto]
            size = min(size * 4, MOST)
        return found[:limit]

    def version(self, stream: str) -> int:
        """The version of the last event of a stream; 0 if the log has none of it."""
        rows = self._all(STREAMS, (array([stream]),))
        for _, version, commits in rows:
            if version:
                return int(version)
            last = [*ids_in(commits)[-1:], *(row[0] for row in self._last_of(stream))]
            return self._version_in(stream, max(last, default=0))
        last = [row[0] for row in self._last_of(stream)]
        return self._version_in(stream, last[0]) if last else 0

    def _last_of(self, stream: str) -> list[tuple[int]]:
        return self._all(LAST_STREAM_COMMIT, (stream,))

    def _version_in(self, stream: str, commit_id: int) -> int:
        for number, at, _, body in self._all(BY_ID, (numbers([commit_id]),)):
            text = zlib.decompress(body)
            events = commit_body.decode_streams(text, at, number, (stream,))
            return events[-1].version if events else 0
        return 0

    def _commits_of(self, stream: str) -> list[int]:
        """The ids of all commits of a stream, in order."""
        inline = [each for row in self._all(STREAMS, (array([stream]),)) for each in ids_in(row[2])]
        later = [row[0] for row in self._all(STREAM_COMMITS, (stream,))]
        return sorted({*inline, *later}) if later else inline

    def by_id(self, ids: Collection[int]) -> Iterator[tuple[Any, ...]]:
        """Commits by id, without the sizes of their texts; some are read at a time."""
        wanted = sorted(ids)
        for at in range(0, len(wanted), MOST):
            yield from self._all(BY_ID, (numbers(wanted[at : at + MOST]),))


def ids_in(commits: str) -> list[int]:
    """The ids in the column `commits` of a row."""
    return [int(each) for each in commits.split(",")[:-1]]


class Appended:
    """The events of one save as commits: which streams they are in, and their versions before."""

    def __init__(self, entries: Sequence[NewEvent], now: int, position: int) -> None:
        #: The version of each stream before its first event of this save.
        self.before: dict[str, int] = {}
        for stream, version, _, _ in reversed(entries):
            self.before[stream] = version - 1
        self.commits: list[Commit] = []
        #: Pairs of streams and commits that are not in a row.
        self.pairs: dict[tuple[str, int], None] = {}
        self._ids: dict[str, str] = {}
        bodies = commit_body.encode(entries, now)
        self._only = f"{position}," if len(bodies) == 1 else ""
        for body in bodies:
            stored = commit_body.compressed(body.text)
            self.commits.append((position, now, body.events, *stored))
            if not self._only:
                for stream in dict.fromkeys(body.streams):
                    self._ids[stream] = f"{self._ids.get(stream, '')}{position},"
            position += body.events

    def ids_of(self, stream: str) -> str:
        """The ids of the commits of a stream, as a row has them."""
        if stream not in self.before:
            return ""
        return self._only or self._ids[stream]

    def inline(self, stream: str) -> str:
        """What the row of a stream gets; the ids are in `pairs` if it has too many events."""
        if self.before.get(stream, 0) < INLINE_VERSIONS:
            return self._only if self._only and stream in self.before else self.ids_of(stream)
        self.put_apart(stream)
        return ""

    def put_apart(self, stream: str) -> None:
        """Write the ids of a stream into `stream_commits`."""
        self.pairs.update(((stream, each), None) for each in ids_in(self.ids_of(stream)))


def append(connection: Connection, appended: Appended) -> None:
    """Write the commits, and what is not in rows."""
    if appended.commits:
        connection.many(INSERT, appended.commits)
    if appended.pairs:
        connection.many(INSERT_STREAM_COMMITS, list(appended.pairs))


def blank(connection: Connection, reader: LogReader, streams: Mapping[str, Iterable[int]]) -> None:
    """Replace the data of the events of deleted streams by digests."""
    ids = {each for commits in streams.values() for each in commits}
    for commit_id, at, _, body in reader.by_id(ids):
        text = commit_body.blank(zlib.decompress(body), at, streams.keys())
        stored = commit_body.compressed(text)
        connection.all(SQL["rewrite_commits"].text, (*stored, commit_id))


def trim(connection: Connection, upto: int) -> int:
    """Delete the commits that end at or before a position; returns the number of events."""
    count: int = connection.all(SQL["trimmed_events"].text, (upto,))[0][0]
    for name in ("trim_commits", "trim_stream_commits", "trim_tombstones"):
        connection.all(SQL[name].text, (upto,) if name == "trim_commits" else ())
    return count


def index_streams(connection: Connection) -> None:
    """Write `stream_commits` for the whole log; rows that are written next have no commits."""
    connection.all(SQL["clear_stream_commits"].text)
    connection.all(SQL["clear_tombstone_commits"].text)
    after = 0
    while rows := connection.all(SQL["commits_from"].text, (after, MOST)):
        for commit_id, body in rows:
            streams = dict.fromkeys(commit_body.streams_of(zlib.decompress(body)))
            connection.many(INSERT_STREAM_COMMITS, [(each, commit_id) for each in streams])
        after = rows[-1][0]


def changed() -> Refused:
    """The refusal of a change to something that another transaction has changed."""
    return Refused("another process changed it after it was loaded", code="version_conflict")
