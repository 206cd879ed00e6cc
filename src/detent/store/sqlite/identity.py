"""Checks that the database files are still the ones that were opened.

A process can still write to a file that was deleted or replaced, and these writes are lost. So a
commit is confirmed only if the path still leads to the opened file.
"""

import os
from pathlib import Path

from detent.errors import Unavailable

RETRY_AFTER_S = 5

Identity = tuple[int, int]


class Files:
    """The database file and its write-ahead log, identified by device and inode."""

    def __init__(self, path: Path, where: str) -> None:
        self._path, self._log = str(path), f"{path}-wal"
        self._where = where
        self._opened = _identity(self._path)
        self._opened_log: Identity | None = None

    def check(self) -> None:
        """Raise Unavailable if a file was deleted or replaced. Costs two calls of `stat`."""
        if _identity(self._path) != self._opened:
            raise self._replaced(self._path)
        log = _identity(self._log)
        if self._opened_log is None:  # it is created by the first transaction
            self._opened_log = log
        elif log != self._opened_log:
            raise self._replaced(self._log)

    def _replaced(self, path: str) -> Unavailable:
        return Unavailable(
            f"{self._where}: the file {path} was deleted or replaced while detent had it open. "
            "The write was not confirmed. Stop detent, put the file back or restore a backup "
            "(detent db restore FILE), and start it again.",
            retry_after_s=RETRY_AFTER_S,
        )


def _identity(path: str) -> Identity | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - after every commit: a Path costs more than the call
    except OSError:
        return None
    return found.st_dev, found.st_ino
