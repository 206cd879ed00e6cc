"""What processes use, read from /proc: all processes of the machine in one pass.

A run's processes are those of its session, and the descendants of its first process. Programs that
leave both (a daemon outside the sandbox) are not counted; in the sandbox none can.
"""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
#: How long a reading of all processes is used, by all runs of the worker; a slow one longer.
MAX_AGE_S, SLOW = 0.1, 20


class ProcessRow(NamedTuple):
    """One process of the machine."""

    pid: int
    parent: int
    session: int
    #: Its own CPU time, and that of its children that have ended.
    cpu_s: float
    threads: int
    resident: int


class Usage(NamedTuple):
    """What the processes of one run use together."""

    pids: tuple[int, ...]
    cpu_s: float
    #: Processes and threads.
    tasks: int
    #: Resident bytes; memory that processes share is counted for each of them.
    resident: int


class ProcessTable:
    """The processes of the machine, read again when the last reading is too old."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stale_s = float("-inf")
        self._rows: dict[int, ProcessRow] = {}

    def usage(self, first: int) -> Usage:
        """What the first process of a run, and all that it started, use now."""
        return _sum(_members(self._current(), first))

    def usage_of(self, pids: Sequence[int]) -> Usage:
        """What these processes use now."""
        rows = self._current()
        return _sum([rows[pid] for pid in pids if pid in rows])

    def _current(self) -> dict[int, ProcessRow]:
        with self._lock:
            begun_s = time.monotonic()
            if begun_s >= self._stale_s:
                self._rows = {row.pid: row for row in _rows()}
                read_s = time.monotonic()
                self._stale_s = read_s + max(MAX_AGE_S, (read_s - begun_s) * SLOW)
            return self._rows


def _sum(own: Sequence[ProcessRow]) -> Usage:
    return Usage(
        tuple(row.pid for row in own),
        sum(row.cpu_s for row in own),
        sum(row.threads for row in own),
        sum(row.resident for row in own),
    )


def proportional_bytes(pids: tuple[int, ...]) -> int:
    """The memory of processes, with each shared page counted once among those that share it."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
            total += int(text.split("\nPss:")[1].split()[0]) * 1_024
    return total


def _rows() -> Iterator[ProcessRow]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with suppress(OSError, ValueError, IndexError):
                yield _row(int(path.name), (path / "stat").read_text("utf-8", "replace"))


def _row(pid: int, stat: str) -> ProcessRow:
    """A row from the fields of proc(5), of which the name may contain anything."""
    fields = stat.rpartition(")")[2].split()
    ticks = sum(map(int, fields[11:15]))
    return ProcessRow(
        pid,
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_s=ticks / TICKS,
        threads=int(fields[17]),
        resident=int(fields[21]) * PAGE,
    )


def _members(rows: dict[int, ProcessRow], first: int) -> list[ProcessRow]:
    """The processes of a session, and the descendants of all of them."""
    children: dict[int, list[int]] = {}
    for row in rows.values():
        children.setdefault(row.parent, []).append(row.pid)
    waiting = [row.pid for row in rows.values() if row.session == first]
    found: dict[int, ProcessRow] = {}
    while waiting:
        pid = waiting.pop()
        if pid not in found and pid in rows:
            found[pid] = rows[pid]
            waiting += children.get(pid, ())
    return list(found.values())


#: The processes of this machine, for all runs of this process.
MACHINE = ProcessTable()
