"""What a store keeps beside its rows: blobs by their digest, and the output of runs by offset.

The contract, like `port`. Nothing of it is in the log: the log names a blob by its SHA-256, and
output is no lifecycle. Both are written before whatever refers to them.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from typing import BinaryIO, NamedTuple, Protocol

from detent.errors import NotFound, TooLarge

#: The largest blob, and how much of one is in memory at a time.
MAX_BLOB_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024

#: How far a copy is: what is being copied, how much of it is, and how much there is of it.
CopyProgress = Callable[[str, int, int], None]


def no_progress(what: str, at: int, of: int) -> None:
    """Nobody wants to know."""


class Blob(NamedTuple):
    """Some bytes, known by what they are."""

    sha256: str
    size: int


class Piece(NamedTuple):
    """Bytes that a run has written, and where they stand in its output."""

    run_id: str
    offset: int
    data: bytes


class Blobs(Protocol):
    """Bytes by their SHA-256. The same bytes are kept once."""

    def put(self, file: BinaryIO) -> Blob:
        """Keep what a file holds from its beginning on; durable when the call returns.

        What is there already counts as put anew, so that nobody removes it meanwhile. A file over
        the limit, or one that changes while it is read, is refused and leaves nothing behind.
        """

    def size(self, digest: str) -> int | None:
        """How many bytes a blob has; None if there is none."""

    def read(self, digest: str) -> Iterator[bytes]:
        """A blob's bytes, some at a time. One that is not there is refused before the first."""

    def old(self, before: int, after: str, limit: int) -> Sequence[str]:
        """Digests of blobs that were last put before a time, in order, after a digest."""

    def remove(self, digests: Collection[str], before: int) -> list[Blob]:
        """Forget those of these blobs that nobody has put since that time; which they were."""


class Outputs(Protocol):
    """Output of runs that other machines read. A store that lives on one disk has none."""

    def append(self, pieces: Sequence[Piece]) -> None:
        """Keep pieces of the output of runs; one that is said twice is kept once."""

    def read(self, run_id: str, offset: int, limit: int) -> bytes:
        """At most so many bytes from an offset on; empty behind the end."""

    def runs(self, after: str, limit: int) -> Sequence[str]:
        """The ids of runs that have output, in order, after an id."""

    def remove(self, run_ids: Collection[str]) -> None:
        """Forget the output of these runs."""


def chunks(file: BinaryIO) -> Iterator[bytes]:
    """A file from where it stands to its end; over the limit it is refused."""
    size = 0
    while chunk := file.read(CHUNK_BYTES):
        size += len(chunk)
        if size > MAX_BLOB_BYTES:
            raise TooLarge(f"a blob has at most {MAX_BLOB_BYTES:,} bytes", limit=MAX_BLOB_BYTES)
        yield chunk


def blob_of(file: BinaryIO) -> Blob:
    """What a file's blob will be, without keeping it."""
    digest, size = sha256(), 0
    for chunk in chunks(file):
        digest.update(chunk)
        size += len(chunk)
    return Blob(digest.hexdigest(), size)


def no_blob(digest: str) -> NotFound:
    """Nothing is kept under this digest."""
    return NotFound(f"There is no blob {digest}.")
