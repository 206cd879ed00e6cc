"""The body of a commit: the events of one transaction as JSON text, grouped by stream.

A body is a list of groups. A group is an uninterrupted sequence of events of one stream and one
project (events of `@system` may be about different projects):

    [stream, version of the first event, project, [entry, ...]]

An entry is `[name, schema, subject, actor, data]`. A sixth value is the time of the event if it is
not that of the commit. A blanked entry has null for its data, and its digest as the seventh value.
The text of `data` is kept byte by byte, because the digest of the event is computed from it.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from detent.store.codec import NOT_JSON, event_digest, not_json
from detent.store.table_names import TOMBSTONES
from detent.store.types import LoggedEvent, NewEvent

#: A transaction with more than this is written as several commits, so that the history of one
#: stream does not read many other streams. One group is never split.
MAX_BYTES = 64 * 1_024

_encode = msgspec.json.Encoder().encode


class Body(NamedTuple):
    """The text of a body, the number of its events, and its streams with repetitions."""

    text: str
    events: int
    streams: Sequence[str]


class Entry(msgspec.Struct, array_like=True):
    """An event in a group."""

    name: str
    schema: int
    subject: str | None
    actor: str
    data: msgspec.Raw
    at: int | None = None
    digest: str | None = None


class Group(msgspec.Struct, array_like=True):
    """An uninterrupted sequence of events of one stream."""

    stream: str
    version: int
    project: str
    entries: list[Entry]


_decode = msgspec.json.Decoder(list[Group]).decode
_NULL = msgspec.Raw(b"null")


def encode(events: Iterable[NewEvent], at: int) -> list[Body]:
    """The bodies of new events in their order, for a commit at this time."""
    bodies: list[Body] = []
    texts: list[bytes] = []
    streams: list[str] = []
    count = size = 0
    for (stream, _), group in groupby(events, itemgetter(0, 2)):
        part = list(group)
        text = _group_text(part, at)
        if texts and size + len(text) > MAX_BYTES:
            bodies.append(_body(texts, count, streams))
            texts, streams, count, size = [], [], 0, 0
        texts.append(text)
        streams.append(stream)
        count += len(part)
        size += len(text)
    if texts:
        bodies.append(_body(texts, count, streams))
    return bodies


def decode(text: str | bytes, at: int, position: int) -> list[LoggedEvent]:
    """All events of a body; `position` is that of the first one."""
    found = []
    for group in _decode(text):
        for version, entry in enumerate(group.entries, group.version):
            found.append(_logged(group, entry, version, at, position))
            position += 1
    return found


def decode_streams(
    text: str | bytes, at: int, position: int, streams: Collection[str]
) -> list[LoggedEvent]:
    """The events of some streams of a body; `position` is that of the body's first event."""
    found = []
    for group in _decode(text):
        if group.stream in streams:
            found += [
                _logged(group, entry, version, at, position + place)
                for place, (version, entry) in enumerate(enumerate(group.entries, group.version))
            ]
        position += len(group.entries)
    return found


def blank(text: str | bytes, at: int, streams: Collection[str]) -> str:
    """The body without the data of some streams; digests replace it, and tombstones keep theirs."""
    groups = _decode(text)
    for group in groups:
        if group.stream in streams:
            for version, entry in enumerate(group.entries, group.version):
                if entry.digest is None and entry.name not in TOMBSTONES:
                    _blank_entry(group, entry, version, at)
    return _encode([_plain(group) for group in groups]).decode()


def from_logged(events: Iterable[LoggedEvent], at: int) -> str:
    """The body of events that were logged before, for example in an earlier layout."""
    groups = []
    for (stream, _), sequence in groupby(events, itemgetter(1, 3)):
        part = list(sequence)
        entries = [_plain_entry(_from_event(each, at)) for each in part]
        groups.append([stream, part[0].version, part[0].project, entries])
    return _encode(groups).decode()


def _group_text(part: Sequence[NewEvent], at: int) -> bytes:
    stream, version, project, _ = part[0]
    entries: list[list[Any]] = []
    for _, _, _, (_, subject, event, happened_at, actor) in part:
        entry = [event.name, event.version, subject, actor, event]
        if happened_at != at:
            entry.append(happened_at)
        entries.append(entry)
    try:
        return _encode([stream, version, project, entries])
    except NOT_JSON as error:
        raise not_json(error) from None


def _body(texts: Sequence[bytes], count: int, streams: Sequence[str]) -> Body:
    return Body(f"[{b','.join(texts).decode()}]", count, streams)


def _logged(group: Group, entry: Entry, version: int, at: int, position: int) -> LoggedEvent:
    name, schema, subject, actor = entry.name, entry.schema, entry.subject, entry.actor
    when = at if entry.at is None else entry.at
    text = bytes(entry.data)
    # A digest beside data is ignored: the hash chain is computed from the data.
    data = "" if entry.digest is not None and text == b"null" else text.decode()
    digest = bytes.fromhex(entry.digest) if entry.digest is not None else None
    where = (position, group.stream, version, group.project)
    return LoggedEvent(*where, name, schema, subject, when, actor, data, digest)


def _from_event(event: LoggedEvent, at: int) -> Entry:
    when = None if event.at == at else event.at
    what = (event.name, event.schema, event.subject, event.actor)
    data = msgspec.Raw(event.data.encode()) if event.data else _NULL
    return Entry(*what, data, when, None if event.digest is None else event.digest.hex())


def _blank_entry(group: Group, entry: Entry, version: int, at: int) -> None:
    entry.digest = event_digest(_logged(group, entry, version, at, 0)).hex()
    entry.data = _NULL


def _plain(group: Group) -> list[Any]:
    entries = [_plain_entry(entry) for entry in group.entries]
    return [group.stream, group.version, group.project, entries]


def _plain_entry(entry: Entry) -> list[Any]:
    """The values of an entry, without those at its end that are not needed."""
    values = [entry.name, entry.schema, entry.subject, entry.actor, entry.data]
    if entry.digest is not None:
        return [*values, entry.at, entry.digest]
    return values if entry.at is None else [*values, entry.at]


def streams_of(text: str | bytes) -> Iterator[str]:
    """The streams of a body, with repetitions."""
    for group in _decode(text):
        yield group.stream
