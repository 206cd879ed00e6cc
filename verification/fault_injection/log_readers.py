"""Readers of the log for fault injection: the live feed by WebSocket and SSE, pages of `/api/log`.

Each runs on a thread of its own, cuts its connection now and then, and connects again from its
cursor, as clients do. What every connection delivered is kept for the comparison with the log.
"""

import json
import socket
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import httpx2
from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from detent import views
from detent.store.log_walk import batches
from detent.store.port import Store
from verification.fault_injection import deliveries
from verification.fault_injection.client_history import OK
from verification.fault_injection.deliveries import Connection, Log
from verification.fault_injection.environment import Environment
from verification.fault_injection.http_client import ask
from verification.fault_injection.process_supervisor import Child

#: A connection that is quiet for so long is made again.
QUIET_S = 3.0
OPEN_S = 2.0
PAUSE_S = 0.05
#: Events in a page of the log, at least and at most.
PAGE = (1, 200)
#: SSE connections: certificates are not checked, because gateways are local.
_http = httpx2.Client(verify=False, timeout=httpx2.Timeout(OPEN_S, read=QUIET_S))

Json = Mapping[str, Any]


class Reader(ABC):
    """A reader of the whole log, from a cursor on.

    `address` gives a gateway's URL, None if there is none. `cuts` says whether it cuts connections.
    """

    kind = ""
    #: The frames, messages or pages after which it cuts its connection, at least and at most.
    cut_after = (1, 1)

    def __init__(
        self,
        name: str,
        address: Callable[[], str | None],
        token: Callable[[], str],
        rng: Random,
        *,
        cursor: int = 0,
        cuts: bool = True,
    ) -> None:
        self.name, self.address, self.token, self.rng = name, address, token, rng
        self.connections: list[Connection] = []
        self.counts: Counter[str] = Counter()
        self.ending = threading.Event()
        self._start, self._cuts = cursor, cuts
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)

    @property
    def cursor(self) -> int:
        """Up to here it was given the log."""
        return self.connections[-1].cursor if self.connections else self._start

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self.ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def problems(self, log: Log, head: int | None = None) -> list[str]:
        return deliveries.reader_problems(self.name, self.connections, log, head)

    def _loop(self) -> None:
        while not self.ending.is_set():
            address = self.address()
            if address is None:
                self.ending.wait(PAUSE_S)
                continue
            connection = Connection(self.cursor)
            self.connections.append(connection)
            try:
                self._read(address, connection)
            except (OSError, WebSocketException, httpx2.HTTPError) as error:
                quiet = isinstance(error, TimeoutError | httpx2.TimeoutException)
                self.counts["quiet connections" if quiet else "lost connections"] += 1
                self.ending.wait(PAUSE_S)

    @abstractmethod
    def _read(self, address: str, connection: Connection) -> None:
        """Read until the connection is cut, here or elsewhere."""

    def _take(self, connection: Connection, message: Json) -> None:
        """Note an event of the live feed; messages of other types carry nothing of the log."""
        if message["type"] == "event":
            shown = {name: value for name, value in message.items() if name != "type"}
            connection.events.append(deliveries.event_of(shown))
            self.counts[f"events by {self.kind}"] += 1

    def _patience(self) -> Iterator[bool]:
        """For each message whether to go on; ends with a cut of the connection."""
        for _ in range(self.rng.randint(*self.cut_after)):
            yield True
        while not self._cuts:
            yield True
        self.counts[f"cuts of {self.kind}"] += 1


class SocketReader(Reader):
    """The live feed over a WebSocket. A frame counts as a whole."""

    kind = "WebSocket"
    cut_after = (1, 15)

    def _read(self, address: str, connection: Connection) -> None:
        url = f"{address.replace('http', 'ws', 1)}/api/feed?cursor={connection.start}"
        options: dict[str, Any] = {
            "additional_headers": {"Authorization": f"Bearer {self.token()}"},
            "open_timeout": OPEN_S,
            "close_timeout": 0.1,
            "ping_interval": None,
            "compression": None,
            "max_size": None,
        }
        with connect(url, **options) as opened:
            for _ in self._patience():
                if self.ending.is_set():
                    return
                with suppress(TimeoutError):
                    for message in json.loads(opened.recv(timeout=QUIET_S)):
                        self._take(connection, message)
                        connection.cursor = message.get("cursor", connection.cursor)
            with suppress(OSError):
                opened.socket.shutdown(socket.SHUT_RDWR)


