"""Connect a command: to the gateway that is set, to that of this machine, or to its store."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

from detent.cli.gateway_client import Gateway, live_gateway, read_token
from detent.cli.short_ids import ShortIds
from detent.cli.target import current_target
from detent.settings import Loaded
from detent.settings_loader import load
from detent.trace_propagation import outgoing_traceparent, received_traceparent


class Connection(Protocol):
    """Calls operations by name."""

    def call(self, operation: str, /, **arguments: Any) -> Any: ...


class Direct(ShortIds):
    """Calls operations on the store itself, with the rights of the owner."""

    def __init__(self, core: Any) -> None:
        self.core = core

    def _call(self, operation: str, /, **arguments: Any) -> Any:
        from detent.operations.registry import OWNER, call

        given = {name: value for name, value in arguments.items() if value is not None}
        with received_traceparent(outgoing_traceparent()):
            return call(operation, self.core, OWNER, **given)


@contextmanager
def connect(loaded: Loaded | None = None) -> Iterator[Connection]:
    """Connect to the gateway that a URL or a context names; else to this machine's installation.

    On this machine it is the running gateway of the data directory, or the store if there is none.
    If the settings name a store, a gateway that serves another store is not used.
    """
    target = current_target()
    if target is not None:
        from detent.cli.remote_gateway import RemoteGateway

        with closing(RemoteGateway(target)) as remote:
            yield remote
        return
    loaded = loaded or load()
    named = loaded.settings.store_url
    server = live_gateway(loaded.settings.data_dir)
    if server is not None and (not named or server.store == crc32(named.encode())):
        yield Gateway(server, read_token(loaded.settings.data_dir))
        return
    from detent.operations.opener import open_core

    with open_core(loaded) as core:
        yield Direct(core)


def live_server(data_dir: Path) -> str | None:
    """The URL of the gateway that serves this data directory, if it is running."""
    server = live_gateway(data_dir)
    return None if server is None else server.url
