"""Processes of runs: a group with everything that it started, how it is ended, and orphans.

A process is identified by its id and its start time, because ids are reused. Descendants
that left the group are found by the variable DETENT_RUN_ID, which they inherit.
"""

import contextlib
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from detent import private_files

MARK = "DETENT_RUN_ID"
#: How often it is checked whether a terminated group has ended.
POLL_S = 0.02
#: How long killed processes may take to be gone; the kernel is not slower.
KILL_S = 5.0


def start_ticks(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is none, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Group:
    """The process group of a command."""

    def __init__(self, run_id: str, pid: int | None = None, started: int | None = None) -> None:
        self.run_id = run_id
        #: None until it was started, or if its worker died before it could write this down.
        self.pid, self.started = pid, started

    def leads(self, pid: int) -> None:
        """The process that was started."""
        self.pid, self.started = pid, start_ticks(pid)

    def members(self) -> list[psutil.Process]:
        """Everything that lives of it: the group, and what carries the run's mark."""
        return [each for each in psutil.process_iter() if self._is_member(each)]

    def _is_member(self, process: psutil.Process) -> bool:
        if process.pid == os.getpid() or start_ticks(process.pid) is None:
            return False
        with contextlib.suppress(OSError, psutil.Error):
            if os.getpgid(process.pid) == self.pid and self._is_ours():
                return True
            return process.environ().get(MARK) == self.run_id
        return False

    def _is_ours(self) -> bool:
        """The id still means our process, or nothing leads the group any more."""
        return self.pid is not None and start_ticks(self.pid) in (self.started, None)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to every process that is left, until none is."""
        until_s = time.monotonic() + KILL_S
        if self._is_ours() and self.pid is not None:
            # All of the group in one step: processes that fork faster than they are listed end too.
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
        while self._signal(signal.SIGKILL) and time.monotonic() < until_s:
            time.sleep(POLL_S)

    def end(self, grace_s: float) -> None:
        """Ask, wait as long as the grace lasts, then kill."""
        until_s = time.monotonic() + grace_s
        if not self._signal(signal.SIGTERM):
            return
        while self.members() and time.monotonic() < until_s:
            time.sleep(POLL_S)
        self.kill()

    def _signal(self, number: signal.Signals) -> int:
        members = self.members()
        for process in members:
            with contextlib.suppress(OSError, psutil.Error):
                process.send_signal(number)
        return len(members)


class Records:
    """Which processes run for which worker on this machine, on disk: one small file for each."""

    def __init__(self, data_dir: Path) -> None:
        self.directory = data_dir / "processes"

    def write(self, group: Group) -> None:
        """Once before it is started, and once with its id: no moment is without a record."""
        private_files.make_directory(self.directory)
        worker = os.getpid()
        record = {
            "run_id": group.run_id,
            "pid": group.pid,
            "started": group.started,
            "worker": worker,
            "worker_started": start_ticks(worker),
            "machine": _machine(),
            "boot": _boot(),
        }
        draft = self.directory / f".{group.run_id}.part"
        private_files.write_text(draft, json.dumps(record))
        draft.replace(self._path(group.run_id))

    def remove(self, group: Group) -> None:
        self._path(group.run_id).unlink(missing_ok=True)

    def _path(self, run_id: str) -> Path:
        return self.directory / f"{run_id}.json"

    def orphans(self) -> Iterator[Group]:
        """Groups whose worker is gone."""
        for path in sorted(self.directory.glob("*.json")):
            record = _read(path)
            if record is None or record["machine"] != _machine():
                continue  # another machine or container on a shared directory: not ours to judge
            if record["boot"] != _boot():
                path.unlink(missing_ok=True)  # no process outlives its machine
            elif start_ticks(record["worker"]) != record["worker_started"]:
                yield Group(record["run_id"], record["pid"], record["started"])

    def end_orphans(self, grace_s: float) -> list[str]:
        """End them; the runs whose processes were still there."""
        ended = []
        for group in self.orphans():
            if group.members():
                ended.append(group.run_id)
                group.end(grace_s)
            self.remove(group)
        return ended


def _read(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return json.loads(path.read_text())
    return None


def _machine() -> list[str]:
    """Where process ids mean what they mean here."""
    return [socket.gethostname(), str(Path("/proc/self/ns/pid").readlink())]


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
