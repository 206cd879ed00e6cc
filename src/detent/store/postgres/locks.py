"""Advisory locks for objects without a row, as pairs of numbers. Builds statements only.

Every writer takes locks in the same order, so that there are no deadlocks: tables of named rows,
rows of roots, idempotency keys, limits, resources, rows of the queue, the lock to append.
A lock out of this order is taken without waiting.
"""

from collections.abc import Iterable
from enum import IntEnum
from zlib import crc32

from detent.store.codec import to_json
from detent.store.postgres.connection import Query
from detent.store.postgres.reader import READY

#: The maximum number of locks for a set of names: the server's lock table is small.
NUMBERS = 4_096


class Lock(IntEnum):
    """The first of the two numbers: "dtnt" and the numbers after it."""

    APPEND = 0x64746E74
    KEYS = 0x64746E75
    LIMITS = 0x64746E76
    RESOURCES = 0x64746E77
    SCHEMA = 0x64746E78
    ARRIVALS = 0x64746E79
    OUTBOX = 0x64746E7A
    NAMED = 0x64746E7B
    SEALS = 0x64746E7C


def lock_names(kind: Lock, names: Iterable[str]) -> Query:
    """The statement that locks the names, in the order of their numbers."""
    numbers = sorted({crc32(name.encode()) % NUMBERS for name in names})
    return READY["lock_numbers"](kind=kind, numbers=to_json(numbers))
