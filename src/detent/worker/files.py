"""The directory of one run: its output, its evidence, its working directory.

The one place that opens them. What a command left behind is opened beneath the directory, component
by component, and only if it is a plain file of its own: no symlink, no hard link, no pipe.
"""

import hashlib
import json
import mimetypes
import os
import shutil
import stat
from collections.abc import Iterator
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import Any, NamedTuple

from detent.errors import Invalid, TooLarge
from detent.kernel import fields
from detent.kernel.evidence import type_of
from detent.worker.values import storable

OUTPUT, EVIDENCE, WORK = "output.log", "evidence", "work"
MOST_OUTPUT_BYTES = 10_485_760
MOST_EVIDENCE_BYTES = 64 * 1024 * 1024
MOST_FILES = 1_000
DEEPEST = 8
CUT = b"\n[the output was cut here: it passed its limit]\n"


class Kept(NamedTuple):
    """A piece of evidence, in the order of the command that reports it."""

    file: str
    kind: str
    sha256: str
    size: int
    media_type: str


class RunFiles:
    """Made when first needed: most runs leave nothing behind."""

    def __init__(self, runs: Path, run_id: str, most_output: int = MOST_OUTPUT_BYTES) -> None:
        if "/" in run_id or run_id.startswith("."):
            raise Invalid(f"{run_id!r} cannot name a directory.", field="run_id", given=run_id)
        self.runs, self.run_id = runs, run_id
        self.most_output = most_output
        self.written = 0

    @property
    def path(self) -> Path:
        return self.runs / self.run_id

    def directory(self, name: str = "") -> Path:
        """The run's directory, or one in it, for nobody else's eyes."""
        path = self.path / name if name else self.path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path

    # -- output ----------------------------------------------------------------------------

    def write(self, output: str | bytes) -> None:
        """Append to the run's output, up to its limit."""
        data = output.encode("utf-8", "replace") if isinstance(output, str) else output
        room = self.most_output - self.written
        if room <= 0:
            return
        if len(data) > room:
            data = data[:room] + CUT
        self.written += len(data)
        with (self.directory() / OUTPUT).open("ab") as file:
            file.write(data)

    def output(self) -> bytes:
        try:
            return (self.path / OUTPUT).read_bytes()
        except FileNotFoundError:
            return b""

    # -- evidence --------------------------------------------------------------------------

    def keep(self, name: str, content: Any) -> Kept:
        """Store a file (given as a Path), bytes, text or a JSON value as evidence."""
        fields.text(name, "name", 200)
        if "/" in name or name.startswith("."):
            raise Invalid(f"{name!r} is no plain file name.", field="name", given=name)
        target = self.directory(EVIDENCE) / name
        draft = target.with_name(f".{name}.part")
        with draft.open("wb") as file:
            _fill(file, content, name)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
        with target.open("rb") as file:
            return _kept(name, file)

    def collect(self) -> Iterator[Kept]:
        """The evidence that a command has left in its directory."""
        try:
            top = os.open(self.path / EVIDENCE, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return
        try:
            yield from (
                kept for kept, _ in zip(_below(top, "", 0), range(MOST_FILES), strict=False)
            )
        finally:
            os.close(top)

    def result(self) -> Any:
        """What a command has left as `result.json`; None if it left nothing that can be read."""
        path = self.path / "result.json"
        try:
            if path.stat(follow_symlinks=False).st_size > MOST_EVIDENCE_BYTES:
                return None
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not _is_plain(file.fileno()):
                return None
            return storable(json.loads(file.read()), "result.json")


def _fill(file: BufferedWriter, content: Any, name: str) -> None:
    if isinstance(content, Path):
        if content.stat().st_size > MOST_EVIDENCE_BYTES:
            raise _too_large(name)
        with content.open("rb") as source:
            shutil.copyfileobj(source, file)
        return
    data = content if isinstance(content, bytes | bytearray) else _text(content, name).encode()
    if len(data) > MOST_EVIDENCE_BYTES:
        raise _too_large(name)
    file.write(data)


def _text(content: Any, name: str) -> str:
    if isinstance(content, str):
        return content
    return json.dumps(storable(content, f"evidence {name}"), ensure_ascii=False, indent=1)


def _too_large(name: str) -> TooLarge:
    limit = MOST_EVIDENCE_BYTES
    return TooLarge(f"evidence {name} is over {limit:,} bytes, which is the limit", limit=limit)


def _below(directory: int, prefix: str, depth: int) -> Iterator[Kept]:
    """Plain files beneath an open directory, in order of their names."""
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
            elif _is_plain(descriptor):
                with os.fdopen(descriptor, "rb", closefd=False) as file:
                    yield _kept(prefix + name, file)
        finally:
            os.close(descriptor)


def _is_plain(descriptor: int) -> bool:
    found = os.fstat(descriptor)
    return (
        stat.S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size <= MOST_EVIDENCE_BYTES
    )


def _kept(name: str, file: BufferedReader) -> Kept:
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    size = file.tell()
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return Kept(name, type_of(name).value, digest, size, media_type)
