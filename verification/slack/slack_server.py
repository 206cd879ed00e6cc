"""A Slack for tests: the used part of its Web API, Socket Mode and its signed requests.

It refuses what Slack refuses. Tests press buttons and fill in dialogs of the messages that it has;
the server delivers the payloads, more than once if a test wants it.
"""

import hashlib
import hmac
import itertools
import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import urlencode

from verification.slack import slack_rules as rules
from verification.slack.slack_rules import Json, Refusal
from verification.slack.slack_sockets import Sockets

BOT, TEAM, APP = "U0BOT0001", "T0TEAM001", "A0APP0001"
#: How long a trigger opens a dialog.
TRIGGER_S = 3.0
#: Messages per second and channel, and how many may come in the same second.
PER_SECOND, BURST = 1.0, 30


class Reply(NamedTuple):
    status: int
    document: Json
    headers: Mapping[str, str] = {}


@dataclass
class Channel:
    id: str
    member: bool = True
    archived: bool = False
    tokens: float = BURST
    at: float = 0.0


@dataclass
class Posted:
    """A message of the app."""

    channel: str
    ts: str
    text: str
    blocks: list[Json]
    metadata: Json | None
    edits: int = 0

    @property
    def buttons(self) -> dict[str, Json]:
        """By action id, the buttons."""
        rows = [each["elements"] for each in self.blocks if each["type"] == "actions"]
        return {each["action_id"]: each for row in rows for each in row}

    @property
    def shown(self) -> str:
        """All texts of the message."""
        return json.dumps(self.blocks, ensure_ascii=False)


