"""A line to a PostgreSQL server that can be cut: what is sent gets there, the answer does not."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Line:
    """Passes bytes on, until it is told to keep what the server says to itself."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        #: Once set, a message that ends with this makes the line swallow the answer and hang up.
        self.cut_after: bytes | None = None
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._to)
                cut = threading.Event()
                self._pump(client, server, lambda data, cut=cut: self._heard(data, cut))
                self._pump(server, client, lambda _, cut=cut: cut.is_set())

    def _heard(self, data: bytes, cut: threading.Event) -> bool:
        if self.cut_after is not None and self.cut_after in data:
            self.cut_after = None
            cut.set()
        return False

    def _pump(self, source: socket.socket, sink: socket.socket, ends: Callable[..., bool]) -> None:
        def pump() -> None:
            with contextlib.suppress(OSError):
                while data := source.recv(65_536):
                    if ends(data):
                        break
                    sink.sendall(data)
            for each in (source, sink):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
            source.close()

        threading.Thread(target=pump, daemon=True).start()


@contextmanager
def line_to(host: str, port: int) -> Iterator[Line]:
    line = Line((host, port))
    try:
        yield line
    finally:
        line.close()
