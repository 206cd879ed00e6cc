"""The output of a task on a node: everything that its process and its children print.

The file descriptors 1 and 2 are a pipe while the function runs. A thread sends what is in the pipe,
one piece after the other, so that a task which prints faster than detent reads it waits.
"""

import os
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PIECE_BYTES = 262_144
#: Takes output, and whether it is the last because the rest is discarded.
SendOutput = Callable[[bytes, bool], Any]
#: How long the thread waits for output of children after the function has returned.
LATE_S = 0.5


class TaskOutput:
    """Sends the output of the code in the `with` block, up to a limit."""

    def __init__(self, send: SendOutput, limit: int) -> None:
        self.send, self.left = send, limit
        self.is_cut = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._forward, name="detent-output", daemon=True)

    def __enter__(self) -> "TaskOutput":
        self._streams = (sys.stdout, sys.stderr)
        _flush(*self._streams)
        self._saved = [os.dup(1), os.dup(2)]
        self._read, write = os.pipe()
        os.dup2(write, 1)
        os.dup2(write, 2)
        text = os.fdopen(write, "w", buffering=1, encoding="utf-8", errors="replace")
        sys.stdout = sys.stderr = text
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        text = sys.stdout
        sys.stdout, sys.stderr = self._streams
        _flush(text)
        for number, saved in zip((1, 2), self._saved, strict=True):
            os.dup2(saved, number)
            os.close(saved)
        with suppress(OSError, ValueError):
            text.close()
        self._over.set()
        self._thread.join()
        os.close(self._read)

    def _forward(self) -> None:
        """Send until the pipe is closed, or is empty and the function has returned."""
        while True:
            over = self._over.is_set()
            ready, _, _ = select.select([self._read], [], [], LATE_S)
            if ready:
                piece = os.read(self._read, PIECE_BYTES)
                if not piece:
                    return
                self._send(piece)
            elif over:
                return

    def _send(self, piece: bytes) -> None:
        """Send a piece; discard what is over the limit, or comes after a failure to send.

        The pipe must be read in any case: a function that prints to a full one waits.
        """
        if self.is_cut:
            return
        kept = piece[: self.left]
        self.left -= len(kept)
        self.is_cut = len(kept) < len(piece)
        try:
            self.send(kept, self.is_cut)
        except Exception:  # not logged: what is logged here goes to the pipe
            self.is_cut = True


def _flush(*streams: Any) -> None:
    for stream in streams:
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
