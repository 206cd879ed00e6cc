"""What was really done, outside the store: a file for each job, as a fenced service would keep it.

A caller with a higher fence shuts out all lower ones; that is what `run.fence` is for.
Touches one directory.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

#: Names the directory to the processes that work.
VARIABLE = "DETENT_FAULTS_EFFECTS"

DO, PAST = "do", "past"


class Shut(Exception):
    """A later claim has been here: this one must not act any more."""


class Line(NamedTuple):
    """`do`: something was done. `past`: the handler went on with its recorded result."""

    word: str
    name: str
    fence: int
    pid: int


class EffectRecord:
    """Marks by job; each call is one atomic look and write."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        #: While this file is there, work that looks for it does not come to its end.
        self.hold = directory.with_name("hold")
        directory.mkdir(parents=True, exist_ok=True)

    def do(self, job_id: str, name: str, fence: int) -> None:
        """Do something for a job; refused if a later claim has been here."""
        self._add(job_id, DO, name, fence)

    def past(self, job_id: str, name: str, fence: int) -> None:
        self._add(job_id, PAST, name, fence)

    def has_done(self, job_id: str, name: str, fence: int) -> bool:
        """Whether it was done; from here on no caller with a lower fence can do it."""
        with self._open(job_id) as (file, lines):
            _shut_out(lines, fence)
            _write(file, Line("look", name, fence, os.getpid()))
            return any((each.word, each.name) == (DO, name) for each in lines)

    def lines(self, job_id: str) -> list[Line]:
        path = self.directory / job_id
        return _read(path.read_text()) if path.exists() else []

    def size(self) -> int:
        """How many lines there are in all, also while others write."""
        return sum(path.read_bytes().count(b"\n") for path in self.directory.iterdir())

    def jobs(self) -> list[str]:
        return sorted(path.name for path in self.directory.iterdir())

    def _add(self, job_id: str, word: str, name: str, fence: int) -> None:
        with self._open(job_id) as (file, lines):
            _shut_out(lines, fence)
            _write(file, Line(word, name, fence, os.getpid()))

    @contextmanager
    def _open(self, job_id: str) -> Iterator[tuple[int, list[Line]]]:
        file = os.open(self.directory / job_id, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield file, _read(os.pread(file, os.fstat(file).st_size, 0).decode())
        finally:
            os.close(file)


def from_environment() -> EffectRecord:
    """The record of effects of this process."""
    return EffectRecord(Path(os.environ[VARIABLE]))


def _shut_out(lines: list[Line], fence: int) -> None:
    highest = max((each.fence for each in lines), default=0)
    if fence < highest:
        raise Shut(f"fence {fence} comes after {highest}")


def _read(text: str) -> list[Line]:
    words = (line.split() for line in text.splitlines())
    return [Line(word, name, int(fence), int(pid)) for word, name, fence, pid in words]


def _write(file: int, line: Line) -> None:
    os.write(file, (" ".join(map(str, line)) + "\n").encode())
