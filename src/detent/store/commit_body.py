"""The body of a commit: the events of one transaction as JSON text.

A body is a list of parts. A part is a group or a template with rows. A group is an uninterrupted
sequence of events of one stream and one project (events of `@system` may be about different
projects):

    [stream, version of the first event, project, [entry, ...]]

An entry is `[name, schema, subject, actor, data]`. A sixth value is the time of the event if it is
not that of the commit. A blanked entry has null for its data, and its digest as the seventh value.
The text of `data` is kept byte by byte, because the digest of the event is computed from it.

A template has the events of many equal tasks or jobs once, with a row for each of them:

    [[group, ...], [[id, value, second value], ...]]

In the groups of a template, `ID` represents the id in the row: a stream begins with it, and a
subject may. The data of an entry is a text: the JSON text of the data, in which `VALUE` and
`SECOND` in quotes represent the values of the row.
"""

import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from detent.store.codec import NOT_JSON, event_digest, not_json
from detent.store.job_sets import Member
from detent.store.table_names import TOMBSTONES
from detent.store.types import LoggedEvent, NewEvent

#: A transaction with more than this is written as several commits, so that the history of one
#: stream does not read many other streams. One group is never split.
MAX_BYTES = 64 * 1_024

#: Of compression. Higher levels are slower, and bodies hardly become smaller.
LEVEL = 1

#: What begins every mark in a template. Nothing else in a template contains it.
MARK = "\ue000"
#: The marks for the id and for the values of a row.
ID, VALUE, SECOND = f"{MARK}i", f"{MARK}v", f"{MARK}w"
_QUOTED_VALUE, _QUOTED_SECOND = f'"{VALUE}"', f'"{SECOND}"'

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


class TemplateEntry(msgspec.Struct, array_like=True):
    """An event in a template."""

    name: str
    schema: int
    subject: str | None
    actor: str
    data: str


class TemplateGroup(msgspec.Struct, array_like=True):
    """The events of one stream in a template."""

    stream: str
    version: int
    project: str
    entries: list[TemplateEntry]

    def stream_of(self, row: "Row") -> str:
        return row.id + self.stream[len(ID) :]


class Row(msgspec.Struct, array_like=True):
    """What differs between the tasks or jobs of a template."""

    id: str
    value: msgspec.Raw = msgspec.Raw(b"null")
    second: msgspec.Raw = msgspec.Raw(b"null")


class Part(msgspec.Struct, array_like=True):
    """A part as it is written: it begins with the stream of a group, or with a template."""

    first: str | list[TemplateGroup]
    second: int | list[Row]
    project: str = ""
    entries: list[Entry] = []


class Group(NamedTuple):
    """An uninterrupted sequence of events of one stream."""

    stream: str
    version: int
    project: str
    entries: list[Entry]


_decode = msgspec.json.Decoder(list[Part]).decode
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


def compressed(text: str) -> tuple[int, bytes]:
    """The size of a body's text, and the body as SQLite stores it."""
    data = text.encode()
    return len(data), zlib.compress(data, LEVEL)


def template(groups: Sequence[Sequence[Any]]) -> str:
    """The text of a template; its marks are those of this module."""
    return _encode(groups).decode()


def row_texts(text: str, members: Sequence[Member]) -> list[str]:
    """The rows of members for a template: their ids, and the values that the template has."""
    if SECOND in text:
        return [f'["{each[0]}",{each[1]},{_encode(each[2]).decode()}]' for each in members]
    if VALUE in text:
        return [f'["{each[0]}",{each[1]}]' for each in members]
    return [f'["{each[0]}"]' for each in members]


