"""The network proxy of one run: the only way out of a sandbox with a closed network.

The program's first process (`program_entry`) makes listeners on the loopback of its own network
namespace and sends them here. The proxy speaks CONNECT and plain HTTP, resolves host names itself,
and connects to the address that it has checked; this prevents DNS rebinding. A redirect is a new
request, which is checked like every other. Named ports of the machine's loopback are forwarded.
"""

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from urllib.parse import urlsplit

from detent.addresses import Address
from detent.allowed_hosts import AllowedHost, address_refusal, literal_address, name_refusal

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOOPBACK = "127.0.0.1"
CHUNK = 65_536
#: The size of a request's head, the time to send it, and the time to connect.
MAX_HEAD = 65_536
HEAD_S, CONNECT_S = 30.0, 30.0
#: Open connections of one run, and different refusals that it reports.
MAX_CONNECTIONS = 256
MAX_REFUSALS = 100
#: How long a run waits for the proxy to end; a name that is being resolved may keep its thread.
END_S = 2.0
MAX_PORTS = 100
#: Headers that concern the connection to the proxy alone.
OF_CONNECTION = {b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive"}
#: Headers that are not passed on. The host is that of the URL, which was checked: a server may have
#: other hosts at the same address.
REPLACED = {*OF_CONNECTION, b"host"}


class Refused(Exception):
    """The connection is not made; the message says why."""


class Target(NamedTuple):
    """Where a request goes, and what is sent there first."""

    host: str
    port: int
    #: The head of a plain request; None for CONNECT.
    head: bytes | None


class NetworkProxy:
    """Serves one run from its start to its end, in a thread of its own."""

    def __init__(self, allowed: Sequence[AllowedHost], remedy: str) -> None:
        self._allowed, self._remedy = allowed, remedy
        self.ports = sorted({port for each in allowed for port in each.loopback_ports()})
        self.ports = self.ports[:MAX_PORTS]
        #: Texts by host and port; a host is reported once.
        self.refused: dict[tuple[str, int], str] = {}
        self._notices: list[str] = []
        self._open = 0
        self._servers: list[asyncio.Server] = []
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="detent-network", daemon=True)

    def __enter__(self) -> "NetworkProxy":
        #: The program's first process gets `control`, and sends the listeners through it.
        self._received, self.control = socket.socketpair()
        self._received.setblocking(False)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(END_S)
        self.control.close()

    def notices(self) -> list[str]:
        """The refusals since the last call, as lines for the output of the run."""
        found, self._notices = self._notices, []
        return found

    # -- listeners -------------------------------------------------------------------------

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._serve_until_over())
        finally:
            self._received.close()
            self._loop.close()

    async def _serve_until_over(self) -> None:
        self._receiving = asyncio.create_task(self._take_listeners())
        await self._over.wait()
        for server in self._servers:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _take_listeners(self) -> None:
        """Accept connections as soon as the program has sent its listeners."""
        ready = asyncio.Event()
        self._loop.add_reader(self._received, ready.set)
        await ready.wait()
        self._loop.remove_reader(self._received)
        descriptors = socket.recv_fds(self._received, 1, 1 + len(self.ports))[1]
        handlers: list[Handler] = [self._answer]
        handlers += [partial(self._forward, port) for port in self.ports]
        for descriptor, handler in zip(descriptors, handlers, strict=False):
            listening = socket.socket(fileno=descriptor)
            answer = partial(self._within_limit, handler)
            self._servers.append(await asyncio.start_server(answer, sock=listening, limit=MAX_HEAD))

    async def _within_limit(
        self,
        handler: Handler,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Handle a connection, and close it whatever happens."""
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                await handler(reader, writer)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError):
            pass  # one of the two has closed the connection
        finally:
            self._open -= 1
            writer.close()

    # -- one connection --------------------------------------------------------------------

    async def _forward(
        self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Connect to a named port of the machine's own loopback."""
        await _relay(reader, writer, *await asyncio.open_connection(LOOPBACK, port))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request of the proxy protocol; a plain connection serves only one."""
        async with asyncio.timeout(HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            target = target_of(head)
        except ValueError:
            writer.write(_response("400 Bad Request", "This is not a request to a proxy."))
            return
        try:
            address = await self._checked_address(target.host, target.port)
        except Refused as refusal:
            text = self._note(target, str(refusal))
            writer.write(_response("403 Forbidden", text))
            return
        try:
            async with asyncio.timeout(CONNECT_S):
                there = await asyncio.open_connection(str(address), target.port)
        except OSError as error:
            text = f"{target.host}:{target.port} cannot be reached: {error}"
            writer.write(_response("502 Bad Gateway", text))
            return
        if target.head is None:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            there[1].write(target.head)
        await _relay(reader, writer, *there)

    async def _checked_address(self, host: str, port: int) -> Address:
        """The address to connect to; every address of the host must be allowed."""
        reason = name_refusal(host, port, self._allowed)
        if reason is not None:
            raise Refused(reason)
        addresses = await self._addresses(host, port)
        for address in addresses:
            reason = address_refusal(address, port, self._allowed)
            if reason is not None:
                raise Refused(reason)
        return addresses[0]

    async def _addresses(self, host: str, port: int) -> list[Address]:
        known = literal_address(host)
        if known is not None:
            return [known]
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Refused(f"its name cannot be resolved: {error}") from None
        return [ipaddress.ip_address(str(each[4][0]).partition("%")[0]) for each in found]

    def _note(self, target: Target, reason: str) -> str:
        """The text of a refusal. The run's output gets it once for each host and port."""
        where = target.host, target.port
        text = f"network: {target.host}:{target.port} was refused: {reason}. {self._remedy}"
        if where not in self.refused and len(self.refused) < MAX_REFUSALS:
            self.refused[where] = text
            self._notices.append(text)
        return text


def target_of(head: bytes) -> Target:
    """Where a request to the proxy goes; ValueError if it is not one."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    method, url, version = first.split(b" ")
    if not version.startswith(b"HTTP/1."):
        raise ValueError(version)
    if method == b"CONNECT":
        parts = urlsplit(f"//{url.decode('ascii')}")
        return Target(_host(parts.hostname), parts.port or 443, None)
    parts = urlsplit(url.decode("ascii"))
    if parts.scheme != "http":
        raise ValueError(url)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if any(line[:1] in (b" ", b"\t") or set(line) & set(b"\r\n") for line in lines):
        raise ValueError("a header that servers read in different ways")
    kept = [line for line in lines if line.partition(b":")[0].strip().lower() not in REPLACED]
    host = b"Host: " + parts.netloc.rpartition("@")[2].encode("ascii")
    first = b"%s %s HTTP/1.1" % (method, path.encode("ascii"))
    made = [first, host, *kept, b"Connection: close"]
    return Target(_host(parts.hostname), parts.port or 80, b"\r\n".join(made) + b"\r\n\r\n")


def _host(name: str | None) -> str:
    if not name:
        raise ValueError("a request without a host")
    return name


def _response(status: str, text: str) -> bytes:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
    return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    there_reader: asyncio.StreamReader,
    there_writer: asyncio.StreamWriter,
) -> None:
    """Copy both directions until both have ended."""
    try:
        await asyncio.gather(_copy(reader, there_writer), _copy(there_reader, writer))
    finally:
        there_writer.close()


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
