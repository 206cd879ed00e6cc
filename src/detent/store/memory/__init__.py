"""The reference implementation of the store's port: dicts and one lock, nothing on disk."""

from detent.store.memory.store import Database, MemoryStore

__all__ = ["Database", "MemoryStore"]
