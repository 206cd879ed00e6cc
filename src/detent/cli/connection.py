"""How a command reaches detent: through the gateway of the data directory, else directly."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import psutil

from detent.settings import Loaded, load

SERVER_FILE = "server.json"


class Connection(Protocol):
    """Ask for an operation by name."""

    def call(self, operation: str, /, **arguments: Any) -> Any: ...


class Direct:
    """The operations on the store itself, for the person at the machine."""

    def __init__(self, core: Any) -> None:
        self.core = core

    def call(self, operation: str, /, **arguments: Any) -> Any:
        from detent.operations.registry import OWNER, call

        return call(operation, self.core, OWNER, **arguments)


@contextmanager
def connect(loaded: Loaded | None = None) -> Iterator[Connection]:
    """The live gateway of this data directory if there is one, else its store."""
    loaded = loaded or load()
    url = live_server(loaded.settings.data_dir)
    if url is not None:
        from detent.client import Client, read_token

        client = Client(url, read_token(loaded.settings.data_dir))
        try:
            yield client
        finally:
            client.close()
        return
    from detent.service import open_core

    with open_core(loaded) as core:
        yield Direct(core)


def live_server(data_dir: Path) -> str | None:
    """The address of the gateway that serves this data directory, if it is alive."""
    try:
        server = json.loads((data_dir / SERVER_FILE).read_text("utf-8"))
        process = psutil.Process(server["pid"])
        alive = abs(process.create_time() - server["started"]) < 1
    except (OSError, ValueError, KeyError, psutil.Error):
        return None
    return str(server["url"]) if alive else None
