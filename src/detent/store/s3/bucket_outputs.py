"""Output of runs: in the database while a run writes it, in a bucket after the run has ended.

An object has a contiguous part of a run's output: `output/<run id>/<offset>`. Few large objects are
cheaper than one for each part that a worker sends. The keeper moves them (`move`).
"""

from collections.abc import Collection, Iterator, Sequence
from heapq import merge
from itertools import groupby, islice
from operator import itemgetter

from detent.store.blobs import Outputs, Piece
from detent.store.s3.bucket import Bucket

OUTPUT = "output/"
#: Added to offsets in keys, so that negative ones are in order too.
ORIGIN = 1 << 48
LAST = "~"
#: The size of one part that is read from the database.
PART_BYTES = 4 * 1024 * 1024


class BucketOutputs:
    """Output in the database, and in a bucket if it was moved there."""

    def __init__(self, bucket: Bucket, live: Outputs) -> None:
        self._bucket, self._live = bucket, live

    def append(self, pieces: Sequence[Piece]) -> None:
        self._live.append(pieces)

    def read(self, run_id: str, offset: int, limit: int) -> bytes:
        found = self._live.read(run_id, offset, limit)
        if found or self.is_live(run_id):
            return found
        for info in self._bucket.list(_prefix(run_id)):
            start = _offset(info.key)
            if start <= offset < start + info.size:
                end = min(info.size, offset - start + limit)
                return self._bucket.read_part(info.key, offset - start, end)
        return b""

    def is_live(self, run_id: str) -> bool:
        """Whether the output of the run is in the database: it has the first byte then."""
        return bool(self._live.read(run_id, 0, 1))

    def runs(self, after: str, limit: int) -> Sequence[str]:
        both = merge(self._live.runs(after, limit), (run_id for run_id, _ in self._moved(after)))
        return list(islice((run_id for run_id, _ in groupby(both)), limit))

    def sizes(self, after: str, limit: int) -> Sequence[tuple[str, int]]:
        both = merge(self._live.sizes(after, limit), self._moved(after))
        sums = (
            (run_id, sum(size for _, size in parts))
            for run_id, parts in groupby(both, key=itemgetter(0))
        )
        return list(islice(sums, limit))

    def _moved(self, after: str) -> Iterator[tuple[str, int]]:
        """The run and the size of each object, in order, after a run."""
        for info in self._bucket.list(OUTPUT, f"{OUTPUT}{after}/{LAST}" if after else ""):
            yield _run_id(info.key), info.size

    def remove(self, run_ids: Collection[str]) -> None:
        for run_id in run_ids:
            self._bucket.delete([info.key for info in self._bucket.list(_prefix(run_id))])
        self._live.remove(run_ids)

    def live_runs(self, after: str, limit: int) -> Sequence[str]:
        """The ids of runs whose output is in the database, in order, after an id."""
        return self._live.runs(after, limit)

    def move(self, run_id: str, starts: Collection[int]) -> int:
        """Move the output of an ended run to the bucket; returns its bytes.

        `starts` are the offsets at which contiguous output may begin. A move that was interrupted
        is repeated; output that arrived after a move is appended to the object.
        """
        size = 0
        for start in starts:
            content = self._all_from(run_id, start)
            if content:
                self._bucket.put(_key(run_id, start), content)
                size += len(content)
        self._live.remove([run_id])
        return size

    def _all_from(self, run_id: str, start: int) -> bytes:
        found = bytearray()
        while part := self.read(run_id, start + len(found), PART_BYTES):
            found += part
        return bytes(found)


def _prefix(run_id: str) -> str:
    return f"{OUTPUT}{run_id}/"


def _key(run_id: str, start: int) -> str:
    return f"{_prefix(run_id)}{start + ORIGIN:016d}"


def _offset(key: str) -> int:
    return int(key.rpartition("/")[2]) - ORIGIN


def _run_id(key: str) -> str:
    return key.removeprefix(OUTPUT).partition("/")[0]
