"""An installation to measure on: a new store of either kind, on the disk, with its settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.jobs import directory
from detent.engine import Engine
from detent.operations.core import Core
from detent.settings import Settings
from detent.store.open import open_store

STORES = ("sqlite", "postgres")


@contextmanager
def installation(kind: str) -> Iterator[Core]:
    """A core on a store of its own, as a process would have it."""
    with directory() as place:
        settings = Settings(store_url=_url(kind, place), store_data_dir=str(place))
        store = open_store(settings.url)
        try:
            yield Core(store, Engine(store), settings)
        finally:
            store.close()


def _url(kind: str, place: Path) -> str:
    if kind == "sqlite":
        return str(place / "detent.db")
    from bench.jobs_postgres import database

    return database()
