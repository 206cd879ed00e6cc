"""Live output of runs: one growing file a run, read by offset. Not lifecycle, so not in the log.

The worker writes `runs/<run id>/output.log` in the data directory, capped; retention removes it.
"""

import errno
import os
from pathlib import Path

from detent.errors import Invalid

FILE = "output.log"
#: The most that one answer carries.
MOST_BYTES = 262_144


def output_file(data_dir: Path, run_id: str) -> Path:
    """Where a run's output stands."""
    return data_dir / "runs" / run_id / FILE


def read_output(data_dir: Path, run_id: str, offset: int) -> tuple[str, int]:
    """The text from a byte offset on, and the offset after it; half a character waits."""
    if offset < 0:
        raise Invalid("offset must not be negative.", field="offset", given=offset)
    try:
        # The run's own program may write beside this file: a link must not lead out of here.
        handle = os.open(output_file(data_dir, run_id), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP):
            return "", offset
        raise
    with os.fdopen(handle, "rb") as file:
        file.seek(offset)
        data = file.read(MOST_BYTES)
    whole = data[: len(data) - _cut(data)]
    return whole.decode("utf-8", "replace"), offset + len(whole)


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
