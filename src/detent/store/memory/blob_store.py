"""Blobs of the memory store: a dict that is shared like its tables."""

from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from typing import BinaryIO

from detent.store.blobs import Blob, chunks, no_blob

#: By digest: when it was last put, and its bytes.
Kept = dict[str, tuple[int, bytes]]


class MemoryBlobs:
    """Every call is one step on the dict, so that threads need no lock."""

    def __init__(self, kept: Kept, clock: Callable[[], int]) -> None:
        self._kept = kept
        self._clock = clock

    def put(self, file: BinaryIO) -> Blob:
        file.seek(0)
        data = b"".join(chunks(file))
        digest = sha256(data).hexdigest()
        self._kept[digest] = (self._clock(), data)
        return Blob(digest, len(data))

    def size(self, digest: str) -> int | None:
        found = self._kept.get(digest)
        return None if found is None else len(found[1])

    def read(self, digest: str) -> Iterator[bytes]:
        found = self._kept.get(digest)
        if found is None:
            raise no_blob(digest)
        return iter([found[1]] if found[1] else [])

    def old(self, before: int, after: str, limit: int) -> Sequence[str]:
        known = sorted(self._kept.items())
        return [each for each, (at, _) in known if each > after and at < before][:limit]

    def remove(self, digests: Collection[str], before: int) -> list[Blob]:
        gone = []
        for digest in sorted(digests):
            at, data = self._kept.get(digest, (before, b""))
            if at < before:
                del self._kept[digest]
                gone.append(Blob(digest, len(data)))
        return gone

    def remove_incomplete(self, before: int, *, dry_run: bool = False) -> list[int]:  # noqa: ARG002
        """A blob is stored in one step."""
        return []
