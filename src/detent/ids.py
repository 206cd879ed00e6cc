"""Identifiers: UUIDv7 in Crockford's base 32, 26 characters, rising in time and within one process."""

import os
import re
import threading
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

#: What a caller's own id may look like. The last part keeps it apart from ids that detent derives.
OWN_ID = re.compile(r"(?!.*-[jr]\d+$)[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")

_lock = threading.Lock()
_last = 0


def new_id() -> str:
    """A new identifier, greater than every one that this process made before."""
    global _last
    made = _uuid7(time.time_ns() // 1_000_000)
    with _lock:
        _last = made = max(made, _last + 1)
    return "".join(ALPHABET[(made >> shift) & 31] for shift in range(125, -1, -5))


def _uuid7(now_ms: int) -> int:
    random = int.from_bytes(os.urandom(10), "big")
    high = (now_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | (random >> 62 & 0xFFF) << 64
    return high | 0b10 << 62 | random & (1 << 62) - 1
