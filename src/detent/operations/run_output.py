"""Live output of runs, read by offset. Not lifecycle, so not in the log.

The worker writes `runs/<run id>/output.log` in its data directory, capped. A store that other
machines share has it as well, in pieces, a moment later; retention removes both.
"""

import errno
import os
import stat
from pathlib import Path

from detent import private_files
from detent.errors import Invalid
from detent.store.blobs import Piece
from detent.store.port import Store

FILE = "output.log"
#: The most that one answer carries.
MAX_BYTES = 262_144


def output_file(data_dir: Path, run_id: str) -> Path:
    """Where a run's output stands."""
    return data_dir / "runs" / run_id / FILE


def read_output(store: Store, data_dir: Path, run_id: str, offset: int) -> tuple[str, int]:
    """The text from a byte offset on, and the offset after it; half a character waits."""
    if offset < 0:
        raise Invalid("offset must not be negative.", field="offset", given=offset)
    data = read_bytes(store, data_dir, run_id, offset, MAX_BYTES)
    whole = data[: len(data) - _cut(data)]
    return whole.decode("utf-8", "replace"), offset + len(whole)


def read_bytes(store: Store, data_dir: Path, run_id: str, offset: int, limit: int) -> bytes:
    """At most so many bytes of a run's output; empty behind its end."""
    if store.outputs is not None:
        return store.outputs.read(run_id, offset, limit)
    return read_file(output_file(data_dir, run_id), offset, limit)


def append_output(store: Store, data_dir: Path, run_id: str, offset: int, data: bytes) -> None:
    """Keep output that came from elsewhere, where it would be read from."""
    if store.outputs is not None:
        store.outputs.append([Piece(run_id, offset, data)])
        return
    path = output_file(data_dir, run_id)
    private_files.make_directory(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
    descriptor = os.open(path, flags, 0o600)
    try:
        os.pwrite(descriptor, data, offset)
    finally:
        os.close(descriptor)


def read_file(path: Path, offset: int, limit: int) -> bytes:
    """The run's own program may write beside this file: no link may lead out of here."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO):
            return b""
        raise
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return b""
        return os.pread(handle, limit, offset)
    finally:
        os.close(handle)


def _cut(data: bytes) -> int:
    """How many bytes at the end begin a character that has not come whole."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if needs > back else 0
        if byte < 0x80:
            return 0
    return 0
