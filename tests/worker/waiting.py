"""Waiting for a condition with a deadline, and workers on real stores, for the tests of workers."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from detent.engine import Engine, Limits
from detent.operations.core import Core
from detent.settings import Settings
from detent.store.open import open_store
from detent.testing.audit import audit
from detent.worker.app import App
from detent.worker.loop import Worker

DEADLINE_S = 90.0


def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """Wait until the condition holds; what it said. Fails after the deadline."""
    end_s = time.monotonic() + DEADLINE_S
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end_s, f"{what} did not happen within {DEADLINE_S} s"
        time.sleep(0.005)


@contextmanager
def installation(
    directory: Path,
    url: str = "",
    *,
    lease_ms: int = 30_000,
    audited: bool = True,
    **settings: Any,
) -> Iterator[Core]:
    """A store with an engine, as a process would have it; without a URL an SQLite file."""
    made = Settings(
        store_url=url, store_data_dir=str(directory), worker_lease_ms=lease_ms, **settings
    )
    store = open_store(made.url)
    try:
        yield Core(store, Engine(store, Limits(lease_ms * 1_000)), made)
        if audited:
            audit(store)
    finally:
        store.close()


@contextmanager
def working(core: Core, app: App, **options: Any) -> Iterator[Worker]:
    """A worker that is stopped at the end, at once if it must be."""
    worker = Worker(core, app, **options)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop(grace_s=0)
