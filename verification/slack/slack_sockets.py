"""Socket Mode of the local Slack: envelopes are sent again unless they are acknowledged."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

#: How long Slack waits for an acknowledgement, and how often it sends an envelope.
ACKNOWLEDGED_S, MAX_SENT = 3.0, 3
#: How long a delivery waits for a connection.
CONNECTED_S = 20.0


class NotAcknowledged(Exception):
    """No connection has acknowledged an envelope."""


class Sockets:
    """The open connections of the app."""

    def __init__(self) -> None:
        self.acknowledged_s, self.connected_s = ACKNOWLEDGED_S, CONNECTED_S
        self._server: Server | None = None
        self._tickets: set[str] = set()
        self._open: list[ServerConnection] = []
        self._answers: dict[str, dict[str, Any]] = {}
        self._changed = threading.Condition()

    @contextmanager
    def serving(self) -> Iterator[None]:
        self._server = serve(self._serve, "127.0.0.1", 0)
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            self.disconnect()
            self._server.shutdown()
            thread.join()

    def new_url(self) -> str:
        """The address of a connection; it can be used once."""
        assert self._server is not None
        ticket = uuid.uuid4().hex
        self._tickets.add(ticket)
        port = self._server.socket.getsockname()[1]
        return f"ws://127.0.0.1:{port}/link/?ticket={ticket}"

    @property
    def count(self) -> int:
        with self._changed:
            return len(self._open)

    def disconnect(self) -> None:
        """Close the connections, as Slack does from time to time."""
        with self._changed:
            opened = list(self._open)
        for each in opened:
            with suppress(ConnectionClosed):
                each.send(json.dumps({"type": "disconnect", "reason": "refresh_requested"}))
            each.close()

    def deliver(self, payload: dict[str, Any]) -> dict[str, Any]:
        """Send a payload until it is acknowledged; returns what the acknowledgement contains."""
        envelope = {
            "envelope_id": str(uuid.uuid4()),
            "type": "interactive",
            "payload": payload,
            "accepts_response_payload": True,
        }
        for attempt in range(MAX_SENT):
            retry = {"retry_attempt": attempt, "retry_reason": "timeout"} if attempt else {}
            if self._sent(json.dumps({**envelope, **retry})):
                answer = self._answer(envelope["envelope_id"])
                if answer is not None:
                    return answer
        raise NotAcknowledged(payload["type"])

    def _sent(self, text: str) -> bool:
        with self._changed:
            if not self._changed.wait_for(lambda: self._open, self.connected_s):
                raise NotAcknowledged("there is no connection")
            connection = self._open[-1]
        try:
            connection.send(text)
        except ConnectionClosed:
            return False
        return True

    def _answer(self, envelope_id: Any) -> dict[str, Any] | None:
        with self._changed:
            self._changed.wait_for(lambda: envelope_id in self._answers, self.acknowledged_s)
            return self._answers.pop(envelope_id, None)

    def _serve(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        ticket = connection.request.path.rpartition("=")[2]
        if ticket not in self._tickets:
            connection.close(4001, "unknown ticket")
            return
        self._tickets.discard(ticket)
        connection.send(json.dumps({"type": "hello", "num_connections": 1}))
        with self._changed:
            self._open.append(connection)
            self._changed.notify_all()
        try:
            for message in connection:
                self._receive(json.loads(message))
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                self._open.remove(connection)

    def _receive(self, message: dict[str, Any]) -> None:
        with self._changed:
            self._answers[message["envelope_id"]] = message.get("payload") or {}
            self._changed.notify_all()
