"""Keeps one message in Slack for each item that waits, in every channel that it concerns.

The rows `message:CHANNEL:KEY` of the table `slack` have the timestamp of each message. A row
without a timestamp is written before a message is posted. If a later pass finds such a row, it
searches the channel for the message first, so that a crash at any point posts no message twice.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from detent import failpoints, views
from detent.errors import DetentError
from detent.integrations.leader_service import LeaderService, LeadershipLost
from detent.integrations.slack.slack_api import (
    GONE,
    ChannelRefused,
    RateLimited,
    SlackApi,
    SlackError,
    TokenRefused,
    web_client,
)
from detent.integrations.slack.slack_blocks import Message, headline, open_message, settled_message
from detent.integrations.slack.slack_config import Channel, SlackConfig, slack_config
from detent.integrations.slack.slack_items import (
    Item,
    details_of,
    settlement_of,
    still_waits,
    waiting_items,
)
from detent.operations.context import Core
from detent.operations.leader_election import LeaderElection
from detent.store.port import ReadTransaction, WriteTransaction

log = logging.getLogger("detent.slack")

ROLE = "slack"
TABLE = "slack"
MESSAGE = "message:"
#: The row of `system_state` with the last error of each part; `detent doctor` shows it.
STATUS = "slack_status"
MESSAGES, SOCKET = "messages", "socket"
#: The maximum number of messages that one pass posts or changes.
MAX_CALLS = 20
SECOND_US = 1_000_000
#: At least half of the term is left when a request begins: longer than its timeout, because the
#: leader should not change during a request.
TERM_US = 30 * SECOND_US
#: The pause after a token or a channel was refused, or after no response.
PAUSE_US = 30 * SECOND_US
#: A message is searched for from this time before it was reserved: clocks may differ.
CLOCK_US = 600 * SECOND_US

Json = dict[str, Any]


class Seen(NamedTuple):
    """What one pass works on."""

    items: Sequence[Item]
    complete: bool
    #: By name, the rows of messages.
    rows: Mapping[str, Json]
    head: int
    now: int


class Messages:
    """Posts, updates and settles messages. Only the elected leader may run it."""

    def __init__(
        self,
        core: Core,
        config: SlackConfig,
        api: SlackApi,
        check_leader: Callable[[], object] = lambda: None,
    ) -> None:
        self.core, self.config, self.api = core, config, api
        self._check_leader = check_leader
        #: By channel, the time before which it is not used, because it was refused.
        self._paused: dict[str, int] = {}
        self._calls = 0

    def run(self) -> bool:
        """One pass; returns whether there is more to do."""
        self._calls = 0
        with self.core.store.read() as view:
            seen = _seen(view)
        fault: SlackError | None = None
        for channel in self.config.channels.values():
            if self._paused.get(channel.id, 0) > seen.now:
                continue
            try:
                self._channel(channel, seen)
            except ChannelRefused as error:
                self._paused[channel.id] = seen.now + PAUSE_US
                log.warning("slack: %s", error.text)
                fault = error
        self._forget_channels(seen.rows)
        if fault is not None or not self._paused:
            note_status(self.core, MESSAGES, fault)
        return self._calls >= MAX_CALLS

    def _channel(self, channel: Channel, seen: Seen) -> None:
        prefix = f"{MESSAGE}{channel.id}:"
        wanted = {
            f"{prefix}{item.key}": item
            for item in seen.items
            if channel.concerns(item.row, item.kind)
        }
        for name, item in wanted.items():
            self._show_one(channel.id, name, item, seen)
        for name, row in seen.rows.items():
            if name.startswith(prefix) and name not in wanted:
                self._settle(channel.id, name, row, seen)
        self._paused.pop(channel.id, None)

    def due(self, now: int) -> bool:
        """Whether a channel that was refused is to be tried again."""
        return any(until <= now for until in self._paused.values())

    # -- one message -----------------------------------------------------------------------

    def _show_one(self, channel: str, name: str, item: Item, seen: Seen) -> None:
        """Show an item if its message is not current. A refused one does not stop the others."""
        row = seen.rows.get(name)
        if row is not None and (row.get("gone") or row.get("mark") == self._mark(item)):
            return
        if not self._may_call():
            return
        try:
            self._show(channel, name, item, row, seen)
        except SlackError as error:
            if isinstance(error, TokenRefused | ChannelRefused | RateLimited):
                raise
            log.warning("slack: the message about %s: %s", item.stream, error.text)
            known = row or {**_facts(item, seen), "ts": None}
            self._save({name: {**known, "mark": self._mark(item)}})

    def _show(self, channel: str, name: str, item: Item, row: Json | None, seen: Seen) -> None:
        """Post the message of an item, or update it."""
        details = details_of(self.core, item)
        dashboard, buttons = self.config.dashboard, self.config.receives
        message = open_message(item, details, dashboard, buttons=buttons)
        if row is None:
            self._save({name: {**_facts(item, seen), "ts": None}})
            failpoints.hit("slack.reserved")
        ts = self._posted(channel, name, row, message)
        shown = {**_facts(item, seen), "ts": ts, "mark": self._mark(item)}
        self._remember(channel, name, shown)

    def _mark(self, item: Item) -> str:
        """Changes whenever the message of an item may have to change."""
        return f"{item.mark} {self.config.receives:d} {self.config.dashboard}"

    def _posted(self, channel: str, name: str, row: Json | None, message: Message) -> str | None:
        """The timestamp of the message, which shows the item now; None if it was deleted."""
        key = name.removeprefix(f"{MESSAGE}{channel}:")
        ts = None if row is None else self._known_ts(channel, key, row)
        if ts is not None:
            return ts if self._update(channel, ts, key, message) else None
        made = self.api.post(channel, key, message)
        failpoints.hit("slack.posted")
        return made

    def _known_ts(self, channel: str, key: str, row: Json) -> str | None:
        """The timestamp of a message that may have been posted."""
        known: str | None = row["ts"]
        return known or self.api.find(channel, key, _slack_time(row["at"] - CLOCK_US))

    def _update(self, channel: str, ts: str, key: str, message: Message) -> bool:
        """Update a message; returns False if it was deleted in Slack."""
        try:
            self.api.update(channel, ts, key, message)
        except SlackError as error:
            if error.error in GONE:
                return False
            raise
        failpoints.hit("slack.updated")
        return True

    def _settle(self, channel: str, name: str, row: Json, seen: Seen) -> None:
        """Show how the item was settled, without buttons, and forget the message."""
        key = name.removeprefix(f"{MESSAGE}{channel}:")
        with self.core.store.read() as view:
            if not seen.complete and still_waits(view, key):
                return  # the inbox is longer than its list
            where = (row["stream"], row["question"], row["version"], row["position"])
            settlement = settlement_of(view, *where)
        if not self._may_call():
            return
        ts = None if row.get("gone") else self._known_ts(channel, key, row)
        if ts is not None:
            self._update(channel, ts, key, settled_message(row["heading"], settlement))
        self._save({name: None})

    def _may_call(self) -> bool:
        """Whether this pass may send another request; raises if another process leads now."""
        if self._calls >= MAX_CALLS:
            return False
        self._calls += 1
        self._check_leader()
        return True

    # -- rows ------------------------------------------------------------------------------

    def _remember(self, channel: str, name: str, shown: Json) -> None:
        """Record a message. If another process has recorded one meanwhile, delete this one."""
        ts = shown["ts"]

        def write(tx: WriteTransaction) -> bool:
            known = tx.rows_for_update(TABLE, name).get(name) or {}
            twice = ts is not None and known.get("ts") not in (None, ts)
            if not twice:
                tx.put_rows(TABLE, {name: {**shown, "gone": ts is None}})
            return twice

        if self.core.engine.transaction(write):
            self.api.delete(channel, ts)

    def _save(self, rows: Mapping[str, Any]) -> None:
        self.core.engine.transaction(lambda tx: tx.put_rows(TABLE, rows))

    def _forget_channels(self, rows: Mapping[str, Json]) -> None:
        """Delete the rows of channels that the settings no longer have."""
        known = tuple(f"{MESSAGE}{each}:" for each in self.config.channels)
        gone = [name for name in rows if not name.startswith(known)]
        if gone:
            self._save(dict.fromkeys(gone))


def _seen(view: ReadTransaction) -> Seen:
    items, complete = waiting_items(view)
    return Seen(items, complete, view.rows_under(TABLE, MESSAGE), view.head(), view.now())


def _facts(item: Item, seen: Seen) -> Json:
    """What is needed to show later how the item was settled."""
    return {
        "at": seen.now,
        "heading": headline(item),
        "stream": item.stream,
        "question": item.question,
        "version": item.version,
        "position": seen.head,
    }


def _slack_time(at_us: int) -> str:
    return f"{max(0, at_us) // SECOND_US}.{max(0, at_us) % SECOND_US:06}"


def note_status(core: Core, part: str, fault: DetentError | None) -> None:
    """Record the last error of a part for `detent doctor`, or that there is none."""
    with core.store.read() as view:
        known, now = view.rows("system_state").get(STATUS) or {}, view.now()
    wanted = None if fault is None else {"error": fault.message, "hint": fault.hint}
    before = known.get(part)
    if wanted == (None if before is None else {name: before[name] for name in ("error", "hint")}):
        return

    def write(tx: WriteTransaction) -> None:
        others = dict(tx.rows_for_update("system_state").get(STATUS) or {})
        others.pop(part, None)
        own = {} if wanted is None else {part: {**wanted, "at": views.utc(now)}}
        tx.put_rows("system_state", {STATUS: {**others, **own} or None})

    core.engine.transaction(write)


# ---- the service in the keeper's process -----------------------------------------------------


class SlackKeeper:
    """Updates messages on its own thread while this process leads."""

    def __init__(self, core: Core, name: str) -> None:
        self.core = core
        self._messages: Messages | None = None
        #: The store's time before which nothing is sent.
        self._not_before = 0
        self._head: int | None = None
        self._term = 0
        interval_s = core.settings.slack_interval_ms / 1_000
        self.election = LeaderElection(core, ROLE, name, TERM_US)
        self.service = LeaderService(core, self.election, self.work, pause_s=interval_s)

    def start(self) -> None:
        self.service.start()

    def stop(self) -> None:
        self.service.stop()

    def work(self, now: int) -> bool:
        """One pass, unless nothing has changed or Slack has asked to wait."""
        if now < self._not_before:
            return False
        with self.core.store.read() as view:
            head = view.head()
        unchanged = head == self._head and self._term == self.election.term
        if unchanged and not (self._messages is not None and self._messages.due(now)):
            return False
        more = self._pass(now)
        self._head = None if more or self._not_before > now else head
        self._term = self.election.term
        return more

    def _pass(self, now: int) -> bool:
        try:
            if self._messages is None:
                config = slack_config(self.core.settings)
                api = SlackApi(web_client(config.url, config.bot_token))
                self._messages = Messages(self.core, config, api, self.check_leader)
            return self._messages.run()
        except RateLimited as error:
            self._pause(now, error.retry_after_s * SECOND_US, error)
        except LeadershipLost as error:
            log.info("slack: %s", error)
        except DetentError as error:
            self._pause(now, PAUSE_US, error)
            note_status(self.core, MESSAGES, error)
        return False

    def _pause(self, now: int, pause_us: int, error: DetentError) -> None:
        self._not_before = now + pause_us
        log.warning("slack: %s", error.text)

    def check_leader(self) -> None:
        if self.service.stopping.is_set() or self.election.acquire() is None:
            raise LeadershipLost("Another process updates Slack now, or this process is stopping.")
