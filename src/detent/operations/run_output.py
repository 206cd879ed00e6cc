"""The live output of runs, read by offset. It is not part of the log.

The worker writes `runs/<run id>/output.log` in its data directory, up to a maximum size. A store
that several machines share gets a copy in chunks shortly afterwards. Retention deletes both.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from detent import private_files
from detent.errors import Invalid
from detent.store.blobs import Piece
from detent.store.port import Store

FILE = "output.log"
#: The maximum number of bytes in one response.
MAX_BYTES = 262_144
#: The number of runs in one page of sizes.
MAX_RUNS = 1_000


def output_file(data_dir: Path, run_id: str) -> Path:
    """The path of a run's output file."""
    return data_dir / "runs" / run_id / FILE


def read_output(store: Store, data_dir: Path, run_id: str, offset: int) -> bytes:
    """A part of the output from a byte offset; an incomplete character at its end is left out."""
    if offset < 0:
        raise Invalid(f"offset must be 0 or more, not {offset}.", field="offset", given=offset)
    data = read_bytes(store, data_dir, run_id, offset, MAX_BYTES)
    return data[: len(data) - _cut(data)]


def read_bytes(store: Store, data_dir: Path, run_id: str, offset: int, limit: int) -> bytes:
    """At most `limit` bytes of a run's output from an offset; empty after its end."""
    if store.outputs is not None:
        return store.outputs.read(run_id, offset, limit)
    return read_file(output_file(data_dir, run_id), offset, limit)


def append_output(store: Store, data_dir: Path, run_id: str, offset: int, data: bytes) -> None:
    """Store output that was imported, in the place from which it is read."""
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


def output_sizes(store: Store, data_dir: Path) -> Iterator[Sequence[tuple[str, int]]]:
    """The ids of all runs that have output and its bytes, in pages."""
    if store.outputs is None:
        yield from _file_sizes(data_dir / "runs")
        return
    after = ""
    while page := store.outputs.sizes(after, MAX_RUNS):
        yield page
        after = page[-1][0]


def _file_sizes(runs: Path) -> Iterator[Sequence[tuple[str, int]]]:
    directories = list(runs.iterdir()) if runs.is_dir() else []
    for first in range(0, len(directories), MAX_RUNS):
        page = directories[first : first + MAX_RUNS]
        yield [(each.name, _size(each / FILE)) for each in page]


def _size(path: Path) -> int:
    try:
        return path.stat(follow_symlinks=False).st_size
    except OSError:  # no output, or deleted meanwhile
        return 0


def read_file(path: Path, offset: int, limit: int) -> bytes:
    """Read a part of a file without following links: the run's program can write beside it."""
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
    """The number of bytes at the end that belong to an incomplete character."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if needs > back else 0
        if byte < 0x80:
            return 0
    return 0
