"""`detent mcp`: serve operations as MCP tools to an agent, on standard input and output."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from detent.cli.connection import Connection, connect
from detent.cli.target import Target, current_target
from detent.errors import Forbidden
from detent.optional_package import optional_package

#: The scopes without --scope: an agent cannot accept or cancel work.
DEFAULT_SCOPES = ("read", "submit")
SCOPES = ("read", "submit", "operate", "review", "run", "admin")


@click.command()
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    help="Offer the tools of this scope; may be repeated. Default: read and submit, or "
    "with a gateway on another machine all scopes of the token.",
)
def mcp(scopes: tuple[str, ...]) -> None:
    """Serve operations as MCP tools on standard input and output."""
    serve = _import_server()
    target = current_target()
    with _connection(target) as connection:
        wanted = scopes or (SCOPES if target else DEFAULT_SCOPES)
        allowed = _allowed(connection) if target else SCOPES
        serve(connection, frozenset(wanted) & frozenset(allowed))


def _import_server() -> Any:
    """Import the MCP server; a missing package is reported before anything is started."""
    import anyio

    from detent.integrations.mcp.mcp_tools import McpClient
    from detent.operations.registry import Scope

    with optional_package("mcp", "2.3", extra="mcp"):
        from detent.integrations.mcp.mcp_server import serve_stdio

    def serve(connection: Connection, scopes: frozenset[str]) -> None:
        async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
            # A connection may be used by one thread at a time.
            async with one_at_a_time:
                request = partial(connection.call, operation, **arguments)
                return await anyio.to_thread.run_sync(request)

        async def main() -> None:
            await serve_stdio(McpClient(call, frozenset(map(Scope, scopes))))

        one_at_a_time = anyio.Lock()
        anyio.run(main)

    return serve


@contextmanager
def _connection(target: Target | None) -> Iterator[Connection]:
    """Connect; to another machine with a client that tries again while its gateway restarts."""
    if target is None:
        with connect() as connection:
            yield connection
        return
    from detent.client import Client

    with Client(target.url, target.token, ca_file=target.ca_file) as client:
        yield client


def _allowed(connection: Connection) -> tuple[str, ...]:
    """The scopes of the token; the token of a run may not read them."""
    try:
        return tuple(connection.call("show_me")["scopes"])
    except Forbidden:
        return ("run",)
