"""Fires due timers: expired leases, ended waits and pauses, and exceeded time limits."""

from detent.engine import due_timers
from detent.operations.context import Core

MAX_ROWS = 500


def run(core: Core) -> int:
    """Fire at most `MAX_ROWS` timers. Claims also fire those that they find."""
    moved = core.engine.transaction(lambda tx: due_timers.run(tx, MAX_ROWS, core.engine.lifetimes))
    return moved + core.engine.expire_pauses()
