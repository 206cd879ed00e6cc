"""Advisory locks for names without a row, as pairs of numbers. Builds statements and sends nothing.

The order in which a writer takes locks is the same everywhere, so that no two wait for each
other: tables of named rows, rows of roots, idempotency keys, limits, resources, streams without a
row, leases.
A transaction that takes a lock out of this order does not wait for it.
"""

from collections.abc import Iterable
from enum import IntEnum
from zlib import crc32

from detent.store.codec import to_json
from detent.store.postgres.connection import Query
from detent.store.postgres.reader import READY

#: The maximum number of locks for a set of names: the server's table of locks is small.
NUMBERS = 4_096


class Lock(IntEnum):
    """The first of the two numbers: "dtnt" and the numbers after it."""

    #: Also in the function `sequence_commits`.
    SEQUENCER = 0x64746E74
    KEYS = 0x64746E75
    LIMITS = 0x64746E76
    RESOURCES = 0x64746E77
    SCHEMA = 0x64746E78
    ARRIVALS = 0x64746E79
    OUTBOX = 0x64746E7A
    NAMED = 0x64746E7B
    CHAIN_BLOCKS = 0x64746E7C
    STREAMS = 0x64746E7D


def lock_names(kind: Lock, names: Iterable[str]) -> Query:
    """Lock each of the names exclusively, in the order of their numbers."""
    return READY["lock_numbers"](kind=kind, numbers=_numbers(names))


def share_names(kind: Lock, names: Iterable[str]) -> Query:
    """Lock each of the names in shared mode."""
    return READY["share_numbers"](kind=kind, numbers=_numbers(names))


def _numbers(names: Iterable[str]) -> str:
    return to_json(sorted({crc32(name.encode()) % NUMBERS for name in names}))
