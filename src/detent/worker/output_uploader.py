"""The output uploader: a thread that copies the output of runs to the store, and writes summaries.

Output waits for a moment, so that many small writes become one. All output of a run is sent before
the end of the run is reported. The run's own file is the buffer.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable

from detent.errors import DetentError
from detent.failure_log import FailureLog
from detent.operations import summaries
from detent.operations.output_times import SHARED_START
from detent.store.blobs import Piece
from detent.store.port import Store
from detent.worker.run_files import RunFiles

log = logging.getLogger("detent.worker")

#: How long output waits, so that several writes are sent together.
DELAY_S = 0.25
#: The largest piece in one row, and the largest number of pieces in one transaction.
PIECE_BYTES = 131_072
MAX_PIECES = 32
#: If the end of a run is not committed by then, the keeper writes its summary.
SUMMARY_WITHIN_S = 60.0


class OutputUploader:
    """Uploads the output of runs that have written something or have just ended."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._sends = FailureLog(
            log, "output of runs is sent later", "output of runs is sent again", DELAY_S
        )
        self._summaries = FailureLog(
            log,
            "summaries of runs are written later",
            "summaries of runs are written again",
            DELAY_S,
        )
        self._dirty: dict[str, RunFiles] = {}
        self._ended: dict[str, tuple[RunFiles, float]] = {}
        self._wake = threading.Event()
        self._stopping = threading.Event()
        #: Held while output is sent: two threads must not send the same bytes.
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._loop, name="detent-uploader", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send what is left and write the summaries that can be written, then end."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    # -- called by runs ---------------------------------------------------------------------

    @property
    def on_output(self) -> Callable[[RunFiles], None] | None:
        """The callback for output of runs; None if readers read the run's file itself."""
        return None if self.store.outputs is None else self._wrote

    def _wrote(self, files: RunFiles) -> None:
        self._dirty[files.run_id] = files
        self._wake.set()

    def must_send(self, files: RunFiles) -> bool:
        """Whether some of the run's output is not sent yet."""
        return self.store.outputs is not None and files.sent < files.written

    def ended(self, files: RunFiles) -> None:
        """Send the rest of a run's output: its end is about to be reported."""
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
            self._stopping.wait(max(self._sends.pause_s, self._summaries.pause_s))
            self._pass()
            if self._ended or self._dirty:
                self._wake.set()
        self._pass()

    def _pass(self) -> None:
        try:
            written = [self._dirty.pop(run_id) for run_id in list(self._dirty)]
            self._send(written)
            self._summarise()
        except Exception:  # later runs must still be uploaded
            log.exception("internal error while output of runs was uploaded")

    def _send(self, written: Iterable[RunFiles]) -> None:
        with self._sending:
            failure: DetentError | None = None
            sent = False
            for files in written:
                try:
                    self._send_all(files)
                    sent = True
                except DetentError as error:
                    failure = error
                    self._dirty.setdefault(files.run_id, files)
            if failure is not None:
                self._sends.failed(failure)
            elif sent:
                self._sends.worked()

    def _send_all(self, files: RunFiles) -> None:
        outputs = self.store.outputs
        while outputs is not None and files.sent < files.written:
            pieces, offset = [], files.sent
            data = files.unsent(PIECE_BYTES * MAX_PIECES)
            for at in range(0, len(data), PIECE_BYTES):
                pieces.append(Piece(files.run_id, offset + at, data[at : at + PIECE_BYTES]))
            if not pieces:  # the run's program has removed the file
                files.sent = files.written
                return
            times = files.unsent_times(PIECE_BYTES)
            if times:
                pieces.append(Piece(files.run_id, SHARED_START + files.times_sent, times))
            outputs.append(pieces)
            files.sent = offset + len(data)
            files.times_sent += len(times)

    def _summarise(self) -> None:
        """Write the summaries of runs whose end is committed; check the others again later."""
        waiting = dict(self._ended)
        if not waiting:
            return
        try:
            with self.store.read() as view:
                found = summaries.documents(view, list(waiting))
        except DetentError as error:
            self._summaries.failed(error)
            return
        self._summaries.worked()
        for run_id, (files, until_s) in waiting.items():
            if run_id in found:
                summaries.write(files.directory(), found[run_id])
            elif time.monotonic() < until_s:
                continue
            self._ended.pop(run_id, None)
