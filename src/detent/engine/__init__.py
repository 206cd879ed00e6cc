"""The one write path: commands are gathered into batches, decided by the kernel, and saved in one transaction."""

from detent.engine.asking import Answer, Ask, Claimed, Idempotency
from detent.engine.batch import Limits
from detent.engine.engine import Engine

__all__ = ["Answer", "Ask", "Claimed", "Engine", "Idempotency", "Limits"]
