"""What time has brought: lost leases, waits and pauses that are over, limits that have passed."""

from detent.engine import due_timers
from detent.operations.context import Core

MAX_ROWS = 500


def run(core: Core) -> int:
    """One bounded pass; claims do the same for what they find, so this is only a safety net."""
    moved = core.engine.transaction(lambda tx: due_timers.run(tx, MAX_ROWS, core.engine.lifetimes))
    return moved + core.engine.expire_pauses()
