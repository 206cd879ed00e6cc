"""An installation to measure on: a new store of either kind, on the disk, with its settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.workloads.jobs import directory
from detent.operations.context import Core
from detent.service import open_core
from detent.settings import Loaded, Settings

STORES = ("sqlite", "postgres")


@contextmanager
def installation(kind: str, **settings: Any) -> Iterator[Core]:
    """A core on a store of its own, as a process would have it."""
    with directory() as place:
        known = Settings(store_url=_url(kind, place), store_data_dir=str(place), **settings)
        with open_core(Loaded(known, {}, {}, None)) as core:
            yield core


def _url(kind: str, place: Path) -> str:
    if kind == "sqlite":
        return str(place / "detent.db")
    from bench.workloads.jobs_postgres import database

    return database()
