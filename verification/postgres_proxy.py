"""A proxy for PostgreSQL's wire protocol that passes, delays, stops or cuts at any message.

It reads the messages of clients one by one and hands each to a gate, which decides what is passed
to the server and when. Answers are read message by message too. Loopback only, without TLS.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

#: Letters of messages that clients send.
PARSE, BIND, DESCRIBE, EXECUTE, SYNC = "P", "B", "D", "E", "S"
#: Letters of messages that the server sends.
KEY, READY, COMPLETE, ERROR = "K", "Z", "C", "E"
#: Makes the server send the answers that it has, before a Sync.
FLUSH = b"H\0\0\0\4"
#: The major version of the protocol that a startup packet asks for.
PROTOCOL = 3
BUFFER_BYTES = 1 << 20
#: Against TLS and GSS, which would hide the messages.
PLAIN = "sslmode=disable&gssencmode=disable"


class Message(NamedTuple):
    """One message of a client: its letter and all its bytes."""

    kind: str
    data: bytes


class Link:
    """One connection: a client, and the server behind it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        #: `application_name` of the client, and the number of the server's process for it.
        self.name = ""
        self.pid = 0
        #: While this is set, the responses of the server are not passed on.
        self.swallows = False
        self.closed = threading.Event()

    def __repr__(self) -> str:
        return f"<Link {self.name} {self.pid}>"

    def forward(self, data: bytes) -> None:
        """Pass bytes to the server."""
        self.server.sendall(data)

    def cut(self) -> None:
        """End both connections."""
        self.closed.set()
        for each in (self.client, self.server):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


#: Called for each message of a client, on a thread of its link, which it may hold up.
Gate = Callable[[Link, Message], None]


def pass_on(link: Link, message: Message) -> None:
    """The gate that changes nothing."""
    link.forward(message.data)


class Proxy:
    """Listens on a port of its own; its hooks may be replaced at any time."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.links: list[Link] = []
        self.gate: Gate = pass_on
        #: Called with the bytes of each read from a client.
        self.on_read: Callable[[Link, bytes], None] = lambda _link, _data: None
        #: Called with the letter of each message of the server after it was passed to the client;
        #: of the end of a link by an empty one.
        self.on_answer: Callable[[Link, str], None] = lambda _link, _kind: None
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same database, through the proxy."""
        parts = urlsplit(url)
        account, at, _ = parts.netloc.rpartition("@")
        query = "&".join(filter(None, (parts.query, PLAIN)))
        return parts._replace(netloc=f"{account}{at}127.0.0.1:{self.port}", query=query).geturl()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for link in [*self.links]:
            link.cut()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link = Link(client, server)
                self.links.append(link)
                for pump, source in ((self._requests, client), (self._answers, server)):
                    given = (pump, link, source)
                    threading.Thread(target=self._pump, args=given, daemon=True).start()

    def _pump(self, pump: Callable[[Link], None], link: Link, source: socket.socket) -> None:
        with contextlib.suppress(OSError), source:
            pump(link)
        link.cut()
        self.on_answer(link, "")

    def _requests(self, link: Link) -> None:
        """The first packet has no letter; every message after it has one."""
        buffer, typed = b"", 0
        while data := link.client.recv(BUFFER_BYTES):
            self.on_read(link, data)
            buffer += data
            while (size := _size(buffer, typed)) is not None:
                whole, buffer = buffer[:size], buffer[size:]
                if typed:
                    self.gate(link, Message(chr(whole[0]), whole))
                else:
                    typed = int(whole[4:6] == PROTOCOL.to_bytes(2))
                    link.name = _application(whole)
                    link.forward(whole)

    def _answers(self, link: Link) -> None:
        buffer = b""
        while data := link.server.recv(BUFFER_BYTES):
            buffer += data
            kinds = []
            while (size := _size(buffer, 1)) is not None:
                whole, buffer = buffer[:size], buffer[size:]
                kinds.append(chr(whole[0]))
                if kinds[-1] == KEY:
                    link.pid = int.from_bytes(whole[5:9])
            if not link.swallows:
                link.client.sendall(data)
            for kind in kinds:
                self.on_answer(link, kind)


def _size(buffer: bytes, typed: int) -> int | None:
    """How long the first message is; None while a part of it is missing."""
    if len(buffer) < typed + 4:
        return None
    size = typed + int.from_bytes(buffer[typed : typed + 4])
    return size if len(buffer) >= size else None


def _application(startup: bytes) -> str:
    words = startup[8:].split(b"\0")
    named = dict(zip(words[::2], words[1::2], strict=False))
    return named.get(b"application_name", b"").decode()


@contextmanager
def proxy_to(host: str, port: int) -> Iterator[Proxy]:
    proxy = Proxy((host, port))
    try:
        yield proxy
    finally:
        proxy.close()