def encode_rows(text: str, events: int, rows: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """The bodies of a template and its rows: the text, the number of events and of rows of each."""
    begin = 0
    for count in divided(rows):
        yield _with_rows(text, rows[begin : begin + count]), events * count, count
        begin += count


def divided(rows: Sequence[str]) -> Iterator[int]:
    """The number of rows in each body of a template."""
    begin = size = 0
    for place, row in enumerate(rows):
        length = len(row) if row.isascii() else len(row.encode())
        if size and size + length > MAX_BYTES:
            yield place - begin
            begin, size = place, 0
        size += length + 1
    yield len(rows) - begin


def _with_rows(text: str, rows: Sequence[str]) -> str:
    return f"[[{text},[{','.join(rows)}]]]"


def decode(text: str | bytes, at: int, position: int) -> list[LoggedEvent]:
    """All events of a body; `position` is that of the first one."""
    return _events(_decode(text), at, position, None)


def decode_streams(
    text: str | bytes, at: int, position: int, streams: Collection[str]
) -> list[LoggedEvent]:
    """The events of some streams of a body; `position` is that of the body's first event."""
    return _events(_decode(text), at, position, streams)


def _events(
    parts: Iterable[Part], at: int, position: int, streams: Collection[str] | None
) -> list[LoggedEvent]:
    """The events of parts; None for the streams means all."""
    found: list[LoggedEvent] = []
    for part in parts:
        if isinstance(part.first, list):
            for row in _rows(part):
                for group in part.first:
                    if streams is None or group.stream_of(row) in streams:
                        found += _filled(group, row, at, position)
                    position += len(group.entries)
            continue
        if streams is None or part.first in streams:
            own = _group(part)
            found += [
                _logged(own, entry, version, at, position + place)
                for place, (version, entry) in enumerate(enumerate(own.entries, own.version))
            ]
        position += len(part.entries)
    return found


def _rows(part: Part) -> list[Row]:
    return part.second if isinstance(part.second, list) else []


def _group(part: Part) -> Group:
    stream, version = str(part.first), part.second
    return Group(stream, version if isinstance(version, int) else 1, part.project, part.entries)


def _filled(group: TemplateGroup, row: Row, at: int, position: int) -> list[LoggedEvent]:
    """The events of one stream of a row of a template."""
    stream, found = group.stream_of(row), []
    for place, entry in enumerate(group.entries):
        data = entry.data
        if MARK in data:
            data = _filled_data(data, row)
        subject = None if entry.subject is None else entry.subject.replace(ID, row.id)
        where = (position + place, stream, group.version + place, group.project)
        name, schema, actor = entry.name, entry.schema, entry.actor
        found.append(LoggedEvent(*where, name, schema, subject, at, actor, data, None))
    return found


def _filled_data(data: str, row: Row) -> str:
    """The data of an event of a row. The values come last: they may contain marks."""
    data = data.replace(ID, row.id)
    before, value, after = data.partition(_QUOTED_VALUE)
    parts = [each.replace(_QUOTED_SECOND, bytes(row.second).decode()) for each in (before, after)]
    return (bytes(row.value).decode() if value else "").join(parts)


def blank(text: str | bytes, at: int, streams: Collection[str]) -> str:
    """The body without the data of some streams; digests replace it, and tombstones keep theirs."""
    parts: list[Any] = []
    for part in _decode(text):
        if isinstance(part.first, list):
            parts += _without(part.first, _rows(part), at, streams)
        else:
            group = _group(part)
            if group.stream in streams:
                _blank_group(group, at)
            parts.append(_plain(group))
    return _encode(parts).decode()


def _without(
    form: list[TemplateGroup], rows: Sequence[Row], at: int, streams: Collection[str]
) -> Iterator[Any]:
    """The parts of a template in which rows with blanked streams are groups of their own."""

    def has_blank(row: Row) -> bool:
        return any(group.stream_of(row) in streams for group in form)

    for is_blank, some in groupby(rows, has_blank):
        if not is_blank:
            yield [form, list(some)]
            continue
        for row in some:
            for each in form:
                entries = [_from_event(event, at) for event in _filled(each, row, at, 0)]
                group = Group(each.stream_of(row), each.version, each.project, entries)
                if group.stream in streams:
                    _blank_group(group, at)
                yield _plain(group)


def _blank_group(group: Group, at: int) -> None:
    for version, entry in enumerate(group.entries, group.version):
        if entry.digest is None and entry.name not in TOMBSTONES:
            _blank_entry(group, entry, version, at)


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
    for part in _decode(text):
        if isinstance(part.first, list):
            yield from (group.stream_of(row) for row in _rows(part) for group in part.first)
        else:
            yield part.first
