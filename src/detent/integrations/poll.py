"""Waiting for a condition by reading repeatedly, for requests that return when work has ended."""

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

#: The pauses between two reads: each is twice as long as the one before it.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


async def poll(
    read: Callable[[], Awaitable[T]],
    ended: Callable[[T], bool],
    stopping: anyio.Event,
    timeout_s: float,
) -> T:
    """What is read last: when the condition holds, the time is over, or the server stops."""
    until_s = time.monotonic() + timeout_s
    pause_s = FIRST_PAUSE_S
    while True:
        found = await read()
        left_s = until_s - time.monotonic()
        if ended(found) or left_s <= 0 or stopping.is_set():
            return found
        with anyio.move_on_after(min(pause_s, left_s)):
            await stopping.wait()
        pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
