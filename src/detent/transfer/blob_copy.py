"""Blobs from one place to another: all of them, each compared with its digest on the way."""

import tempfile

from detent.errors import Broken
from detent.integrity.audit import FAR
from detent.store.blobs import Blobs, CopyProgress, no_progress

BATCH = 1_000


def count_blobs(blobs: Blobs) -> int:
    count, after = 0, ""
    while digests := blobs.old(FAR, after, BATCH):
        count, after = count + len(digests), digests[-1]
    return count


def copy_blobs(source: Blobs, target: Blobs, tell: CopyProgress = no_progress) -> int:
    """How many there were. One whose bytes are others is not passed on."""
    total, count, after = count_blobs(source), 0, ""
    while digests := source.old(FAR, after, BATCH):
        for after in digests:
            _copy(source, target, after)
            count += 1
            tell("evidence", count, total)
    return count


def _copy(source: Blobs, target: Blobs, digest: str) -> None:
    with tempfile.TemporaryFile() as file:
        for piece in source.read(digest):
            file.write(piece)
        if target.put(file).sha256 != digest:
            raise Broken(f"the blob {digest} is damaged: its bytes are others.")
