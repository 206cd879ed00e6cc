"""Identifiers: UUIDv7 in Crockford's base 32, rising in time and within one process."""

import os
import random
import re
import threading
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
#: Two letters at a time: an id is made for every job.
PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
SHIFTS = range(40, -1, -10)

#: What a caller's own id may look like. The last part keeps it apart from ids that detent derives.
OWN_ID = re.compile(r"(?!.*-[jr]\d+$)[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")

_lock = threading.Lock()
_last = 0
# Ids must differ, not be secret: a generator seeded by the system is enough, anew in each process.
_random = random.Random()
os.register_at_fork(after_in_child=_random.seed)


def new_id() -> str:
    """A new identifier, greater than every one that this process made before."""
    global _last
    made = _uuid7(time.time_ns() // 1_000_000, _random.getrandbits(74))
    with _lock:
        _last = made = max(made, _last + 1)
    return "".join([PAIRS[part >> shift & 1023] for part in _parts(made) for shift in SHIFTS])[4:]


def _parts(made: int) -> tuple[int, int, int]:
    """Fifty bits each: small numbers are shifted much faster than one of 128 bits."""
    return made >> 100, made >> 50 & (1 << 50) - 1, made & (1 << 50) - 1


def _uuid7(now_ms: int, noise: int) -> int:
    high = (now_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | (noise >> 62) << 64
    return high | 0b10 << 62 | noise & (1 << 62) - 1
