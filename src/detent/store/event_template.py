"""Templates in the body of a commit: the events of many equal tasks or jobs, once.

`commit_body` describes the format. A template is compiled before its rows are filled in, so that
the work for each event is one string operation for its data.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from itertools import repeat, zip_longest
from operator import itemgetter
from typing import Any, NamedTuple

import msgspec

from detent.store.types import LoggedEvent

#: What begins every mark in a template. Nothing else in a template contains it.
MARK = "\ue000"
#: The marks for the id and for the values of a row.
ID, VALUE, SECOND = f"{MARK}i", f"{MARK}v", f"{MARK}w"

_encode = msgspec.json.Encoder().encode
_event: Any = partial(tuple.__new__, LoggedEvent)


class TemplateEntry(msgspec.Struct, array_like=True, gc=False):
    """An event in a template."""

    name: str
    schema: int
    subject: str | None
    actor: str
    data: str


class TemplateGroup(msgspec.Struct, array_like=True, gc=False):
    """The events of one stream in a template."""

    stream: str
    version: int
    project: str
    entries: list[TemplateEntry]

    def stream_of(self, row: "Row") -> str:
        return row.id + self.stream[len(ID) :]


#: The value of a row that has none: this very object.
NO_VALUE = msgspec.Raw(b"null")


class Row(msgspec.Struct, array_like=True, gc=False):
    """What differs between the tasks or jobs of a template."""

    id: str
    value: msgspec.Raw = NO_VALUE
    second: msgspec.Raw = NO_VALUE


#: The values of the rows of a template: the ids, and the texts of both values.
Columns = Sequence[tuple[Any, Any, Any]]


class _Text(NamedTuple):
    """A text with marks: a format, and the function that takes its values from those of a row."""

    text: Any
    values: Callable[[Any], Any] | None

    def column(self, rows: Columns) -> Iterable[Any]:
        """The text for each row."""
        text, values = self
        return repeat(text, len(rows)) if values is None else [text % values(row) for row in rows]


#: The places of the marks in the values of a row; in a JSON text that contains the data as a text,
#: its quotes are escaped.
_PLACES = {ID: 0, f'"{VALUE}"': 1, f'"{SECOND}"': 2}
_ESCAPED_PLACES = {ID: 0, f'\\"{VALUE}\\"': 1, f'\\"{SECOND}\\"': 2}


def _compiled(text: str, places: Mapping[str, int]) -> _Text:
    """A text whose marks are replaced by the values of a row; `VALUE` is replaced once."""
    first, *rest = re.split(f"({'|'.join(map(re.escape, places))})", text)
    pieces, chosen = [first.replace("%", "%%")], list[int]()
    for mark, after in zip(rest[::2], rest[1::2], strict=True):
        place = places[mark]
        again = place == 1 and place in chosen
        pieces += [mark if again else "%s", after.replace("%", "%%")]
        chosen += [] if again else [place]
    return _Text("".join(pieces), itemgetter(*chosen)) if chosen else _Text(text, None)


def fill(
    groups: Sequence[TemplateGroup],
    rows: Sequence[Row],
    at: int,
    position: int,
    streams: Collection[str] | None = None,
) -> list[LoggedEvent]:
    """The events of a template and its rows; of some streams, or of all with None."""
    if streams is None:
        return _fill(groups, rows, at, position)
    found: list[LoggedEvent] = []
    width = sum(len(group.entries) for group in groups)
    for row in rows:
        if any(group.stream_of(row) in streams for group in groups):
            own = _fill(groups, [row], at, position)
            found += [event for event in own if event.stream in streams]
        position += width
    return found


def _fill(
    groups: Sequence[TemplateGroup], rows: Sequence[Row], at: int, position: int
) -> list[LoggedEvent]:
    """All events of a template: the events of one entry for all rows at a time."""
    values = [(row.id, str(row.value, "utf-8"), str(row.second, "utf-8")) for row in rows]
    count, width = len(rows), sum(len(group.entries) for group in groups)
    found: list[Any] = [None] * (count * width)
    place = 0
    for group in groups:
        suffix = group.stream[len(ID) :]
        streams = [row[0] + suffix for row in values]
        for version, entry in enumerate(group.entries, group.version):
            about = repeat(None) if entry.subject is None else _subjects(entry.subject, values)
            columns = (
                range(position + place, position + count * width, width),
                streams,
                *map(repeat, (version, group.project, entry.name, entry.schema)),
                about,
                *map(repeat, (at, entry.actor)),
                _compiled(entry.data, _PLACES).column(values),
                repeat(None),
            )
            found[place::width] = map(_event, zip(*columns, strict=False))
            place += 1
    return found


def _subjects(subject: str, values: Columns) -> Iterable[str]:
    return _compiled(subject, {ID: 0}).column(values)


def digest_texts(groups: Sequence[TemplateGroup], rows: Sequence[Row], at: int) -> list[bytes]:
    """The texts whose digests are those of the events of a template, in their order."""
    texts = _digest_texts(groups, at)
    if texts is None:
        return [_encode(event[1:10]) for event in fill(groups, rows, at, 0)]
    ids = [row.id for row in rows]
    first = [str(row.value, "utf-8") for row in rows] if _has(VALUE, groups) else []
    second = [str(row.second, "utf-8") for row in rows] if _has(SECOND, groups) else []
    values = list(zip_longest(_escaped(ids), _escaped(first), _escaped(second), fillvalue=b""))
    found = [b""] * (len(rows) * len(texts))
    for place, text in enumerate(texts):
        found[place :: len(texts)] = text.column(values)
    return found


def _has(mark: str, groups: Iterable[TemplateGroup]) -> bool:
    return any(mark in each.data for group in groups for each in group.entries)


def _escaped(texts: Sequence[str]) -> list[bytes]:
    """The texts within a JSON text, without quotes. They are encoded together."""
    found = _encode("\0".join(texts))[1:-1].split(rb"\u0000")
    # There are more parts than texts if one has the separator, or an escape that looks like it.
    return found if len(found) == len(texts) else [_encode(text)[1:-1] for text in texts]


def _digest_texts(groups: Sequence[TemplateGroup], at: int) -> list[_Text] | None:
    """The compiled texts; None if a field without marks contains one."""
    found = []
    for group in groups:
        suffix = group.stream[len(ID) :]
        for version, each in enumerate(group.entries, group.version):
            subject = (each.subject or "").replace(ID, "")
            if any(
                MARK in text for text in (suffix, group.project, each.name, each.actor, subject)
            ):
                return None
            fields = (ID + suffix, version, group.project, each.name, each.schema, each.subject)
            text = _encode((*fields, at, each.actor, each.data)).decode()
            form, values = _compiled(text, _ESCAPED_PLACES)
            found.append(_Text(form.encode(), values))
    return found
