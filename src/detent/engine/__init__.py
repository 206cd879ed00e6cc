"""The one write path: commands are gathered, decided by the kernel, saved in one transaction."""

from detent.engine.asking import Answer, Ask, Claimed, Idempotency
from detent.engine.batch import Lifetimes
from detent.engine.engine import Engine

__all__ = ["Answer", "Ask", "Claimed", "Engine", "Idempotency", "Lifetimes"]
