"""Blobs as objects of a bucket: `blobs/<digest>/<time>-<random>`.

The key has the time at which the blob was last stored, by the clock of the store. Each put has a
key of its own: an object that is removed because it is old is never one that was stored meanwhile.
A blob that exists is copied inside of the bucket, and its earlier objects are deleted.
"""

import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from hashlib import sha256
from itertools import groupby
from secrets import token_hex
from typing import BinaryIO, NamedTuple

from detent.store.blobs import CHUNK_BYTES, Blob, Blobs, chunks
from detent.store.s3.bucket import Bucket, ObjectInfo

BLOBS = "blobs/"
#: After all keys of a digest.
LAST = "~"
#: How often a blob that others store again meanwhile is looked up.
MAX_LOOKUPS = 5


class Stored(NamedTuple):
    """One object of a blob."""

    digest: str
    at: int
    key: str
    size: int


class BucketBlobs:
    """Blobs in a bucket. Those that were stored in the database earlier are read from there."""

    def __init__(self, bucket: Bucket, earlier: Blobs, now: Callable[[], int]) -> None:
        self._bucket, self._earlier, self._now = bucket, earlier, now

    def put(self, file: BinaryIO) -> Blob:
        with tempfile.SpooledTemporaryFile(CHUNK_BYTES) as copy:
            blob = _copied(file, copy)
            key = f"{BLOBS}{blob.sha256}/{self._now():016d}-{token_hex(8)}"
            existing = self._objects(blob.sha256)
            if not self._renewed(existing, key):
                copy.seek(0)
                self._bucket.put(key, copy)
        self._bucket.delete([each.key for each in existing if each.key < key])
        return blob

    def _renewed(self, existing: Sequence[Stored], key: str) -> bool:
        """Copy the newest object to a new key; False if there is none any more."""
        if not existing:
            return False
        try:
            self._bucket.copy(existing[-1].key, key)
        except FileNotFoundError:
            return False
        return True

    def size(self, digest: str) -> int | None:
        found = self._objects(digest)
        return found[-1].size if found else self._earlier.size(digest)

    def read(self, digest: str) -> Iterator[bytes]:
        for _ in range(MAX_LOOKUPS):
            found = self._objects(digest)
            if not found:
                break
            try:
                return self._bucket.read(found[-1].key)
            except FileNotFoundError:
                continue  # another process has stored it again, or removed it
        return self._earlier.read(digest)

    def old(self, before: int, after: str, limit: int) -> Sequence[str]:
        found = set(self._earlier.old(before, after, limit))
        known = 0
        for digest, objects in groupby(self._listed(after), key=lambda each: each.digest):
            newest = max(each.at for each in objects)
            if newest < before:
                found.add(digest)
                known += 1
            else:
                found.discard(digest)
            if known >= limit:
                break
        return sorted(found)[:limit]

    def remove(self, digests: Collection[str], before: int) -> list[Blob]:
        gone = {blob.sha256: blob for blob in self._earlier.remove(digests, before)}
        for digest in sorted(digests):
            found = self._objects(digest)
            if found and found[-1].at < before:
                self._bucket.delete([each.key for each in found])
                gone[digest] = Blob(digest, found[-1].size)
            elif found:
                gone.pop(digest, None)
        return [gone[digest] for digest in sorted(gone)]

    def remove_incomplete(self, before: int, *, dry_run: bool = False) -> list[int]:
        """An object is stored in one request."""
        return self._earlier.remove_incomplete(before, dry_run=dry_run)

    def _objects(self, digest: str) -> list[Stored]:
        """The objects of a blob, the newest last; there are several while it is stored again."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            return []
        return [
            stored
            for info in self._bucket.list(f"{BLOBS}{digest}/")
            if (stored := _stored(info)) is not None
        ]

    def _listed(self, after: str) -> Iterator[Stored]:
        start = f"{BLOBS}{after}/{LAST}" if after else ""
        for info in self._bucket.list(BLOBS, start):
            if (stored := _stored(info)) is not None:
                yield stored


def _stored(info: ObjectInfo) -> Stored | None:
    """Parse a key; None for an object that detent did not store."""
    digest, _, name = info.key.removeprefix(BLOBS).partition("/")
    at = name.partition("-")[0]
    return Stored(digest, int(at), info.key, info.size) if at.isdigit() else None


def _copied(file: BinaryIO, target: "tempfile.SpooledTemporaryFile[bytes]") -> Blob:
    """Copy a file, so that what is stored is what the digest was computed of."""
    file.seek(0)
    digest, size = sha256(), 0
    for chunk in chunks(file):
        digest.update(chunk)
        size += target.write(chunk)
    return Blob(digest.hexdigest(), size)
