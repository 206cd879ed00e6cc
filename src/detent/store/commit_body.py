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
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from detent.store.codec import NOT_JSON, data_digest, event_digest, not_json
from detent.store.event_template import SECOND, VALUE, Row, TemplateGroup, digest_texts, fill
from detent.store.job_sets import Member
from detent.store.table_names import TOMBSTONES
from detent.store.types import LoggedEvent, NewEvent

#: A transaction with more than this is written as several commits, so that the history of one
#: stream does not read many other streams. One group is never split.
MAX_BYTES = 64 * 1_024

#: Of compression. Higher levels are slower, and bodies hardly become smaller.
LEVEL = 1

_encode = msgspec.json.Encoder().encode


class Body(NamedTuple):
    """The text of a body, the number of its events, and its streams with repetitions."""

    text: str
    events: int
    streams: Sequence[str]


class Entry(msgspec.Struct, array_like=True, gc=False):
    """An event in a group."""

    name: str
    schema: int
    subject: str | None
    actor: str
    data: msgspec.Raw
    at: int | None = None
    digest: str | None = None


class Part(msgspec.Struct, array_like=True, gc=False):
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
_new: Any = tuple.__new__


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


def encode_groups(texts: Sequence[str]) -> Iterator[tuple[str, int]]:
    """The bodies of the texts of groups: the text and the number of groups of each."""
    begin = 0
    for count in divided(texts):
        yield f"[{','.join(texts[begin : begin + count])}]", count
        begin += count


def divided(rows: Sequence[str]) -> Iterator[int]:
    """The number of rows of a template, or of groups, in each body."""
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
    return events_of(_decode(text), at, position)


def decode_streams(
    text: str | bytes, at: int, position: int, streams: Collection[str]
) -> list[LoggedEvent]:
    """The events of some streams of a body; `position` is that of the body's first event."""
    return events_of(_decode(text), at, position, streams)


def decode_parts(text: str | bytes) -> list[Part]:
    """The parts of a body; `events_of`, `digests_of` and `kinds_of` read them."""
    return _decode(text)


def events_of(
    parts: Iterable[Part], at: int, position: int, streams: Collection[str] | None = None
) -> list[LoggedEvent]:
    """The events of parts; None for the streams means all."""
    found: list[LoggedEvent] = []
    for part in parts:
        if isinstance(part.first, list):
            rows = _rows(part)
            found += fill(part.first, rows, at, position, streams)
            position += len(rows) * _width(part.first)
            continue
        if streams is None or part.first in streams:
            found += _logged_group(_group(part), at, position)
        position += len(part.entries)
    return found


def sections_of(
    parts: Iterable[Part],
) -> Iterator[tuple[list[TemplateGroup] | None, list[Row], str]]:
    """The templates with their rows, and the streams of groups."""
    for part in parts:
        if isinstance(part.first, list):
            yield part.first, _rows(part), ""
        else:
            yield None, [], part.first


def events_except(
    parts: Iterable[Part], at: int, position: int, ids: Container[str]
) -> list[LoggedEvent]:
    """The events of parts without those of the rows of templates with these ids."""
    found: list[LoggedEvent] = []
    for part in parts:
        if not isinstance(part.first, list):
            found += _logged_group(_group(part), at, position)
            position += len(part.entries)
            continue
        width = _width(part.first)
        for row in _rows(part):
            if row.id not in ids:
                found += fill(part.first, [row], at, position)
            position += width
    return found


def count_of(parts: Iterable[Part]) -> int:
    """The number of events of parts."""
    return sum(
        len(_rows(part)) * _width(part.first) if isinstance(part.first, list) else len(part.entries)
        for part in parts
    )


def _width(form: Iterable[TemplateGroup]) -> int:
    """The number of events of one row of a template."""
    return sum(len(group.entries) for group in form)


def digests_of(parts: Iterable[Part], at: int) -> Iterator[bytes]:
    """The digests of the events of parts in the hash chain, in their order.

    They are computed from the data; the digest beside it is used only if the data was blanked.
    """
    for part in parts:
        if isinstance(part.first, list):
            texts = digest_texts(part.first, _rows(part), at)
            yield from [sha256(text).digest() for text in texts]
            continue
        for event in _logged_group(_group(part), at, 0):
            yield data_digest(event)


def kinds_of(parts: Iterable[Part], names: Collection[str]) -> Iterator[tuple[str, str, int]]:
    """The events with these names: the name, the data, and how many there are of it.

    The data of a template is given once, with its marks.
    """
    for part in parts:
        if isinstance(part.first, list):
            count = len(_rows(part))
            entries = [each for group in part.first for each in group.entries]
            yield from ((each.name, each.data, count) for each in entries if each.name in names)
        else:
            yield from ((each.name, _text(each), 1) for each in part.entries if each.name in names)


def oldest_of(parts: Iterable[Part], at: int) -> int:
    """The time of the oldest event; that of the commit if no event has its own."""
    times = [each.at for part in parts for each in part.entries if each.at is not None]
    return min(at, *times) if times else at


def _rows(part: Part) -> list[Row]:
    return part.second if isinstance(part.second, list) else []


def _group(part: Part) -> Group:
    stream, version = str(part.first), part.second
    return Group(stream, version if isinstance(version, int) else 1, part.project, part.entries)


def _logged_group(group: Group, at: int, position: int) -> list[LoggedEvent]:
    stream, version, project, entries = group
    new, kind = _new, LoggedEvent
    return [
        new(
            kind,
            (
                position + place,
                stream,
                version + place,
                project,
                each.name,
                each.schema,
                each.subject,
                at if each.at is None else each.at,
                each.actor,
                _text(each),
                None if each.digest is None else bytes.fromhex(each.digest),
            ),
        )
        for place, each in enumerate(entries)
    ]


def _text(entry: Entry) -> str:
    """The text of the data, empty if it was blanked.

    A digest beside data is ignored: the hash chain is computed from the data.
    """
    text = str(entry.data, "utf-8")
    return "" if text == "null" and entry.digest is not None else text


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
                entries = [_from_event(event, at) for event in fill([each], [row], at, 0)]
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


def _from_event(event: LoggedEvent, at: int) -> Entry:
    when = None if event.at == at else event.at
    what = (event.name, event.schema, event.subject, event.actor)
    data = msgspec.Raw(event.data.encode()) if event.data else _NULL
    return Entry(*what, data, when, None if event.digest is None else event.digest.hex())


def _blank_entry(group: Group, entry: Entry, version: int, at: int) -> None:
    (event,) = _logged_group(group._replace(version=version, entries=[entry]), at, 0)
    entry.digest = event_digest(event).hex()
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