@dataclass
class SlackServer:
    """One workspace with one app."""

    bot_token: str = "xoxb-1-secret"
    app_token: str = "xapp-1-secret"
    signing_secret: str = "signing-secret"
    clock: Callable[[], float] = time.time
    channels: dict[str, Channel] = field(default_factory=dict)
    users: set[str] = field(default_factory=lambda: {"U0ADA0001", "U0EVE0001"})
    revoked: set[str] = field(default_factory=set)
    messages: dict[tuple[str, str], Posted] = field(default_factory=dict)
    #: Messages that only one user sees: channel, user and text.
    notices: list[tuple[str, str, str]] = field(default_factory=list)
    #: By id, the open dialogs.
    views: dict[str, Json] = field(default_factory=dict)
    #: The names of the calls, in order.
    called: list[str] = field(default_factory=list)
    #: By method, replies that are given next instead of carrying the call out.
    replies: dict[str, deque[Reply]] = field(default_factory=dict)
    #: Called with the method after a call was carried out, before its response. The response is
    #: lost if it raises ConnectionResetError.
    carried_out: Callable[[str], None] = lambda _: None
    sockets: Sockets = field(default_factory=Sockets)
    _triggers: dict[str, float] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def add_channel(self, ident: str, **more: Any) -> Channel:
        made = self.channels[ident] = Channel(ident, at=self.clock(), **more)
        return made

    def in_channel(self, ident: str) -> list[Posted]:
        """The messages of a channel, oldest first."""
        with self._lock:
            return [
                each for (channel, _), each in sorted(self.messages.items()) if channel == ident
            ]

    # -- the Web API -----------------------------------------------------------------------

    def handle(self, method: str, headers: Mapping[str, str], body: bytes) -> Reply:
        with self._lock:
            self.called.append(method)
            waiting = self.replies.get(method)
            if waiting:
                return waiting.popleft()
            try:
                reply = self._carried_out(method, headers, body)
            except Refusal as refusal:
                limited = {"Retry-After": "1"} if refusal.status == 429 else {}
                return Reply(refusal.status, refusal.document, limited)
        self.carried_out(method)
        return reply

    def _carried_out(self, method: str, headers: Mapping[str, str], body: bytes) -> Reply:
        token, prefix = self.bot_token, "xoxb-"
        if method == "apps.connections.open":
            token, prefix = self.app_token, "xapp-"
        rules.check_token(headers.get("authorization", ""), token, self.revoked, prefix)
        given = rules.arguments_of(method, headers, body)
        act = getattr(self, "_" + method.replace(".", "_").lower())
        return Reply(200, {"ok": True, **act(**given)})

    def _auth_test(self) -> Json:
        names = {"team": "Test", "user": "detent", "url": "https://test.slack.com/"}
        return {**names, "team_id": TEAM, "user_id": BOT, "bot_id": "B0BOT0001"}

    def _apps_connections_open(self) -> Json:
        return {"url": self.sockets.new_url()}

    def _channel(self, ident: str) -> Channel:
        found = self.channels.get(ident)
        if found is None:
            raise Refusal("channel_not_found")
        return found

    def _writable(self, ident: str) -> Channel:
        found = self._channel(ident)
        if found.archived:
            raise Refusal("is_archived")
        if not found.member:
            raise Refusal("not_in_channel")
        return found

    def _paced(self, channel: Channel) -> None:
        now = self.clock()
        channel.tokens = min(BURST, channel.tokens + (now - channel.at) * PER_SECOND)
        channel.at = now
        if channel.tokens < 1:
            raise Refusal("ratelimited", status=429)
        channel.tokens -= 1

    def _chat_postmessage(self, channel: str, **given: Any) -> Json:
        rules.check_message(given)
        self._paced(self._writable(channel))
        ts = f"{self.clock():.3f}{next(self._numbers):03}"
        made = Posted(
            channel, ts, given.get("text", ""), given.get("blocks", []), given.get("metadata")
        )
        self.messages[channel, ts] = made
        return {"channel": channel, "ts": ts, "message": self._message(made)}

    def _chat_update(self, channel: str, ts: str, **given: Any) -> Json:
        rules.check_message(given)
        found = self._own(channel, ts)
        found.text, found.blocks = given.get("text", found.text), given.get("blocks", [])
        found.metadata = given.get("metadata", found.metadata)
        found.edits += 1
        return {"channel": channel, "ts": ts, "text": found.text}

    def _chat_delete(self, channel: str, ts: str) -> Json:
        self._own(channel, ts)
        del self.messages[channel, ts]
        return {"channel": channel, "ts": ts}

    def _own(self, channel: str, ts: str) -> Posted:
        self._writable(channel)
        found = self.messages.get((channel, ts))
        if found is None:
            raise Refusal("message_not_found")
        return found

    def _chat_postephemeral(self, channel: str, user: str, text: str) -> Json:
        self._writable(channel)
        if user not in self.users:
            raise Refusal("user_not_in_channel")
        self.notices.append((channel, user, text))
        return {"message_ts": f"{self.clock():.6f}"}

    def _conversations_info(self, channel: str) -> Json:
        found = self._channel(channel)
        shown = {"id": found.id, "is_member": found.member, "is_archived": found.archived}
        return {"channel": {**shown, "name": found.id.lower()}}

    def _conversations_history(
        self,
        channel: str,
        oldest: str = "0",
        limit: str = "100",
        cursor: str = "",
        include_all_metadata: str = "0",
    ) -> Json:
        if not self._channel(channel).member:
            raise Refusal("not_in_channel")
        if not 1 <= int(limit) <= 999:
            raise Refusal("invalid_limit")
        found = [each for each in self.in_channel(channel) if float(each.ts) > float(oldest)]
        found.reverse()
        first = int(cursor) if cursor else 0
        page = found[first : first + int(limit)]
        more = first + len(page) < len(found)
        shown = [self._message(each, metadata=include_all_metadata == "1") for each in page]
        next_cursor = {"response_metadata": {"next_cursor": str(first + len(page))}} if more else {}
        return {"messages": shown, "has_more": more, **next_cursor}

    def _views_open(self, trigger_id: str, view: Any) -> Json:
        at = self._triggers.pop(trigger_id, None)
        if at is None:
            raise Refusal("invalid_trigger_id")
        if self.clock() - at > TRIGGER_S:
            raise Refusal("expired_trigger_id")
        rules.check_view(view)
        ident = f"V{next(self._numbers):09}"
        self.views[ident] = {**view, "id": ident, "team_id": TEAM, "app_id": APP, "hash": "1.abc"}
        return {"view": self.views[ident]}

    def _message(self, posted: Posted, *, metadata: bool = True) -> Json:
        found = {"type": "message", "user": BOT, "bot_id": "B0BOT0001", "ts": posted.ts}
        shown = {**found, "text": posted.text, "blocks": posted.blocks}
        return {**shown, "metadata": posted.metadata} if metadata and posted.metadata else shown

    # -- people ----------------------------------------------------------------------------

    def press(self, user: str, posted: Posted, action_id: str, **instead: Any) -> Json:
        """The payload of a click on a button that the message has, or had."""
        with self._lock:
            button = instead.get("button") or posted.buttons[f"detent:{action_id}"]
            trigger = f"{next(self._numbers)}.{uuid.uuid4().hex}"
            self._triggers[trigger] = self.clock()
            channel = instead.get("channel", posted.channel)
            named = {name: button[name] for name in ("action_id", "text", "value", "type")}
            return {
                **self._about(user, "block_actions"),
                "trigger_id": trigger,
                "container": {
                    "type": "message",
                    "message_ts": posted.ts,
                    "channel_id": channel,
                    "is_ephemeral": False,
                },
                "channel": {"id": channel, "name": channel.lower()},
                "message": self._message(posted),
                "state": {"values": {}},
                "response_url": "https://hooks.slack.com/actions/none",
                "actions": [{**named, "block_id": "b1", "action_ts": f"{self.clock():.6f}"}],
            }

    def submit(self, user: str, text: str, view_id: str | None = None) -> Json:
        """The payload of a dialog that was sent, by default the last one, with this value."""
        with self._lock:
            view = self.views[view_id or max(self.views)]
            (block,) = view["blocks"]
            element = block["element"]
            if element["type"] == "static_select":
                (chosen,) = [each for each in element["options"] if each["value"] == text]
                value = {"type": "static_select", "selected_option": chosen}
            else:
                value = {"type": "plain_text_input", "value": text}
            state = {"values": {block["block_id"]: {element["action_id"]: value}}}
            return {
                **self._about(user, "view_submission"),
                "trigger_id": f"{next(self._numbers)}.x",
                "view": {**view, "state": state},
                "response_urls": [],
            }

    def _about(self, user: str, kind: str) -> Json:
        return {
            "type": kind,
            "team": {"id": TEAM, "domain": "test"},
            "user": {"id": user, "username": user.lower(), "team_id": TEAM},
            "api_app_id": APP,
            "token": "not-used",
            "enterprise": None,
            "is_enterprise_install": False,
        }

    def signed(self, payload: Json, *, at: float | None = None) -> tuple[dict[str, str], bytes]:
        """The headers and the body of a request with this payload over HTTP."""
        body = urlencode({"payload": json.dumps(payload)}).encode()
        stamp = str(int(time.time() if at is None else at))
        base = f"v0:{stamp}:".encode() + body
        digest = hmac.new(self.signing_secret.encode(), base, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "X-Slack-Request-Timestamp": stamp,
            "X-Slack-Signature": f"v0={digest}",
        }
        return headers, body


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    slack: SlackServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        try:
            reply = self.slack.handle(self.path.removeprefix("/api/"), headers, body)
        except ConnectionResetError:  # the test loses the response
            self.close_connection = True
            return
        content = json.dumps(reply.document).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests are quiet."""


@contextmanager
def serving(slack: SlackServer) -> Iterator[str]:
    """Serve the Web API and Socket Mode; gives the URL of the Web API."""
    handler = type("Handler", (_Handler,), {"slack": slack})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with slack.sockets.serving():
            yield f"http://127.0.0.1:{server.server_port}/api/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
