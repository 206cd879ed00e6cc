"""Parsers of what a store or an archive contains, which other programs may have changed."""

from pathlib import Path

from detent.errors import DetentError
from detent.kernel.events import EVENTS
from detent.store import commit_body
from detent.store.codec import read_event
from detent.transfer import archive
from verification.fuzzing.document_parsers import from_file
from verification.fuzzing.parser import Parser, same, text

NAMES = tuple(sorted(EVENTS))
#: What a broken row of the log raises; `detent verify` reports it.
BROKEN = (DetentError, LookupError, TypeError, ValueError)


def event(data: bytes) -> object:
    """The first byte chooses the event."""
    name = NAMES[(data[0] if data else 0) % len(NAMES)]
    return read_event(name, EVENTS[name].version, text(data[1:]))


def body(data: bytes) -> object:
    """The body of a commit: whole, and by its parts."""
    parts = commit_body.decode_parts(data)
    events = commit_body.events_of(parts, 1, 1)
    same(len(events), commit_body.count_of(parts), "the number of events")
    same(commit_body.decode(data, 1, 1), events, "the events of a body")
    streams = {each.stream for each in events}
    same(commit_body.decode_streams(data, 1, 1, streams), events, "the events of all streams")
    return [*commit_body.digests_of(parts, 1)]


def opened(file: Path) -> None:
    archive.opened(file).close()


def history(file: Path) -> None:
    """The content of the file as the history of an archive whose manifest fits it."""
    made = file.with_suffix(".detent")
    writer = archive.Writer(made)
    writer.add(archive.EVENTS, [file.read_bytes()])
    chain = archive.Chain(0, "")
    manifest = archive.Manifest(
        archive.FORMAT, archive.VERSION, "0", "t1", {"t1": 1}, "", chain, {}, [], writer.members
    )
    writer.finish(manifest)
    opened(made)


EVENT_LINE = (
    '{"position":1,"stream":"t1","version":1,"project":"","name":"',
    *('task_created","schema":1', ',"subject":null,"at":1,"actor":"a","data":"', '{}"}', "\n"),
)
PARSERS = {
    "event": Parser(event, ('{"', "reason", '":"', '"}', "{}", "null"), BROKEN),
    "commit-body": Parser(
        body,
        ('[["t1",1,"",[["task_created",1,null,"a","{}"]]]]', '[[[["', "]", ",", "0", '"', "null"),
        BROKEN,
    ),
    "archive": Parser(
        from_file("some.detent", opened),
        ("PK\x03\x04", "PK\x01\x02", "PK\x05\x06", '{"format":', "1", ',"members":{', "}", "../"),
    ),
    "archive-history": Parser(from_file("events", history), EVENT_LINE),
}
