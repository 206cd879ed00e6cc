"""The directory of one run: its output, its evidence, its working directory.

The only module that opens these files. A file that a command left is opened below the directory,
component by component, and only if it is a regular file: no symlink, no hard link, no pipe.
Evidence is copied into the store's blobs in one read, so that the hash fits the stored bytes.
"""

import errno
import json
import mimetypes
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

from detent import failpoints, private_files
from detent.app.values import storable
from detent.errors import Invalid, Refused, TooLarge
from detent.kernel import document_fields
from detent.kernel.evidence_types import type_of
from detent.operations.output_times import FILE as TIMES
from detent.operations.output_times import INTERVAL_S, RECORD
from detent.operations.run_output import FILE as OUTPUT
from detent.operations.run_output import read_file
from detent.redaction import StreamRedactor, redact_value
from detent.store.blobs import MAX_BLOB_BYTES, Blob, blob_of

EVIDENCE, WORK, RESULT = "evidence", "work", "result.json"
MAX_OUTPUT_BYTES = 10_485_760
MAX_EVIDENCE_BYTES = MAX_BLOB_BYTES
MAX_FILES = 1_000
DEEPEST = 8
#: The flags that open a directory and refuse a link in its place.
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
CUT = b"\n[the output was cut here: it passed its limit, worker.output_limit]\n"


class BlobWriter(Protocol):
    """What stores evidence: the blobs of a store."""

    def put(self, file: BinaryIO) -> Blob: ...


class Kept(NamedTuple):
    """A stored evidence file: the fields of the command that reports it, in order."""

    file: str
    kind: str
    sha256: str
    size: int
    media_type: str


