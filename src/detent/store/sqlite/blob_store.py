"""Blobs beside a SQLite database: a directory with one file for each, `blobs/ab/cdef…`.

A file is written beside its place, synced, and renamed: what has a name is whole. Its time of
change is when it was last put, by the store's clock. A killed process leaves the file that it was
writing, which retention deletes.
"""

import fcntl
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from detent.errors import Unavailable
from detent.store.blobs import CHUNK_BYTES, Blob, chunks, no_blob
from detent.store.sqlite.checks import sync_directory

LOCK = ".lock"
#: The start and the end of the name of a file that is being written.
DRAFT = (".", ".part")


class DirectoryBlobs:
    """Blobs as files, for any number of threads and processes."""

    def __init__(self, directory: Path, clock: Callable[[], int]) -> None:
        self.directory = directory
        self._clock = clock

    def put(self, file: BinaryIO) -> Blob:
        file.seek(0)
        try:
            self.directory.mkdir(mode=0o700, exist_ok=True)
            descriptor, name = tempfile.mkstemp(DRAFT[1], DRAFT[0], self.directory)
            draft = Path(name)
            try:
                blob = self._write(descriptor, file)
                self._place(draft, self._path(blob.sha256))
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(
                f"{self.directory} cannot be written: {error.strerror}.", retry_after_s=1
            ) from error
        return blob

    def _write(self, descriptor: int, file: BinaryIO) -> Blob:
        digest, size = sha256(), 0
        with os.fdopen(descriptor, "wb") as draft:
            for chunk in chunks(file):
                digest.update(chunk)
                size += draft.write(chunk)
            draft.flush()
            at_ns = self._clock() * 1_000
            os.utime(draft.fileno(), ns=(at_ns, at_ns))
            os.fsync(draft.fileno())
        return Blob(digest.hexdigest(), size)

    def _place(self, draft: Path, path: Path) -> None:
        """Move the file to its place, also over an existing one: it has the same content."""
        with self._lock(fcntl.LOCK_SH):
            if not path.parent.exists():
                path.parent.mkdir(mode=0o700, exist_ok=True)
                sync_directory(self.directory)
            draft.replace(path)
        sync_directory(path.parent)

    def size(self, digest: str) -> int | None:
        try:
            return self._path(digest).stat().st_size
        except FileNotFoundError:
            return None

    def read(self, digest: str) -> Iterator[bytes]:
        if self.size(digest) is None:
            raise no_blob(digest)
        return _pieces(self._path(digest))

    def old(self, before: int, after: str, limit: int) -> Sequence[str]:
        found: list[str] = []
        for prefix in self._names(self.directory):
            if len(prefix) != 2 or prefix < after[:2]:
                continue
            for rest in self._names(self.directory / prefix):
                if prefix + rest > after and self._put_before(prefix + rest, before):
                    found.append(prefix + rest)
            if len(found) >= limit:
                break
        return found[:limit]

    def remove(self, digests: Collection[str], before: int) -> list[Blob]:
        gone = []
        if digests and self.directory.exists():
            with self._lock(fcntl.LOCK_EX):
                for digest in sorted(digests):
                    size = self.size(digest)
                    if size is not None and self._put_before(digest, before):
                        self._path(digest).unlink()
                        gone.append(Blob(digest, size))
        return gone

    def remove_incomplete(self, before: int, *, dry_run: bool = False) -> list[int]:
        gone = []
        for draft in self.directory.glob("*".join(DRAFT)):
            with suppress(FileNotFoundError):  # it was completed meanwhile
                size = draft.stat(follow_symlinks=False).st_size
                if _changed_before(draft, before):
                    if not dry_run:
                        draft.unlink()
                    gone.append(size)
        return gone

    def _put_before(self, digest: str, before: int) -> bool:
        try:
            return _changed_before(self._path(digest), before)
        except FileNotFoundError:
            return False

    def _path(self, digest: str) -> Path:
        """The path of a blob; only a valid digest has one."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise FileNotFoundError(digest)
        return self.directory / digest[:2] / digest[2:]

    def _names(self, directory: Path) -> list[str]:
        try:
            names = [path.name for path in directory.iterdir()]
            return sorted(name for name in names if not name.startswith("."))
        except FileNotFoundError:
            return []

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        """Lock storing against removing, so that a blob that is stored again is not removed."""
        descriptor = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, kind)
            yield
        finally:
            os.close(descriptor)


def _changed_before(path: Path, before: int) -> bool:
    return path.stat(follow_symlinks=False).st_mtime_ns // 1_000 < before


def _pieces(path: Path) -> Iterator[bytes]:
    """The content of a file; it is opened with the first chunk."""
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
