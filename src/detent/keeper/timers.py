"""What time has brought: lost leases, waits that are over, limits that have passed."""

from detent.engine import due_timers
from detent.operations.context import Core

MOST = 500


def run(core: Core) -> int:
    """One bounded pass; claims do the same for what they find, so this is only a safety net."""
    return core.engine.transaction(lambda tx: due_timers.run(tx, MOST, core.engine.lifetimes))
