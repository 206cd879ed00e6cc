"""Positions in transcripts from which parsing can continue, for the runs that were read last.

A page of a transcript begins after an item. Without a position, the output is parsed from its
start.
"""

import threading
from bisect import bisect_right, insort
from collections import OrderedDict

from detent.transcript.transcript_parser import TranscriptParser

MAX_RUNS, MAX_POSITIONS = 32, 16


class TranscriptPositions:
    """A bounded number of positions by run. Threads share it."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, list[TranscriptParser]] = OrderedDict()
        self._lock = threading.Lock()

    def last_before(self, run_id: str, number: int) -> TranscriptParser | None:
        """A parser that continues before or after the item with this number."""
        with self._lock:
            known = self._runs.get(run_id, [])
            found = bisect_right(known, number, key=_number)
            return known[found - 1].position() if found else None

    def add(self, run_id: str, position: TranscriptParser) -> None:
        """Keep a position. If a run has too many, every second one is dropped, not the last."""
        with self._lock:
            known = self._runs.setdefault(run_id, [])
            self._runs.move_to_end(run_id)
            if all(each.offset != position.offset for each in known):
                insort(known, position, key=_number)
            if len(known) > MAX_POSITIONS:
                del known[-2::-2]
            if len(self._runs) > MAX_RUNS:
                self._runs.popitem(last=False)


def _number(position: TranscriptParser) -> int:
    return position.number
