"""An archive of one task tree: a zip file with its history, its evidence and its output.

`manifest.json` lists every other member with its size and SHA-256, and the end of the hash chain.
An archive is not trusted: everything is checked before anything is used, no member is written to a
file with its own name, and no more is read than the manifest announces. The limits below bound the
memory that reading an archive takes.
"""

import json
import os
import re
import stat
import struct
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import msgspec.structs

from detent import private_files
from detent.errors import Refused, TooLarge
from detent.integrity import audit, hash_chain
from detent.kernel import lifecycle_document
from detent.kernel.task_lifecycle import TaskLifecycle
from detent.kernel.world import RUNS
from detent.store.blobs import CHUNK_BYTES
from detent.store.table_names import TOMBSTONES
from detent.store.types import LoggedEvent
from detent.task_lifecycles import SHIPPED

FORMAT, VERSION = "detent task", 1
MANIFEST, EVENTS, TREE = "manifest.json", "events.jsonl", "tree.json"
#: The documents of installed lifecycles that the tasks have; missing if there are none.
LIFECYCLES = "lifecycles.json"
ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,199}")
#: The names of members: fixed, or the digest of the content.
NAME = re.compile(r"events\.jsonl|tree\.json|lifecycles\.json|(?:evidence|output)/[0-9a-f]{64}")
MAX_BYTES = 1_073_741_824
MAX_MANIFEST_BYTES = 8 * 1024 * 1024
#: Below the limit of zip files without ZIP64, which is not supported.
MAX_MEMBERS = 65_000
MAX_DIRECTORY_BYTES = 8 * 1024 * 1024
#: The history is kept in memory, and each of its lines is decoded as a whole.
MAX_HISTORY_BYTES = 32 * 1024 * 1024
MAX_LINE_BYTES = 16 * 1024 * 1024
#: The end record of a zip file without a comment, and the record before it with ZIP64.
END, END_BYTES, LOCATOR, LOCATOR_BYTES = b"PK\x05\x06", 22, b"PK\x06\x07", 20
#: The standard library unpacks other compressions without a limit.
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
#: The time of every member, so that the same task gives the same archive.
LONG_AGO = (1980, 1, 1, 0, 0, 0)

#: The exceptions that a damaged or hostile zip file can cause.
UNREADABLE = (
    zipfile.BadZipFile,
    zlib.error,
    OSError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    UnicodeError,
    RecursionError,
    struct.error,
    msgspec.MsgspecError,
)


