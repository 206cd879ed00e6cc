"""Blobs and the output of runs as rows in chunks, readable from every machine.

Each call is one transaction. A reader holds none between two chunks.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import BinaryIO

from detent.errors import Refused
from detent.store.blobs import CHUNK_BYTES, Blob, Piece, blob_of, no_blob
from detent.store.codec import to_json
from detent.store.postgres.connection import Rows
from detent.store.postgres.reader import READY, Clock, PostgresReader
from detent.store.postgres.transaction import Transaction

Begin = Callable[[], Transaction]


class PostgresBlobs:
    """Blobs in numbered chunks; the first chunk has the time at which the blob was last stored."""

    def __init__(self, look: Begin, begin: Begin, clock: Clock) -> None:
        self._look = look
        self._begin = begin
        self._clock = clock

    def put(self, file: BinaryIO) -> Blob:
        file.seek(0)
        blob = blob_of(file)
        file.seek(0)
        with _writing(self._begin) as transaction:
            now = PostgresReader(transaction, self._clock).now()
            if not transaction.rows(READY["touch_blob"](sha256=blob.sha256, at=now)):
                _insert(transaction, blob, file, now)
        return blob

    def size(self, digest: str) -> int | None:
        size, chunks = self._rows("blob_size", sha256=digest)[0]
        return int(size) if chunks else None

    def read(self, digest: str) -> Iterator[bytes]:
        size = self.size(digest)
        if size is None:
            raise no_blob(digest)
        return self._chunks(digest, size)

    def _chunks(self, digest: str, size: int) -> Iterator[bytes]:
        for number in range(-(-size // CHUNK_BYTES)):
            rows = self._rows("blob_chunk", sha256=digest, chunk=number)
            if not rows:
                raise no_blob(digest)  # it was removed meanwhile
            yield rows[0][0]

    def old(self, before: int, after: str, limit: int) -> Sequence[str]:
        rows = self._rows("old_blobs", before=before, after=after, limit=limit)
        return [digest for (digest,) in rows]

    def remove(self, digests: Collection[str], before: int) -> list[Blob]:
        wanted = to_json(sorted(digests))
        with _writing(self._begin) as transaction:
            rows = transaction.rows(READY["lock_old_blobs"](ids=wanted, before=before))
            old = to_json([digest for (digest,) in rows])
            gone = dict.fromkeys((digest for (digest,) in rows), 0)
            for digest, size in transaction.rows(READY["delete_blobs"](ids=old)):
                gone[digest] += size
        return [Blob(*each) for each in gone.items()]

    def remove_incomplete(self, before: int, *, dry_run: bool = False) -> list[int]:  # noqa: ARG002
        """A blob is stored in one transaction."""
        return []

    def _rows(self, name: str, **values: str | int) -> Rows:
        return _read(self._look, name, **values)


def _insert(transaction: Transaction, blob: Blob, file: BinaryIO, now: int) -> None:
    digest = sha256()
    number = 0
    while (data := file.read(CHUNK_BYTES)) or not number:
        digest.update(data)
        insert = READY["insert_chunk"]
        transaction.run([insert(sha256=blob.sha256, chunk=number, at=now, data=_bytea(data))])
        number += 1
    if digest.hexdigest() != blob.sha256:
        raise Refused("The file was changed while it was read.")


class PostgresOutputs:
    """The output of runs in parts, by offset."""

    def __init__(self, look: Begin, begin: Begin) -> None:
        self._look = look
        self._begin = begin

    def append(self, pieces: Sequence[Piece]) -> None:
        insert = READY["insert_output"]
        with _writing(self._begin) as transaction:
            transaction.run(
                [
                    READY["output_may_be_lost"](),
                    *(
                        insert(run_id=run_id, at_offset=offset, data=_bytea(data))
                        for run_id, offset, data in pieces
                    ),
                ]
            )

    def read(self, run_id: str, offset: int, limit: int) -> bytes:
        upto = offset + limit
        rows = _read(self._look, "output_from", run_id=run_id, offset=offset, upto=upto)
        found, end = [], offset
        for at, data in rows:
            if not at <= end < at + len(data):
                break
            found.append(data[end - at :])
            end = at + len(data)
        return b"".join(found)[:limit]

    def runs(self, after: str, limit: int) -> Sequence[str]:
        return [each for (each,) in _read(self._look, "output_runs", after=after, limit=limit)]

    def sizes(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
        rows = _read(self._look, "output_sizes", after=after, limit=limit)
        return [(run_id, int(size)) for run_id, size in rows]

    def remove(self, run_ids: Collection[str]) -> None:
        with _writing(self._begin) as transaction:
            transaction.run([READY["delete_output_of"](ids=to_json(sorted(run_ids)))])


@contextmanager
def _writing(begin: Begin) -> Iterator[Transaction]:
    transaction = begin()
    try:
        yield transaction
        transaction.commit([])
    finally:
        transaction.end()


def _read(begin: Begin, name: str, **values: str | int) -> Rows:
    transaction = begin()
    try:
        return transaction.rows(READY[name](**values))
    finally:
        transaction.end()


def _bytea(data: bytes) -> bytes:
    return b"\\x" + data.hex().encode()
