"""Files and directories that only their owner can read, independent of the umask."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

MODE = 0o600


def write_text(path: Path, text: str) -> None:
    """Write or overwrite a file with mode 0600; symbolic links are not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, MODE), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), MODE)
        file.write(text)


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Write a file with mode 0600 that replaces `path` when the block ends without an exception.

    Readers find the old text or the new one. The draft has a random name beside `path`, so that
    several processes can do this at the same time, and no other program can place a link there.
    """
    draft = path.with_name(f".{path.name}.{os.urandom(8).hex()}.new")
    try:
        with os.fdopen(_create(draft), "w", encoding="utf-8") as file:
            yield file
        draft.replace(path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def create(path: Path) -> None:
    """Create an empty file with mode 0600; raises FileExistsError if it exists."""
    os.close(_create(path))


def _create(path: Path) -> int:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, MODE)
    os.fchmod(descriptor, MODE)
    return descriptor


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents with mode 0700."""
    for each in reversed([each for each in (path, *path.parents) if not each.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