class Member(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    size: int


class Chain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The position and the value of the hash chain of the log that the history is from."""

    position: int
    value: str


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    format: str
    version: int
    detent: str
    task: str
    #: The number of events of each stream, and the hash chain over all of them in order.
    streams: dict[str, int]
    events_chain: str
    chain: Chain
    #: The digest of the output of each run that has output.
    output: dict[str, str]
    #: The digests of evidence that was removed before the export.
    missing: list[str]
    members: dict[str, Member]


# ---- writing ---------------------------------------------------------------------------------


class Writer:
    """Writes an archive: the members first, the manifest last."""

    def __init__(self, path: Path) -> None:
        private_files.create(path)
        self._zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.members: dict[str, Member] = {}
        self.size = 0

    def add(self, name: str, pieces: Iterable[bytes]) -> Member:
        digest, size = sha256(), 0
        limit = MAX_HISTORY_BYTES if name == EVENTS else MAX_BYTES
        if len(self.members) >= MAX_MEMBERS - 1:
            raise TooLarge(
                f"The archive exceeds the limit of {MAX_MEMBERS:,} files.", limit=MAX_MEMBERS
            )
        with self._zip.open(_info(name), "w", force_zip64=True) as member:
            for piece in pieces:
                digest.update(piece)
                size += len(piece)
                self._grow(len(piece))
                if size > limit:
                    raise TooLarge(
                        f"The history exceeds the limit of {limit:,} bytes.", limit=limit
                    )
                member.write(piece)
        made = self.members[name] = Member(digest.hexdigest(), size)
        return made

    def _grow(self, by: int) -> None:
        self.size += by
        if self.size > MAX_BYTES:
            raise TooLarge(
                f"The archive exceeds the limit of {MAX_BYTES:,} bytes.", limit=MAX_BYTES
            )

    def finish(self, manifest: Manifest) -> str:
        """Write the manifest; returns its SHA-256, which covers the whole archive."""
        document = msgspec.json.format(msgspec.json.encode(manifest, order="sorted"), indent=1)
        self._zip.writestr(_info(MANIFEST), document)
        self._zip.close()
        return sha256(document).hexdigest()

    def close(self) -> None:
        self._zip.close()


def _info(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, LONG_AGO)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (stat.S_IFREG | 0o644) << 16
    return info


def event_line(event: LoggedEvent) -> bytes:
    """An event as one line of JSON; its data stays text, because the digest covers that text."""
    named = {name: value for name, value in event._asdict().items() if name != "digest"}
    return json.dumps(named, ensure_ascii=False).encode() + b"\n"


# ---- reading ---------------------------------------------------------------------------------


class Archive:
    """An archive that was opened; `flaws` lists everything that is wrong with it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            _check_directory(path)
            self._zip = zipfile.ZipFile(path)
            document = self._read_manifest()
            self.manifest = msgspec.json.decode(document, type=Manifest, strict=True)
        except UNREADABLE as error:
            raise bad(f"{path} is not an archive of a task: {error}.") from None
        self.digest = sha256(document).hexdigest()
        if (self.manifest.format, self.manifest.version) != (FORMAT, VERSION):
            raise bad(f"{path} has a format that this version of detent does not support.")

    def _read_manifest(self) -> bytes:
        entries = self._zip.infolist()
        if len(entries) > MAX_MEMBERS:
            raise ValueError(f"it has more than {MAX_MEMBERS} members")
        found = [entry for entry in entries if entry.filename == MANIFEST]
        if len(found) != 1 or found[0].file_size > MAX_MANIFEST_BYTES:
            raise ValueError("it has no readable manifest")
        if any(entry.compress_type not in COMPRESSIONS for entry in entries):
            raise ValueError("it uses a compression other than deflate")
        with self._zip.open(found[0]) as member:
            document = member.read(MAX_MANIFEST_BYTES + 1)
        if len(document) > MAX_MANIFEST_BYTES:
            raise ValueError("its manifest is too large")
        return document

    def close(self) -> None:
        self._zip.close()

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a member in chunks, never more than the manifest announces."""
        left = self.manifest.members[name].size
        with self._zip.open(name) as member:
            while piece := member.read(CHUNK_BYTES):
                left -= len(piece)
                if left < 0:
                    raise ValueError(f"{name} is larger than announced")
                yield piece

    def events(self) -> list[LoggedEvent]:
        """The events of the history, in the order of their log."""
        return [_event(line) for line in _lines(self.read(EVENTS))]

    # -- checking --------------------------------------------------------------------------

    def flaws(self) -> list[str]:
        """Everything that is wrong with the archive; empty if nothing is."""
        try:
            found = [*self._wrong_entries(), *self._wrong_manifest()]
            if not found:
                found = list(self._wrong_members())
            if not found:
                found = list(self._wrong_history())
        except Exception as error:  # a hostile archive may cause any exception
            return [f"it cannot be read completely: {error!r}"]
        return found

    def _wrong_entries(self) -> Iterator[str]:
        """Check the list of members before anything is unpacked."""
        known = {MANIFEST, *self.manifest.members}
        seen: set[str] = set()
        for entry in self._zip.infolist():
            name, kind = entry.filename, stat.S_IFMT(entry.external_attr >> 16)
            if name in seen:
                yield f"{name!r} occurs twice"
            seen.add(name)
            if name not in known:
                yield f"{name!r} is not in the manifest"
            elif kind not in (0, stat.S_IFREG) or entry.is_dir():
                yield f"{name!r} is not a regular file"
            elif name != MANIFEST and entry.file_size != self.manifest.members[name].size:
                yield f"the size of {name!r} differs from the manifest"
        yield from (f"{name!r} is missing" for name in sorted(known - seen))

    def _wrong_manifest(self) -> Iterator[str]:
        members = self.manifest.members
        for name in members:
            if not NAME.fullmatch(name):
                yield f"{name!r} is not a valid name of a member"
        if any(each.size < 0 for each in members.values()):
            yield "a size is negative"
        if sum(each.size for each in members.values()) > MAX_BYTES:
            yield f"its content exceeds {MAX_BYTES:,} bytes"
        if EVENTS not in members:
            yield "it has no history"
        elif members[EVENTS].size > MAX_HISTORY_BYTES:
            yield f"its history exceeds {MAX_HISTORY_BYTES:,} bytes"
        if LIFECYCLES in members and members[LIFECYCLES].size > MAX_HISTORY_BYTES:
            yield f"its lifecycles exceed {MAX_HISTORY_BYTES:,} bytes"
        for run_id, digest in self.manifest.output.items():
            if f"output/{digest}" not in members:
                yield f"the output of run {run_id} is missing"

    def _wrong_members(self) -> Iterator[str]:
        for name, announced in self.manifest.members.items():
            digest, size = sha256(), 0
            for piece in self.read(name):
                digest.update(piece)
                size += len(piece)
            if (digest.hexdigest(), size) != (announced.sha256, announced.size):
                yield f"the SHA-256 or size of {name!r} differs from the manifest"
            folder, _, called = name.partition("/")
            if called and called != announced.sha256:
                yield f"the name of {name!r} is not the SHA-256 of its {folder}"

    def _wrong_history(self) -> Iterator[str]:
        events = self.events()
        if hash_chain.chained(hash_chain.START, events).hex() != self.manifest.events_chain:
            yield "the hash chain over its events differs from the manifest"
        yield from _wrong_events(events, self.manifest)
        folded = self.fold(events)
        yield from (f"its history is invalid: {flaw}" for flaw in folded.flaws)
        yield from _wrong_tree(folded, self.manifest)
        offences = audit.offences(History(events), folded)
        yield from (f"its history is invalid: {each}" for each in offences)
        yield from self._wrong_evidence(folded)

    def fold(self, events: Sequence[LoggedEvent]) -> audit.Folded:
        """The state that follows from the events of the archive."""
        return audit.fold(History(events), lifecycles={**self.lifecycles(), **SHIPPED})

    def lifecycles(self) -> dict[str, TaskLifecycle]:
        """The installed lifecycles that the tasks have, by id."""
        if LIFECYCLES not in self.manifest.members:
            return {}
        documents = msgspec.json.decode(b"".join(self.read(LIFECYCLES)), type=dict[str, Any])
        return {name: lifecycle_document.read(each) for name, each in documents.items()}

    def _wrong_evidence(self, folded: audit.Folded) -> Iterator[str]:
        members, missing = self.manifest.members, set(self.manifest.missing)
        for key, row in folded.evidence.items():
            held = members.get(f"evidence/{row['sha256']}")
            if held is None and row["sha256"] not in missing:
                yield f"the evidence {key[-1]!r} is missing"
            elif held is not None and held.size != row["size"]:
                yield f"the size of the evidence {key[-1]!r} differs from the history"


class History:
    """A list of events with the interface of a log."""

    def __init__(self, events: Sequence[LoggedEvent]) -> None:
        self._events = events
        self._streams: dict[str, list[LoggedEvent]] = {}
        for each in events:
            self._streams.setdefault(each.stream, []).append(each)

    def unsequenced(self) -> Sequence[LoggedEvent]:
        return ()

    def events(
        self, after: int, limit: int, *, stream: str | None = None, upto: int | None = None
    ) -> list[LoggedEvent]:
        events = self._events if stream is None else self._streams.get(stream, [])
        start = bisect_right(events, after, key=_position)
        end = len(events) if upto is None else bisect_right(events, upto, key=_position)
        return list(events[start : min(end, start + limit)])

    def rows(self, table: str) -> Mapping[str, Any]:  # noqa: ARG002 - a history has no tables
        return {}


def _position(event: LoggedEvent) -> int:
    return event.position


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of the history: an event without its digest."""

    position: int
    stream: str
    version: int
    project: str
    name: str
    schema: int
    subject: str | None
    at: int
    actor: str
    data: str


#: Decodes only these fields, so that no other structure is built in memory.
_decoder = msgspec.json.Decoder(Line, strict=True)


def _event(line: bytes) -> LoggedEvent:
    found = _decoder.decode(line)
    if not found.data:
        raise ValueError("an event of its history has no data")
    return LoggedEvent(**msgspec.structs.asdict(found), digest=None)


def _lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE_BYTES:
            raise ValueError(f"a line of its history exceeds {MAX_LINE_BYTES:,} bytes")
    if rest:
        yield rest


def _check_directory(path: Path) -> None:
    """Refuse too many members before the standard library reads their list."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - END_BYTES - LOCATOR_BYTES))
        end = file.read()
    directory, comment = struct.unpack("<I4xH", end[-10:])
    if end[-END_BYTES:][:4] != END or comment:
        raise ValueError("it does not end like a zip file")
    if end[:4] == LOCATOR or directory > MAX_DIRECTORY_BYTES:
        raise ValueError(f"it has more than {MAX_MEMBERS} members")


def _wrong_events(events: Sequence[LoggedEvent], manifest: Manifest) -> Iterator[str]:
    counts: dict[str, int] = {}
    before = 0
    for event in events:
        counts[event.stream] = counts.get(event.stream, 0) + 1
        if event.position <= before:
            yield f"event {event.position} is out of order"
        before = event.position
        if event.name in TOMBSTONES:
            yield f"{event.stream} was deleted"
    if counts != manifest.streams:
        yield "the events of its streams differ from the manifest"


def _wrong_tree(folded: audit.Folded, manifest: Manifest) -> Iterator[str]:
    """Check that everything belongs to one tree whose root is in the archive."""
    if manifest.task not in folded.world.tasks:
        yield f"the task {manifest.task} is not in the archive"
    roots = {task.id: task.root_id for task in folded.world.tasks.values()}
    roots |= {job.id: job.root_id for job in folded.world.jobs.values()}
    for name, root in roots.items():
        if root != manifest.task:
            yield f"{name} does not belong to {manifest.task}"
    runs = {run for job in folded.jobs() for run in folded.world.parts_of(RUNS, job.id)}
    yield from (f"there is no run {each!r}" for each in sorted(set(manifest.output) - runs))
    for name in (*manifest.streams, *runs):
        if not ID.fullmatch(name):
            yield f"{name!r} is not a valid id"


def bad(message: str) -> Refused:
    return Refused(message, code="bad_archive")


def opened(path: Path) -> Archive:
    """Open an archive and check it completely."""
    archive = Archive(path)
    found = archive.flaws()
    if found:
        archive.close()
        raise bad(f"{path} is refused: {'; '.join(found[:5])}.")
    return archive
