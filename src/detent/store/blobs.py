"""The interface for data beside the rows of a store: blobs by digest, and the output of runs.

The log refers to a blob by its SHA-256; output is not part of the log. Both are written before the
rows that refer to them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from typing import BinaryIO, NamedTuple, Protocol

from detent.errors import NotFound, TooLarge

#: The maximum size of a blob, and the size of the chunks in which it is read.
MAX_BLOB_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024

#: Reports the progress of a copy: what is copied, how much so far, and how much in all.
CopyProgress = Callable[[str, int, int], None]


def no_progress(what: str, at: int, of: int) -> None:
    """Ignore the progress of a copy."""


class Blob(NamedTuple):
    """The digest and the size of a blob."""

    sha256: str
    size: int


class Piece(NamedTuple):
    """A part of the output of a run, with its offset."""

    run_id: str
    offset: int
    data: bytes


class Blobs(Protocol):
    """Blobs by their SHA-256. The same content is stored once."""

    def put(self, file: BinaryIO) -> Blob:
        """Store the content of a file; durable when the call returns.

        A blob that already exists gets a new time, so that it is not removed meanwhile. A file over
        the limit, or one that changes while it is read, is refused, and nothing is stored.
        """

    def size(self, digest: str) -> int | None:
        """The size of a blob in bytes; None if it does not exist."""

    def read(self, digest: str) -> Iterator[bytes]:
        """The content of a blob in chunks. Raises NotFound first if it does not exist."""

    def old(self, before: int, after: str, limit: int) -> Sequence[str]:
        """Digests of blobs that were last stored before a time, in order, after a digest."""

    def remove(self, digests: Collection[str], before: int) -> list[Blob]:
        """Delete those of these blobs that were not stored again since that time; returns them."""

    def remove_incomplete(self, before: int, *, dry_run: bool = False) -> list[int]:
        """Delete the files that calls of `put` did not complete and have not written since then.

        Returns the sizes in bytes. With `dry_run`, nothing is deleted.
        """


class Outputs(Protocol):
    """The output of runs, for other machines. A store on one disk has none."""

    def append(self, pieces: Sequence[Piece]) -> None:
        """Store parts of the output of runs.

        A part that is given twice is stored once; if it is longer now, the longer one.
        """

    def read(self, run_id: str, offset: int, limit: int) -> bytes:
        """At most `limit` bytes from an offset; empty after the end."""

    def runs(self, after: str, limit: int) -> Sequence[str]:
        """The ids of runs that have output, in order, after an id."""

    def sizes(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
        """The ids of runs that have output and its bytes, in order, after an id."""

    def remove(self, run_ids: Collection[str]) -> None:
        """Delete the output of these runs."""


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """The rest of a file in chunks; refused if it exceeds the limit."""
    size = 0
    while chunk := file.read(CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_BLOB_BYTES:
            raise TooLarge(
                f"The file exceeds the limit of {MAX_BLOB_BYTES:,} bytes.", limit=MAX_BLOB_BYTES
            )
        yield chunk


def blob_of(file: BinaryIO) -> Blob:
    """The digest and the size of a file, without storing it."""
    digest, size = sha256(), 0
    for chunk in chunks(file):
        digest.update(chunk)
        size += len(chunk)
    return Blob(digest.hexdigest(), size)


def no_blob(digest: str) -> NotFound:
    """The error for a digest without a blob."""
    return NotFound(f"There is no blob {digest}.")
