"""`detent mcp`: operations as tools for an agent that starts this and talks to its pipes."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from detent.cli.connection import Connection, connect
from detent.errors import Forbidden, Misconfigured

#: What an agent gets from a person who names nothing else: it does not judge work by itself.
MODEST = ("read", "submit")
SCOPES = ("read", "submit", "operate", "review", "run", "admin")


@click.command()
@click.option("--url", envvar="DETENT_URL", help="A gateway elsewhere; DETENT_TOKEN is its token.")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    help="Offer tools of this scope; may be repeated. If none is named: read and submit, or with "
    "--url all that its token allows.",
)
def mcp(url: str | None, scopes: tuple[str, ...]) -> None:
    """Serve operations as MCP tools on standard input and output."""
    serve = _served()
    with _connection(url) as connection:
        wanted = scopes or (SCOPES if url else MODEST)
        allowed = _allowed(connection) if url else SCOPES
        serve(connection, frozenset(wanted) & frozenset(allowed))


def _served() -> Any:
    """What serves, imported late; a missing extra is said before anything else is started."""
    try:
        import anyio

        from detent.integrations.mcp_server import McpClient, serve_stdio
    except ModuleNotFoundError as error:
        raise Misconfigured(
            f"MCP is not installed here: {error.name} is missing.",
            setting="the extra mcp",
            hint="Install it with: pip install 'detent[mcp]'",
        ) from None
    from detent.operations.registry import Scope

    def serve(connection: Connection, scopes: frozenset[str]) -> None:
        async def ask(operation: str, arguments: Mapping[str, Any]) -> Any:
            # One after the other: a connection is for one thread at a time.
            async with turn:
                asked = partial(connection.call, operation, **arguments)
                return await anyio.to_thread.run_sync(asked)

        async def main() -> None:
            await serve_stdio(McpClient(ask, frozenset(map(Scope, scopes))))

        turn = anyio.Lock()
        anyio.run(main)

    return serve


@contextmanager
def _connection(url: str | None) -> Iterator[Connection]:
    if url is None:
        with connect() as connection:
            yield connection
        return
    from detent.client import Client

    with Client(url) as client:
        yield client


def _allowed(connection: Connection) -> tuple[str, ...]:
    """The scopes of the token, as the gateway knows it; a run's token may not even look."""
    try:
        return tuple(connection.call("show_me")["scopes"])
    except Forbidden:
        return ("run",)
