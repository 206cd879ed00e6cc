"""A directory for what need not outlive the test: in memory, where the machine has such a place."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

MEMORY = Path("/dev/shm")


@contextmanager
def directory_in_memory(prefix: str) -> Iterator[Path]:
    """Every setting stays as it is in earnest, and waiting for a disk costs nothing.

    What a disk keeps after a loss of power is tried elsewhere.
    """
    place = MEMORY if MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place) as made:
        yield Path(made)
