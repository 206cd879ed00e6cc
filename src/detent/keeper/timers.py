"""Fires due timers: expired leases, ended waits and exceeded time limits."""

from detent.engine import due_timers
from detent.operations.context import Core

MAX_ROWS = 500


def run(core: Core) -> int:
    """Fire at most `MAX_ROWS` timers. Claims also fire those that they find."""
    return core.engine.within(lambda tx: due_timers.run(tx, MAX_ROWS, core.engine.lifetimes))
