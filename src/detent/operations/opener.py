"""Opens an installation: its store, the engine on it, and what its configuration says.

Imports no gateway, worker or keeper, so that a command without a server starts fast.
"""

import itertools
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from detent import private_files
from detent.engine import Engine, Lifetimes
from detent.errors import Unavailable
from detent.intent_config import agents_from, intents_from
from detent.lifecycle_config import lifecycle_files
from detent.limit_config import limits_from
from detent.operations.context import Core
from detent.provider_config import providers_from
from detent.settings import Loaded, Settings
from detent.store.configured_store import open_configured
from detent.store.marker import mark_store, require_store
from detent.store.port import Store
from detent.thresholds import check

log = logging.getLogger("detent")

#: Seconds between two attempts to open the store, and attempts per line of the log.
TRY_S, TRIES_PER_LINE = 0.5, 20


@contextmanager
def open_core(loaded: Loaded, wait_s: float = 0.0) -> Iterator[Core]:
    """The store of an installation with the engine on it; `wait_s`: how long it may be missing."""
    settings = loaded.settings
    check(settings)
    private_files.make_directory(settings.data_dir)
    store = _open(settings, wait_s)
    lifetimes = Lifetimes(
        settings.worker_lease_ms * 1_000, settings.engine_key_lifetime_s * 1_000_000
    )
    try:
        intents, agents = intents_from(loaded.tables), agents_from(loaded.tables)
        kept, files = limits_from(loaded.tables), lifecycle_files(loaded.tables, loaded.file)
        configured = (intents, agents, kept, files, providers_from(loaded.tables))
        yield Core(store, Engine(store, lifetimes), settings, *configured)
    finally:
        store.close()


def _open(settings: Settings, wait_s: float) -> Store:
    """Open the store. A server that starts or recovers is waited for."""
    until_s = time.monotonic() + wait_s
    for tries in itertools.count():
        try:
            require_store(settings.data_dir, settings.url)
            store = open_configured(settings)
            break
        except Unavailable as error:
            if time.monotonic() >= until_s:
                raise
            if tries % TRIES_PER_LINE == 0:
                log.warning("waiting for the database: %s", error.message)
            time.sleep(TRY_S)
    mark_store(settings.data_dir, settings.url)
    return store