class RunFiles:
    """The files of one run. The directory is made when it is first needed."""

    __slots__ = (
        *("runs", "run_id", "max_output", "written", "sent", "made", "_is_cut"),
        *("times_written", "times_sent", "_timed_s", "_blobs", "_on_output", "_redactor"),
        "_writing",
    )

    def __init__(
        self,
        runs: Path,
        run_id: str,
        max_output: int = MAX_OUTPUT_BYTES,
        blobs: BlobWriter | None = None,
        on_output: "Callable[[RunFiles], None] | None" = None,
    ) -> None:
        if "/" in run_id or run_id.startswith("."):
            raise Invalid(f"{run_id!r} cannot name a directory.", field="run_id", given=run_id)
        self.runs, self.run_id = runs, run_id
        self.max_output = max_output
        self.written = 0
        #: How much of the output other machines can read, if they read it elsewhere.
        self.sent = 0
        #: The same of the times of the output, and when the last time was written.
        self.times_written = self.times_sent = 0
        self._timed_s = float("-inf")
        self.made = False
        self._is_cut = False
        self._blobs = blobs
        self._on_output = on_output
        #: None until something is written.
        self._redactor: StreamRedactor | None = None
        #: Held while output is written: a handler can have several threads.
        self._writing = threading.Lock()

    @property
    def path(self) -> Path:
        return self.runs / self.run_id

    def directory(self, name: str = "") -> Path:
        """The run's directory, or one in it, readable by the owner only."""
        path = self.path / name if name else self.path
        private_files.make_directory(path)
        self.made = True
        return path

    def put(self, name: str, text: str) -> Path:
        """Write a file into the run's directory. A file or link that the program left there is
        removed first, so that a link is not followed.
        """
        path = self.directory() / name
        with os.fdopen(_made(path), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
        return path

    # -- output ----------------------------------------------------------------------------

    def write(self, output: str | bytes) -> None:
        """Append to the run's output, up to its limit, with secrets removed."""
        data = output.encode("utf-8", "replace") if isinstance(output, str) else output
        with self._writing:
            if self._is_cut:
                return
            if self._redactor is None:
                self._redactor = StreamRedactor()
            self._append(self._redactor.feed(data))

    def end_output(self) -> None:
        """Write the buffered possible start of a secret: the output has ended."""
        if self._redactor is None:
            return
        with self._writing:
            if self._redactor is not None:
                self._append(self._redactor.end())

    def cut_output(self) -> None:
        """Write that the output was cut; nothing is written after it."""
        with self._writing:
            self._cut()

    def _cut(self) -> None:
        if not self._is_cut:
            self._is_cut = True
            self._redactor = None  # what it holds may be the beginning of a secret
            self._write(CUT)

    def _append(self, data: bytes) -> None:
        """Write redacted output up to the limit."""
        left = self.max_output - self.written
        if data[:left]:
            self._write(data[:left])
        if len(data) > left:
            self._cut()

    def _write(self, data: bytes) -> None:
        failpoints.hit("output.write")
        self._write_time()
        _append_to(self.directory() / OUTPUT, data)
        self.written += len(data)  # now the uploader may send it
        if self._on_output is not None:
            self._on_output(self)

    def _write_time(self) -> None:
        """Write the time of the output that follows, unless the last time is recent."""
        now_s = time.monotonic()
        if now_s - self._timed_s < INTERVAL_S:
            return
        self._timed_s = now_s
        record = RECORD.pack(self.written, time.time_ns() // 1_000)
        _append_to(self.directory() / TIMES, record)
        self.times_written += len(record)

    def output(self) -> bytes:
        return read_file(self.path / OUTPUT, 0, self.max_output + len(CUT))

    def unsent(self, most: int) -> bytes:
        """The next bytes of the output that were not sent yet."""
        return read_file(self.path / OUTPUT, self.sent, min(most, self.written - self.sent))

    def unsent_times(self, most: int) -> bytes:
        """The next times of the output that were not sent yet."""
        unsent = min(most, self.times_written - self.times_sent)
        return read_file(self.path / TIMES, self.times_sent, unsent)

    # -- evidence --------------------------------------------------------------------------

    def keep(self, name: str, content: Any) -> Kept:
        """Store a file (given as a Path), bytes, text or a JSON value as evidence."""
        document_fields.text(name, "name", 200)
        if "/" in name or name.startswith("."):
            raise Invalid(f"{name!r} is not a plain file name.", field="name", given=name)
        self.directory(EVIDENCE)
        try:
            top = os.open(self.path / EVIDENCE, DIRECTORY)
        except OSError as error:
            raise Invalid(f"{EVIDENCE} cannot be opened: {error.strerror}.", field="name") from None
        try:
            return self._kept(top, name, content)
        finally:
            os.close(top)

    def _kept(self, top: int, name: str, content: Any) -> Kept:
        draft = f".{name}.part"
        with os.fdopen(_made(draft, top), "w+b") as file:
            _fill(file, content, name)
            file.flush()
            os.fsync(file.fileno())
            failpoints.hit("evidence.write")
            os.replace(draft, name, src_dir_fd=top, dst_dir_fd=top)
            file.seek(0)
            return self._archived(name, file)

    def keep_below(self, parts: Sequence[str], content: bytes) -> Kept:
        """Store bytes as evidence in directories below each other; links are not followed."""
        self.directory(EVIDENCE)
        here = os.open(self.path / EVIDENCE, DIRECTORY)
        try:
            for part in parts[:-1]:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=here)
                below = os.open(part, DIRECTORY, dir_fd=here)
                os.close(here)
                here = below
            return self._kept(here, parts[-1], content)._replace(file="/".join(parts))
        finally:
            os.close(here)

    def discard(self, name: str) -> None:
        """Remove a file or a directory of the evidence that the program left."""
        try:
            top = os.open(self.path / EVIDENCE, DIRECTORY)
        except FileNotFoundError:
            return
        try:
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(name, dir_fd=top)
            shutil.rmtree(name, ignore_errors=True, dir_fd=top)
        finally:
            os.close(top)

    def collect(self) -> Iterator[Kept]:
        """Store the evidence files that a command left; the output names files that were not
        stored.
        """
        try:
            top = os.open(self.path / EVIDENCE, DIRECTORY)
        except FileNotFoundError:
            return
        try:
            for number, (name, file) in enumerate(_below(top, "", 0)):
                if number == MAX_FILES:
                    self.write(f"[over {MAX_FILES} files of evidence: the rest is left out]\n")
                    return
                try:
                    yield self._archived(name, file)
                except (TooLarge, Refused) as error:
                    self.write(f"[evidence {name} is left out: {error}]\n")
        finally:
            os.close(top)

    def _archived(self, name: str, file: BinaryIO) -> Kept:
        blob = blob_of(file) if self._blobs is None else self._blobs.put(file)
        media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Kept(name, type_of(name).value, blob.sha256, blob.size, media_type)

    def left(self, name: str, most: int) -> bytes | None:
        """A small plain file that a command left in the run's directory; anything else is refused.

        None if there is none.
        """
        try:
            descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Invalid(f"{name} cannot be opened: {error.strerror}.", field=name) from None
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise Invalid(f"{name} is not a plain file.", field=name)
            if found.st_nlink != 1:
                raise Invalid(f"{name} is a hard link to another file.", field=name)
            if found.st_size > most:
                raise Invalid(f"{name} is over {most:,} bytes.", field=name)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                return file.read(most)
        finally:
            os.close(descriptor)

    def result(self) -> Any:
        """The content of the command's `result.json`; None without one, or if it is left out.

        The output says why it is left out.
        """
        try:
            data = self.left(RESULT, MAX_EVIDENCE_BYTES)
        except Invalid as error:
            self.write(f"[the result is left out: {error.message}]\n")
            return None
        try:
            return None if data is None else storable(redact_value(json.loads(data)), RESULT)
        except RecursionError:
            raise ValueError(f"{RESULT} is nested too deeply") from None


def _made(path: str | Path, beneath: int | None = None) -> int:
    """Create and open a new file; a file or link of that name is removed, not opened."""
    with suppress(FileNotFoundError):
        os.unlink(path, dir_fd=beneath)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    return os.open(path, flags, 0o600, dir_fd=beneath)


def _fill(file: BinaryIO, content: Any, name: str) -> None:
    if isinstance(content, Path):
        if content.stat().st_size > MAX_EVIDENCE_BYTES:
            raise _too_large(name)
        with content.open("rb") as source:
            shutil.copyfileobj(source, file)
        return
    data = content if isinstance(content, bytes | bytearray) else _text(content, name).encode()
    if len(data) > MAX_EVIDENCE_BYTES:
        raise _too_large(name)
    file.write(data)


def _text(content: Any, name: str) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(storable(content, f"evidence {name}"), ensure_ascii=False, indent=1)


def _too_large(name: str) -> TooLarge:
    limit = MAX_EVIDENCE_BYTES
    return TooLarge(f"evidence {name} is over {limit:,} bytes, which is the limit", limit=limit)


def _append_to(path: Path, data: bytes) -> None:
    """Append to the file; a link, a pipe or a directory in its place is not written."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            return
        raise
    with os.fdopen(descriptor, "ab") as file:
        if is_plain(file.fileno()):
            file.write(data)


def _below(directory: int, prefix: str, depth: int) -> Iterator[tuple[str, BinaryIO]]:
    """Plain files beneath an open directory, open, in order of their names."""
    with os.scandir(directory) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    for name in names:
        try:
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory
            )
        except OSError:
            continue  # a symlink, or gone by now
        try:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode) and depth < DEEPEST:
                yield from _below(descriptor, f"{prefix}{name}/", depth + 1)
            elif is_plain(descriptor):
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    yield prefix + name, file
        finally:
            os.close(descriptor)


def is_plain(descriptor: int) -> bool:
    """Whether it is a regular file: no pipe, no device, no hard link."""
    found = os.fstat(descriptor)
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
