"""Keeping what runs leave: their output where other machines read it, and their summaries.

One thread for a worker. Output waits for a moment, so that many small writes become one; all of it
has been sent before the end of its run is reported. The run's own file is the buffer.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from detent.errors import DetentError
from detent.operations import summaries
from detent.store.blobs import Piece
from detent.store.port import Store
from detent.worker.run_files import RunFiles

log = logging.getLogger("detent.worker")

#: How long output waits for more of it.
GATHER_S = 0.25
#: The most in one row, and in one transaction.
PIECE_BYTES = 131_072
MAX_PIECES = 32
#: A run that is not known to have ended by then gets its summary from the keeper.
SUMMARY_WITHIN_S = 60.0


class Keeping:
    """Runs that have written something since the last look, and runs that have just ended."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._dirty: dict[str, RunFiles] = {}
        self._ended: dict[str, tuple[RunFiles, float]] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        #: Two who send the same bytes would disagree about where pieces begin.
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="detent-keeping", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send what is left and write the summaries that can be written, then end."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    # -- what runs say ---------------------------------------------------------------------

    @property
    def on_output(self) -> Callable[[RunFiles], None] | None:
        """What a run calls after it has written; nothing where its file is read itself."""
        return None if self.store.outputs is None else self._wrote

    def _wrote(self, files: RunFiles) -> None:
        self._dirty[files.run_id] = files
        self._wake.set()

    def must_send(self, files: RunFiles) -> bool:
        """Whether its end would be told before all of its output."""
        return self.store.outputs is not None and files.sent < files.written

    def ended(self, files: RunFiles) -> None:
        """The end of a run is about to be reported: its output goes first."""
        if self.must_send(files):
            self._send([files])
        if files.made:
            self._ended[files.run_id] = (files, time.monotonic() + SUMMARY_WITHIN_S)
            self._wake.set()

    # -- the thread ------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._wake.wait()
            self._wake.clear()
            self._stopping.wait(GATHER_S)
            self._pass()
            if self._ended or self._dirty:
                self._wake.set()
        self._pass()

    def _pass(self) -> None:
        try:
            written = [self._dirty.pop(run_id) for run_id in list(self._dirty)]
            self._send(written)
            self._summarise()
        except Exception:  # whatever it was, later runs are kept
            log.exception("what runs have left could not be kept")

    def _send(self, written: Iterable[RunFiles]) -> None:
        with self._sending:
            for files in written:
                try:
                    self._send_all(files)
                except DetentError as error:
                    log.warning("output of run %s cannot be sent now: %s", files.run_id, error)
                    self._dirty.setdefault(files.run_id, files)

    def _send_all(self, files: RunFiles) -> None:
        outputs = self.store.outputs
        while outputs is not None and files.sent < files.written:
            pieces, offset = [], files.sent
            data = files.unsent(PIECE_BYTES * MAX_PIECES)
            for at in range(0, len(data), PIECE_BYTES):
                pieces.append(Piece(files.run_id, offset + at, data[at : at + PIECE_BYTES]))
            if not pieces:  # the run's own program has taken its file away
                files.sent = files.written
                return
            outputs.append(pieces)
            files.sent = offset + len(data)

    def _summarise(self) -> None:
        """Of those whose end is in the store by now; the others are looked at again."""
        waiting = dict(self._ended)
        if not waiting:
            return
        try:
            with self.store.read() as view:
                found = summaries.documents(view, list(waiting))
        except DetentError as error:
            log.warning("summaries of runs cannot be made now: %s", error)
            return
        for run_id, (files, until_s) in waiting.items():
            if run_id in found:
                summaries.write(files.directory(), found[run_id])
            elif time.monotonic() < until_s:
                continue
            self._ended.pop(run_id, None)
