"""The times of a run's output: when the worker has written which part of it.

A second file beside the output has records of an offset and a time. A store that several machines
share has them under the id of the run, at offsets below those of the output, so that both are
deleted together. They are not trusted: the run's program could change the file.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path

from detent.operations.run_output import output_file, read_file
from detent.store.port import Store

FILE = "output.times"
#: Where the times of a run begin in a shared store.
SHARED_START = -(1 << 40)
#: An offset in the output and the time in microseconds, from which the output was written then.
RECORD = struct.Struct("<qq")
#: Later times are ignored as invalid: the beginning of the year 9000.
LATEST = 221_845_392_000_000_000
#: There are no two records within this time, so that large outputs have few.
INTERVAL_S = 0.5
#: The most bytes of records that are read: the times of 36 hours of uninterrupted output.
MAX_BYTES = 4_194_304


class OutputTimes:
    """The times of the output of one run."""

    def __init__(self, data: bytes) -> None:
        whole = len(data) - len(data) % RECORD.size
        read = RECORD.iter_unpack(data[:whole])
        records = sorted((offset, at) for offset, at in read if 0 <= at < LATEST)
        self._offsets = [offset for offset, _ in records]
        self._times = [at for _, at in records]

    def at(self, offset: int) -> int | None:
        """When the byte at an offset was written, in microseconds; None if that is not known."""
        found = bisect_right(self._offsets, offset)
        return self._times[found - 1] if found else None

    def of_lines(self, data: bytes, offset: int) -> Iterator[tuple[int, int]]:
        """When the lines of a part of the output at an offset were begun.

        A pair has the number of a line of the part, counted from 0, and the time of this line and
        of those after it, up to the line of the next pair.
        """
        first = self.at(offset)
        if first is not None:
            yield 0, first
        line, counted = 0, 0
        for record in range(bisect_right(self._offsets, offset), len(self._offsets)):
            place = self._offsets[record] - offset
            if place >= len(data):
                return
            line, counted = line + data.count(b"\n", counted, place), place
            within = data[place - 1 : place] != b"\n"
            yield line + within, self._times[record]


def read_times(store: Store, data_dir: Path, run_id: str) -> OutputTimes:
    """The times of a run's output."""
    if store.outputs is not None:
        return OutputTimes(store.outputs.read(run_id, SHARED_START, MAX_BYTES))
    return OutputTimes(read_file(output_file(data_dir, run_id).with_name(FILE), 0, MAX_BYTES))
