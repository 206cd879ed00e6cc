"""The one write path: commands are gathered, decided by the kernel, saved in one transaction."""

from detent.engine.batch import Lifetimes
from detent.engine.engine import Engine
from detent.engine.types import Answer, Ask, Claimed, Idempotency

__all__ = ["Answer", "Ask", "Claimed", "Engine", "Idempotency", "Lifetimes"]