class StreamReader(Reader):
    """The live feed as server-sent events: the cursor is the last id that came."""

    kind = "SSE"
    cut_after = (1, 400)

    def _read(self, address: str, connection: Connection) -> None:
        url = f"{address}/api/events?cursor={connection.start}"
        headers = {"Authorization": f"Bearer {self.token()}"}
        with _http.stream("GET", url, headers=headers) as response:
            response.raise_for_status()
            lines, ident = response.iter_lines(), None
            for _ in self._patience():
                for line in lines:
                    if line.startswith("data: "):
                        self._take(connection, json.loads(line[6:]))
                    elif line.startswith("id: "):
                        ident = int(line[4:])
                    elif not line:
                        connection.cursor = connection.cursor if ident is None else ident
                        ident = None
                        break
                else:
                    return
                if self.ending.is_set():
                    return


class PageReader(Reader):
    """Pages of `/api/log`, one after the other. Without an answer the connection is lost."""

    kind = "pages"
    cut_after = (1, 60)

    def _read(self, address: str, connection: Connection) -> None:
        for _ in self._patience():
            if self.ending.is_set():
                return
            path = f"/api/log?after={connection.cursor}&limit={self.rng.randint(*PAGE)}"
            answered = ask(address, self.token(), "GET", path)
            if answered.outcome != OK:
                raise ConnectionError(answered.code)
            for shown in answered.document["events"]:
                self._take(connection, {"type": "event", **shown})
            connection.cursor = answered.document["cursor"]
            if not answered.document["events"]:
                self.ending.wait(PAUSE_S)


KINDS: tuple[type[Reader], ...] = (SocketReader, StreamReader, PageReader)


class Readers:
    """Several readers, started and ended together."""

    def __init__(self, readers: Iterable[Reader]) -> None:
        self.all = list(readers)

    def start(self) -> None:
        for reader in self.all:
            reader.start()

    def end(self) -> None:
        for reader in self.all:
            reader.ending.set()
        for reader in self.all:
            reader.end()

    def counts(self) -> Counter[str]:
        return sum((Counter(dict(each.counts)) for each in self.all), Counter())

    def problems(self, log: Log, head: int | None = None) -> list[str]:
        return [each for reader in self.all for each in reader.problems(log, head)]


class FaultCellReaders(Readers):
    """The readers of a cell: of a gateway that meets a failpoint, and one of another beside it."""

    def __init__(self, environment: Environment, victim: Child, relief: Child) -> None:
        self._environment, self._victim, self._relief = environment, victim, relief
        self.beside = SocketReader(
            "the reader beside",
            lambda: _url(relief),
            lambda: environment.token,
            Random(0),
            cuts=False,
        )
        self.first, *others = (self._made(kind, kind.kind) for kind in KINDS)
        super().__init__([self.beside, self.first])
        self._others = others

    def start_others(self) -> None:
        """Start the remaining readers of the victim."""
        self.all += self._others
        for reader in self._others:
            reader.start()

    def _made(self, kind: type[Reader], name: str, cursor: int = 0) -> Reader:
        """One that reads from the victim while that lives."""

        def address() -> str | None:
            return _url(self._victim if self._victim.poll() is None else self._relief)

        token = self._environment.token
        return kind(name, address, lambda: token, Random(0), cursor=cursor, cuts=False)

    def add_one_ahead(self, cursor: int) -> None:
        """Readers that have read up to a cursor elsewhere: the victim's feed may be behind it."""
        ahead = [self._made(kind, f"{kind.kind} ahead", cursor) for kind in KINDS]
        self.all += ahead
        for reader in ahead:
            reader.start()

    def have_read(self, upto: int) -> bool:
        return all(reader.cursor >= upto for reader in self.all)


def _url(gateway: Child) -> str | None:
    return gateway.ready.read_text() if gateway.ready.exists() else None


class FollowedLog:
    """The log of a store as its readers must get it; each reading continues the last one."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.all = deliveries.log_of(())
        #: The events with these names alone.
        self.named = deliveries.log_of(())
        self._names = names

    @property
    def head(self) -> int:
        return self.all.positions[-1] if self.all.positions else 0

    def read(self, store: Store) -> None:
        with store.read() as view:
            for piece in batches(view, self.head):
                for logged in piece:
                    event = deliveries.event_of(views.event(logged))
                    self.all.append(event)
                    if logged.name in self._names:
                        self.named.append(event)


def log_in(store: Store) -> Log:
    """The log of a store."""
    followed = FollowedLog()
    followed.read(store)
    return followed.all
