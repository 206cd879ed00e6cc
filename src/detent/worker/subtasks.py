"""Subtasks of a run: how one is known, and what became of it."""

import hashlib
from typing import Any, NamedTuple

from detent.ids import ALPHABET


class Subtask(NamedTuple):
    """A subtask that a run has made; `signal` is what tells its end."""

    name: str
    id: str
    signal: str
    returns: Any = Any


class SubtaskOutcome(NamedTuple):
    """What became of a subtask."""

    state: str
    result: Any
    error: str | None

    @property
    def succeeded(self) -> bool:
        return self.state in ("completed", "done")


def derived_id(job_id: str, name: str) -> str:
    """An id that follows from the job and a name in it."""
    number = int.from_bytes(hashlib.sha256(f"{job_id}/{name}".encode()).digest()[:17], "big")
    return "".join(ALPHABET[(number >> shift) & 31] for shift in range(125, -1, -5))
