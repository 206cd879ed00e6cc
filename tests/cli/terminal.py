"""Programs on a terminal: what they have drawn, and a dialogue with one."""

import os
import pty
import select
import time
from collections.abc import Mapping, Sequence

DEADLINE_S = 60.0


def drawn_on(ours: int, theirs: int) -> str:
    """Everything; to be asked when the program has ended. Closes both ends."""
    os.close(theirs)
    drawn = b""
    try:
        while piece := os.read(ours, 65_536):
            drawn += piece
    except OSError:  # the other end is closed: this is all
        pass
    os.close(ours)
    return drawn.decode()


class Terminal:
    """A program whose only terminal is ours: what is typed, and what it shows."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], list(argv), dict(environment))
        self._rest = b""

    def types(self, text: str, until: str = "") -> str:
        """Type, and wait until the terminal shows this; what it has shown up to there."""
        os.write(self.fd, text.encode())
        return self.shows(until) if until else ""

    def shows(self, until: str) -> str:
        """Wait until the terminal shows this; what it has shown up to there."""
        wanted, end_s = until.encode(), time.monotonic() + DEADLINE_S
        while wanted not in self._rest:
            assert time.monotonic() < end_s, self._rest
            if select.select([self.fd], [], [], 1.0)[0]:
                self._rest += os.read(self.fd, 4_096)
        before, found, self._rest = self._rest.partition(wanted)
        return (before + found).decode().replace("\r\n", "\n")

    def interrupt(self) -> tuple[int, str]:
        """Type Ctrl-C until the program has ended; then as `end`.

        Python does not notice a signal that comes just before it waits for a line, until the next
        one.
        """
        try:
            while True:
                os.write(self.fd, b"\x03")
                while select.select([self.fd], [], [], 1.0)[0]:
                    self._rest += os.read(self.fd, 65_536)
        except OSError:  # the program has ended
            return self.end()

    def end(self) -> tuple[int, str]:
        """Wait until the program has ended; its exit code, and what it has shown at last."""
        shown = self._rest
        try:
            while piece := os.read(self.fd, 65_536):
                shown += piece
        except OSError:  # the program has ended
            pass
        os.close(self.fd)
        status = os.waitpid(self.pid, 0)[1]
        return os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n")
