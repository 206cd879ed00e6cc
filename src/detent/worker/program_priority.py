"""Lowers the CPU priority of programs that the worker starts, so that the gateway answers first.

Linux schedules sessions as groups where autogroups are enabled: each of twenty agents then has the
same share of the CPU as the process that serves the gateway, whatever their nice values are. The
group of a program's session has a nice value of its own, in `/proc/PID/autogroup`.
"""

import errno
import os
from contextlib import suppress
from pathlib import Path

#: The lowest priority that Linux has.
LOWEST = 19
#: How often the priority of the processes is set. A call misses a process that is being forked:
#: it has its parent's earlier value, and is not yet a member of the group.
CALLS = 2
REPEAT_S = 0.1
PROC = Path("/proc")


class ProgramPriority:
    """The priority of one program, which was started as the leader of a process group."""

    def __init__(self, pid: int, nice: int) -> None:
        self.pid, self.nice = pid, nice
        self._calls_left = CALLS if nice else 0
        self._session_is_set = False

    @property
    def is_set(self) -> bool:
        """Whether no further call is needed."""
        return not self._calls_left

    def lower(self) -> None:
        """Lower it relative to this process; repeat after `REPEAT_S` until `is_set`.

        A user other than root may change one autogroup of the machine in a tenth of a second.
        """
        if self.is_set:
            return
        own = os.getpriority(os.PRIO_PROCESS, 0)
        with suppress(OSError):  # the program has ended
            os.setpriority(os.PRIO_PGRP, self.pid, min(LOWEST, own + self.nice))
        self._session_is_set = self._session_is_set or self._lower_session()
        if self._session_is_set:
            self._calls_left -= 1

    def _lower_session(self) -> bool:
        """Lower the group of its session, if it has one; False if that must be repeated."""
        try:
            if os.getsid(self.pid) == self.pid:
                (PROC / str(self.pid) / "autogroup").write_text(str(self.nice))
        except OSError as error:  # there are no autogroups here, or the program has ended
            return error.errno != errno.EAGAIN
        return True
