"""Receives clicks from Slack by Socket Mode: a WebSocket that detent opens to Slack.

It needs no public address. Every process of the keeper opens one; Slack sends each click to one of
them, and again to another if it is not acknowledged in time.
"""

import logging
import threading
from collections.abc import Callable

from slack_bolt.adapter.socket_mode.builtin import SocketModeHandler
from slack_sdk.errors import SlackApiError

from detent.errors import Misconfigured
from detent.integrations.slack.slack_messages import SOCKET, note_status
from detent.integrations.slack.slack_replies import Replies, replies
from detent.operations.context import Core

log = logging.getLogger("detent.slack")

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0


class SlackSocket:
    """Connects on its own thread and retries; the library then reconnects by itself."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._stopping = threading.Event()
        self._handler: SocketModeHandler | None = None
        self._replies: Replies | None = None
        self._thread = threading.Thread(target=self._connect, name="slack-socket", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        if self._handler is not None:
            close: Callable[[], object] = self._handler.close  # without annotations
            close()
        if self._replies is not None:
            self._replies.close()

    @property
    def connected(self) -> bool:
        return self._handler is not None and self._handler.client.is_connected()

    def _connect(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                self._connect_once()
                note_status(self.core, SOCKET, None)
                return
            except Exception as error:  # the library raises what its connection raises
                log.warning("slack: Socket Mode cannot connect: %s", _reason(error))
                note_status(self.core, SOCKET, _refused(error))
            self._stopping.wait(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 2 * pause_s)

    def _connect_once(self) -> None:
        if self._replies is None:
            self._replies = replies(self.core)
        if self._handler is None:
            token = self._replies.config.app_token
            self._handler = SocketModeHandler(self._replies.app, token)
        connect: Callable[[], object] = self._handler.connect  # without annotations
        connect()


def _reason(error: Exception) -> str:
    if isinstance(error, SlackApiError):
        return str(error.response.get("error"))
    return f"{type(error).__name__}: {error}"


def _refused(error: Exception) -> Misconfigured:
    return Misconfigured(
        f"Slack does not open a connection for Socket Mode: {_reason(error)}",
        setting="slack.app_token",
        hint="Check slack.app_token: an app-level token with the scope connections:write.",
    )
