"""A directory for what need not outlive the test: in memory, where the machine has such a place."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHARED = Path("/dev/shm")
#: The place, or None where the machine has none: then it is where temporary files are.
MEMORY = _SHARED if _SHARED.is_dir() else None


@contextmanager
def directory_in_memory(prefix: str) -> Iterator[Path]:
    """Every setting stays as it is in production, and waiting for a disk costs nothing.

    What a disk keeps after a loss of power is tried elsewhere.
    """
    with tempfile.TemporaryDirectory(prefix=prefix, dir=MEMORY) as made:
        yield Path(made)
