"""Shows long output in a pager on a terminal: $PAGER, or less."""

import os
import shlex
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from detent.cli import output

#: For less: exit if the text fits on the screen, print colours, leave the text on the screen.
LESS = "FRX"
NO_PAGER = ("", "cat")


def show(lines: Iterable[output.Styled]) -> None:
    """Show the lines in a pager if stdout is a terminal; else print them."""
    command = shlex.split(os.environ.get("PAGER", "less"))
    if not output.is_terminal() or " ".join(command) in NO_PAGER:
        _print(lines)
        return
    shown = list(lines)
    text = "".join(f"{output.line_text(line)}\n" for line in shown)
    environment = {"LESS": LESS, "LESSCHARSET": "utf-8", **os.environ}
    try:
        with interrupts_ignored():
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)
            with suppress(BrokenPipeError):  # the person has closed the pager
                process.communicate(text.encode("utf-8", "replace"))
    except OSError:
        output.print_note(f"The pager {command[0]} could not be started. Set PAGER to another one.")
        _print(shown)


def _print(lines: Iterable[output.Styled]) -> None:
    for line in lines:
        output.print_line(line)


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore Ctrl-C and the end of the terminal in this process while a child process has it.

    A handler is set instead of SIG_IGN, so that the child does not inherit it.
    """
    signals = (signal.SIGINT, signal.SIGHUP)
    before = {each: signal.signal(each, _ignore) for each in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ignore(_: int, __: FrameType | None) -> None:
    pass
