"""Ids: UUIDv7 in Crockford's base 32, increasing with time and within one process."""

import os
import random
import re
import threading
import time

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

#: The form of an id that a caller chooses. It cannot end like an id that detent derives.
OWN_ID = re.compile(r"(?!.*-[jr]\d+$)[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")

# Every job needs an id, so this is optimised: two letters are looked up at a time, and the upper
# ones, which hold the time, are encoded again only when they change.
PAIRS = tuple(high + low for high in ALPHABET for low in ALPHABET)
LOW_BITS = 40
LOW_SHIFTS = range(LOW_BITS - 10, -1, -10)
MAX_STEP_BITS = 20


class _Ids:
    """Creates the ids of one process: later ids are greater, also within a millisecond."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Start with a new random state, also in a forked process."""
        # Ids must be unique, not secret: a generator that the system has seeded is enough.
        self.random = random.Random()
        self.now_ms, self.last, self.upper, self.upper_text = 0, 0, -1, ""

    def new(self) -> str:
        with self.lock:
            now_ms = time.time_ns() // 1_000_000
            if now_ms > self.now_ms:
                self.now_ms = now_ms
                self.last = max(_uuid7(now_ms, self.random.getrandbits(74)), self.last + 1)
            else:
                self.last += 1 + self.random.getrandbits(MAX_STEP_BITS)
            made = self.last
            if made >> LOW_BITS != self.upper:
                self.upper = made >> LOW_BITS
                self.upper_text = _encoded(self.upper, (128 - LOW_BITS) // 5 + 1)
            upper = self.upper_text
        low = made & (1 << LOW_BITS) - 1
        return upper + "".join([PAIRS[low >> shift & 1023] for shift in LOW_SHIFTS])


def _uuid7(now_ms: int, noise: int) -> int:
    high = (now_ms & (1 << 48) - 1) << 80 | 0x7 << 76 | (noise >> 62) << 64
    return high | 0b10 << 62 | noise & (1 << 62) - 1


def _encoded(number: int, letters: int) -> str:
    return "".join(ALPHABET[number >> 5 * place & 31] for place in range(letters - 1, -1, -1))


_ids = _Ids()
os.register_at_fork(after_in_child=_ids.begin)
new_id = _ids.new
