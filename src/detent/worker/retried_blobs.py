"""RetriedBlobs: stores evidence of runs, also if the store is unavailable for a while.

The work of a run that has succeeded must not fail because the database or the bucket is
unavailable when it ends. A call is retried as long as those of EngineClient.
"""

from collections.abc import Callable
from typing import BinaryIO

from detent.app.retried_calls import never, retried
from detent.store.blobs import Blob, Blobs


class RetriedBlobs:
    """The blobs of a store, for files of a run that can be read again."""

    def __init__(self, blobs: Blobs, lease_over: Callable[[], bool] = never) -> None:
        self._blobs, self._lease_over = blobs, lease_over

    def put(self, file: BinaryIO) -> Blob:
        """Store the content of a file from its present position."""
        start = file.tell()

        def once() -> Blob:
            file.seek(start)
            return self._blobs.put(file)

        return retried(once, self._lease_over)
