"""Files and directories that only their owner can read, independent of the umask."""

import os
from pathlib import Path

MODE = 0o600


def write_text(path: Path, text: str) -> None:
    """Write or overwrite a file with mode 0600; symbolic links are not followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, MODE), "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), MODE)
        file.write(text)


def create(path: Path) -> None:
    """Create an empty file with mode 0600; raises FileExistsError if it exists."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags, MODE)
    os.fchmod(descriptor, MODE)
    os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory and its missing parents with mode 0700."""
    for each in reversed([each for each in (path, *path.parents) if not each.exists()]):
        each.mkdir(mode=0o700, exist_ok=True)
