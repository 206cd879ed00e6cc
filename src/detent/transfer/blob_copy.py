"""Copies all blobs from one store to another and checks their digests."""

import tempfile

from detent.errors import Broken
from detent.integrity.audit import FAR
from detent.store.blobs import Blobs, CopyProgress, no_progress

BATCH = 1_000


def count_blobs(blobs: Blobs) -> int:
    """The number of blobs."""
    count, after = 0, ""
    while digests := blobs.old(FAR, after, BATCH):
        count, after = count + len(digests), digests[-1]
    return count


def copy_blobs(source: Blobs, target: Blobs, progress: CopyProgress = no_progress) -> int:
    """Copy every blob; returns their number. A damaged blob is refused."""
    total, count, after = count_blobs(source), 0, ""
    while digests := source.old(FAR, after, BATCH):
        for after in digests:
            _copy(source, target, after)
            count += 1
            progress("evidence", count, total)
    return count


def _copy(source: Blobs, target: Blobs, digest: str) -> None:
    with tempfile.TemporaryFile() as file:
        for piece in source.read(digest):
            file.write(piece)
        if target.put(file).sha256 != digest:
            raise Broken(f"The blob {digest} is damaged: its content does not match its digest.")
