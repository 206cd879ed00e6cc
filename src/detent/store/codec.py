"""Converts events and values to JSON text for the log and for rows, and back.

Refuses a value that JSON cannot represent, before anything is written. No input or output.
"""

from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from detent.errors import Broken, Invalid
from detent.kernel.events import EVENTS, Event, Record, TaskMoved, level_of
from detent.store.types import LoggedEvent, NewEvent

#: The JSON text of a value in bytes; raises one of `NOT_JSON` if there is none.
encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decoders: dict[str, Callable[[str], Any]] = {}

#: Upgrades of older events: (name, schema) to the function that returns the next schema.
UPCASTS: Mapping[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}

#: The exceptions for a value that is not JSON: an unknown type, an integer beyond 64 bits, a lone
#: surrogate, a recursive list.
NOT_JSON = (TypeError, OverflowError, UnicodeEncodeError, RecursionError, msgspec.MsgspecError)


def to_json(value: Any) -> str:
    """The JSON text of a value."""
    try:
        return encode(value).decode()
    except NOT_JSON as error:
        raise not_json(error) from None


#: The value of a JSON text that `to_json` made.
from_json: Callable[[str | bytes], Any] = _decode


# ---- events --------------------------------------------------------------------------------


def event_rows(entries: Iterable[NewEvent]) -> list[tuple[Any, ...]]:
    """The fields of these events as `LoggedEvent` has them, without the position and the digest."""
    try:
        return [
            (
                stream,
                version,
                project,
                event.name,
                event.version,
                subject,
                at,
                actor,
                encode(event).decode(),
            )
            for stream, version, project, (_, subject, event, at, actor) in entries
        ]
    except NOT_JSON as error:
        raise not_json(error) from None


def read_event(name: str, schema: int, data: str) -> Event:
    """The event of a row of the log, upgraded to the present schema."""
    kind = EVENTS.get(name) or (TaskMoved if level_of(name) == "task" else None)
    if kind is None or schema > kind.version:
        raise Broken(
            f"The log contains the event {name!r} of schema {schema}, which is unknown here.",
            hint="A newer version of detent wrote it. Upgrade detent.",
        )
    if schema == kind.version:
        decoder = _decoders.get(name)
        if decoder is None:
            decoder = _decoders[name] = msgspec.json.Decoder(kind).decode
        event: Event = decoder(data)
        return event
    document = _decode(data)
    for older in range(schema, kind.version):
        document = UPCASTS[name, older](document)
    return msgspec.convert(document, kind)


def read_record(logged: LoggedEvent) -> Record:
    """The record of a row of the log."""
    event = read_event(logged.name, logged.schema, logged.data)
    return Record(logged.stream, logged.subject, event, logged.at, logged.actor)


def event_digest(event: LoggedEvent) -> bytes:
    """The digest of an event in the hash chain. It omits the position: a moved log keeps it."""
    if event.digest is not None:
        return event.digest
    return sha256(encode(event[1:10])).digest()


def data_digest(event: LoggedEvent) -> bytes:
    """The digest of an event's data; the stored digest is used only if the data was blanked."""
    if event.digest is not None and not event.data:
        return event.digest
    return sha256(encode(event[1:10])).digest()


def not_json(error: Exception) -> Invalid:
    """The refusal of a value that JSON cannot represent."""
    return Invalid(f"A value cannot be encoded as JSON: {error}.", field="payload")
