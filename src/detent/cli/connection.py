"""How a command reaches detent: through the gateway of the data directory, else directly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from detent.cli.gateway_client import Gateway, announced, read_token
from detent.cli.short_ids import ShortIds
from detent.settings import Loaded, load


class Connection(Protocol):
    """Ask for an operation by name."""

    def call(self, operation: str, /, **arguments: Any) -> Any: ...


class Direct(ShortIds):
    """The operations on the store itself, for the person at the machine."""

    def __init__(self, core: Any) -> None:
        self.core = core

    def _call(self, operation: str, /, **arguments: Any) -> Any:
        from detent.operations.registry import OWNER, call

        given = {name: value for name, value in arguments.items() if value is not None}
        return call(operation, self.core, OWNER, **given)


@contextmanager
def connect(loaded: Loaded | None = None) -> Iterator[Connection]:
    """The live gateway of this data directory if there is one, else its store.

    Who names a store gets that store: a gateway that serves another one is passed by.
    """
    loaded = loaded or load()
    named = loaded.settings.store_url
    server = announced(loaded.settings.data_dir)
    if server is not None and (not named or server.store == crc32(named.encode())):
        yield Gateway(server, read_token(loaded.settings.data_dir))
        return
    from detent.operations.opener import open_core

    with open_core(loaded) as core:
        yield Direct(core)


def live_server(data_dir: Path) -> str | None:
    """The address of the gateway that serves this data directory, if it is alive."""
    server = announced(data_dir)
    return None if server is None else server.url
