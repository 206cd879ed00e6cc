"""The only write path: commands are batched, decided by the kernel, saved in one transaction."""

from detent.engine.batch import Lifetimes
from detent.engine.engine import Engine, PendingResults
from detent.engine.types import Claimed, CommandRequest, CommandResult, Idempotency

__all__ = [
    "Claimed",
    "CommandRequest",
    "CommandResult",
    "Engine",
    "Idempotency",
    "Lifetimes",
    "PendingResults",
]
