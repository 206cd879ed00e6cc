"""The six events of a bare job as templates, three encodings of a commit's body, and digests.

A template is what the kernel decides once for many equal jobs. It is a format string of PostgreSQL:
`%1$s` is the id, 2 to 4 are the versions of up to three events, 5 the project, 6 the fence, 7 the
attempt, 8 the payload or the result as JSON. The data of an event is kept byte by byte, because
its digest covers the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec

from detent.store.codec import event_digest
from detent.store.types import LoggedEvent

Kind = Literal["flat", "grouped", "templates"]
#: The values of one job, in the order of the numbers in a template.
Values = Sequence[Any]

PLACE = re.compile(r"%(\d)\$s|%%")
ID, PROJECT, RUN = "%1$s", "%5$s", "%1$s-r%7$s"
_encode = msgspec.json.Encoder().encode


class EventTemplate(NamedTuple):
    """One event: its name, its schema version, whether its subject is the run, its data."""

    name: str
    schema: int
    of_run: bool
    data: str


class StreamTemplate(NamedTuple):
    """The events of one job in one commit, and the actor that caused them."""

    actor: str
    events: tuple[EventTemplate, ...]


def created(intent: str, key: str | None) -> StreamTemplate:
    data = (
        f'{{"project":"{PROJECT}","intent":"{intent}","priority":"P2","root_id":"{ID}",'
        '"task_id":null,"parent_job_id":null,"payload":%8$s,'
        f'"concurrency_key":{_text(key)},"options":{{}}}}'
    )
    return StreamTemplate("bench", (EventTemplate("job_created", 1, False, data),))


def claimed(worker: str) -> StreamTemplate:
    running = (
        f'{{"worker":"{worker}","nonce":"nonce","fence":%6$s,"attempt":%7$s,"run_id":"{RUN}"}}'
    )
    queued = f'{{"worker":"{worker}","fence":%6$s,"attempt":%7$s,"step":null,"resource":null}}'
    return StreamTemplate(
        f"worker:{worker}",
        (
            EventTemplate("job_running", 1, False, running),
            EventTemplate("run_queued", 1, True, queued),
            EventTemplate("run_started", 1, True, "{}"),
        ),
    )


def completed(worker: str) -> StreamTemplate:
    succeeded = '{"outcome":"done","exit_code":null,"wait":null,"held_until":null,"reason":null}'
    return StreamTemplate(
        f"worker:{worker}",
        (
            EventTemplate("run_succeeded", 1, True, succeeded),
            EventTemplate("job_completed", 1, False, '{"result":%8$s}'),
        ),
    )


# ---- encoding ----------------------------------------------------------------------------------


class Encoding(NamedTuple):
    """How a part of a body is built: a row for each job, joined by commas, between two texts."""

    before: str
    row: str
    after: str

    def part(self, jobs: Iterable[Values]) -> str:
        """The part for these jobs. On PostgreSQL a statement does the same."""
        fill = filler(self.row)
        return self.before + ",".join([fill(each) for each in jobs]) + self.after


@cache
def encoding(kind: Kind, template: StreamTemplate) -> Encoding:
    return _ENCODINGS[kind](template)


def _flat(template: StreamTemplate) -> Encoding:
    rows = [
        f'["{ID}",%{number}$s,"{PROJECT}","{template.actor}",{_event(each)}]'
        for number, each in enumerate(template.events, 2)
    ]
    return Encoding("", ",".join(rows), "")


def _grouped(template: StreamTemplate) -> Encoding:
    events = ",".join(f"[{_event(each)}]" for each in template.events)
    return Encoding("", f'["{ID}",%2$s,"{PROJECT}","{template.actor}",[{events}]]', "")


def _templates(template: StreamTemplate) -> Encoding:
    """The template once, then what differs between the jobs."""
    before = f"[{_text(template)},["
    return Encoding(before, f'["{ID}",%2$s,"{PROJECT}",%6$s,%7$s,%8$s]', "]]")


_ENCODINGS: dict[Kind, Callable[[StreamTemplate], Encoding]] = {
    "flat": _flat,
    "grouped": _grouped,
    "templates": _templates,
}


def _event(event: EventTemplate) -> str:
    subject = f'"{RUN}"' if event.of_run else "null"
    return f'"{event.name}",{event.schema},{subject},{event.data}'


def _text(value: Any) -> str:
    return _encode(value).decode()


@cache
def filler(template: str) -> Callable[[Values], str]:
    """A function that does what `format(template, …)` does in PostgreSQL."""
    places = [int(match[1]) - 1 for match in PLACE.finditer(template) if match[1]]
    text = PLACE.sub(lambda match: "%s" if match[1] else "%%", template)
    if not places:
        return lambda _values: text.replace("%%", "%")
    if len(places) == 1:
        only = places[0]
        return lambda values: text % (values[only],)
    choose = itemgetter(*places)
    return lambda values: text % choose(values)


# ---- decoding ----------------------------------------------------------------------------------

Event = tuple[str, int, str | None, msgspec.Raw]
FlatEntry = tuple[str, int, str, str, str, int, str | None, msgspec.Raw]
_flat_body = msgspec.json.Decoder(list[FlatEntry]).decode
_grouped_body = msgspec.json.Decoder(list[tuple[str, int, str, str, list[Event]]]).decode
TemplateRow = tuple[str, int, str, int, int, msgspec.Raw]
_templates_body = msgspec.json.Decoder(list[tuple[StreamTemplate, list[TemplateRow]]]).decode


def decoded(
    kind: Kind, at: int, body: str | bytes, position: int = 0, only: str | None = None
) -> Iterator[LoggedEvent]:
    """The events of a commit, or those of one stream, in order; the first has this position."""
    for number, columns in enumerate(_columns(kind, body, only), position):
        stream, version, project, name, schema, subject, actor, data = columns
        yield LoggedEvent(
            number, stream, version, project, name, schema, subject, at, actor, data, None
        )


def _columns(kind: Kind, body: str | bytes, only: str | None) -> Iterator[tuple[Any, ...]]:
    if kind == "flat":
        for stream, version, project, actor, name, schema, subject, data in _flat_body(body):
            if only is None or stream == only:
                yield stream, version, project, name, schema, subject, actor, _raw(data)
    elif kind == "grouped":
        for stream, first, project, actor, events in _grouped_body(body):
            if only is not None and stream != only:
                continue
            for version, (name, schema, subject, data) in enumerate(events, first):
                yield stream, version, project, name, schema, subject, actor, _raw(data)
    else:
        for template, rows in _templates_body(body):
            own = rows if only is None else [row for row in rows if row[0] == only]
            yield from _filled(template, own)


def _filled(template: StreamTemplate, rows: Iterable[TemplateRow]) -> Iterator[tuple[Any, ...]]:
    events = [(*each[:3], filler(each.data)) for each in template.events]
    run = filler(RUN)
    for stream, first, project, fence, attempt, given in rows:
        values = (stream, first, first + 1, first + 2, project, fence, attempt, _raw(given))
        for version, (name, schema, of_run, data) in enumerate(events, first):
            subject = run(values) if of_run else None
            yield stream, version, project, name, schema, subject, template.actor, data(values)


def _raw(data: msgspec.Raw) -> str:
    return bytes(data).decode()


# ---- the chain ---------------------------------------------------------------------------------


def chained(value: bytes, kind: Kind, at: int, body: str | bytes) -> tuple[bytes, int]:
    """The value of the hash chain after this commit, and the number of its events."""
    digests = (
        _quick(at, body) if kind == "templates" else map(event_digest, decoded(kind, at, body))
    )
    count = 0
    for digest in digests:
        value = sha256(value + digest).digest()
        count += 1
    return value, count


def _quick(at: int, body: str | bytes) -> Iterator[bytes]:
    """The same digests without making the events: the text that is digested is a template too."""
    for template, rows in _templates_body(body):
        fills = [filler(text) for text in _digested(template, at)]
        for stream, first, project, fence, attempt, given in rows:
            escaped = _encode(_raw(given)).decode()[1:-1]
            values = (stream, first, first + 1, first + 2, project, fence, attempt, escaped)
            for fill in fills:
                yield sha256(fill(values).encode()).digest()


def _digested(template: StreamTemplate, at: int) -> Iterator[str]:
    for number, (name, schema, of_run, data) in enumerate(template.events, 2):
        subject = f'"{RUN}"' if of_run else "null"
        rest = f'"{name}",{schema},{subject},{at},{_text(template.actor)},{_text(data)}'
        yield f'["{ID}",%{number}$s,"{PROJECT}",{rest}]'
