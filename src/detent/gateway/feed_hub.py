"""The feed hub: one thread follows the log and publishes it to all readers of this process.

A frame is a batch of messages, encoded once for all readers with the same filter. A reader has a
short queue; one that is too slow is dropped with a reason and never slows a writer or another
reader. The position of the hub and the cursor of a reader move only after delivery: if a delivery
fails, the batch is delivered again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial

import anyio.to_thread

from detent import failpoints, feed
from detent.errors import Invalid, TooMany, Unavailable
from detent.failure_log import FailureLog
from detent.gateway.auth import Tokens
from detent.gateway.feed_messages import (
    EventMessages,
    FeedEvent,
    Filter,
    Form,
    Frame,
    encoded,
    frame,
    single,
    with_states,
)
from detent.store.port import Store
from detent.store.types import LoggedEvent

log = logging.getLogger("detent.gateway")

#: The time between two frames, which grows with the number of readers.
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 0.25
PAUSE_PER_READER_S = 0.00025
#: The length of a reader's queue; a reader that exceeds it is dropped.
MAX_FRAMES = 64
MAX_READERS = 5_000
#: Sending to a thousand readers takes 0.1 s, so only this many are woken in one turn of the loop.
MAX_WOKEN_PER_TURN = 20
#: How often the tokens of open connections are checked.
TOKEN_CHECK_S = 1.0
#: After this many checks, each connection is sent its cursor.
IDLE_CHECKS = 15
#: How often the hub's thread checks whether the hub is stopping while the loop has not delivered.
CHECK_S = 0.5


class Reader:
    """One connection: the frames in its queue, and the reason why it has ended."""

    def __init__(self, chosen: Filter, form: Form, key: str) -> None:
        self.filter = chosen
        self.form = form
        #: The digest of its token.
        self.key = key
        self.ended: str | None = None
        self.over = asyncio.Event()
        self.cursor = 0
        self._frames: deque[Frame] = deque()
        self._news = asyncio.Event()

    def enqueue(self, news: Frame) -> None:
        """Put a frame into the queue; `wake` must follow."""
        if len(self._frames) >= MAX_FRAMES:
            self.end("slow_reader")
        if self.ended is None:
            self._frames.append(news)

    def wake(self) -> None:
        self._news.set()

    def end(self, reason: str) -> None:
        """End the connection: drop its queue; its last message has the cursor to resume from."""
        if self.ended is None:
            self.ended = reason
            self._frames.clear()
            self._news.set()
            self.over.set()

    async def next(self) -> Frame | None:
        """The next frame, None after the end."""
        while not self._frames:
            if self.ended is not None:
                return None
            self._news.clear()
            await self._news.wait()
        return self._frames.popleft()


class FeedHub:
    """Runs on one event loop; only the follower of the log has its own thread."""

    def __init__(self, store: Store, tokens: Tokens) -> None:
        self.store = store
        self.tokens = tokens
        #: All readers, and those that have caught up, by filter and form.
        self.readers: set[Reader] = set()
        self._live: dict[tuple[Filter, Form], set[Reader]] = {}
        #: Up to this position, everything was sent to the readers that have caught up.
        self.position = 0
        self._moved = asyncio.Event()
        self._to_wake: deque[Reader] = deque()
        self._token_reads = FailureLog(log, "tokens cannot be read", "tokens are read again")
        self._follower = feed.Follower(
            store,
            "detent-feed",
            self._deliver,
            pause_s=self._pause_s,
            pass_over=self._pass_over,
        )

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.position = await anyio.to_thread.run_sync(feed.head, self.store)
        self._follower.start(self.position)
        self._watch = asyncio.create_task(self._watch_tokens())

    def stop(self) -> None:
        """End every connection with the reason `stopping`."""
        self._follower.stop()
        self._watch.cancel()
        for reader in self.readers:
            reader.end("stopping")

    def join(self) -> None:
        self._follower.join()

    # -- the thread ------------------------------------------------------------------------

    def _deliver(self, batch: Sequence[LoggedEvent]) -> None:
        """Deliver a batch on the event loop; returns after the delivery, raises if it failed."""
        found = with_states(self.store, batch)
        failpoints.hit("feed.read")
        self._on_loop(partial(self._publish, found))

    def _pass_over(self, cursor: int) -> int:
        """Move to the end of the log without reading it, unless a reader has caught up."""
        if not self._live:
            end = feed.head(self.store)
            if end > cursor:
                self._on_loop(partial(self._move_without_readers, end))
        return self.position

    def _on_loop(self, call: Callable[[], None]) -> None:
        """Call a function on the event loop; returns after it has ended, raises if it failed."""
        done: Future[None] = Future()
        try:
            self._loop.call_soon_threadsafe(_call_for, done, call)
        except RuntimeError:
            self._follower.stop()  # the loop has ended, and with it every reader
        while not done.done():
            if self._follower.stopping.is_set():
                raise Unavailable("The gateway is stopping.", retry_after_s=1)
            with suppress(TimeoutError):
                done.exception(CHECK_S)
        done.result()

    def _pause_s(self) -> float:
        return min(MAX_PAUSE_S, max(MIN_PAUSE_S, PAUSE_PER_READER_S * len(self.readers)))

    # -- the loop --------------------------------------------------------------------------

    def _publish(self, batch: list[FeedEvent]) -> None:
        """Send a batch to every reader that has caught up; without readers nothing is encoded.

        All frames are encoded before the first is sent: after a failure the whole batch is
        delivered again.
        """
        position = batch[-1].logged.position
        messages = encoded(batch) if self._live else ()
        made = [
            (group, frame(messages, chosen, form, position))
            for (chosen, form), group in self._live.items()
        ]
        for group, news in made:
            if news is not None:
                self._enqueue_for(group, news)
        self._move(position)

    def _move_without_readers(self, position: int) -> None:
        """Move without a delivery. A reader that has just caught up needs the events."""
        if not self._live:
            self._move(position)

    def _move(self, position: int) -> None:
        self.position = position
        self._moved.set()
        self._moved = asyncio.Event()

    def _enqueue_for(self, group: Iterable[Reader], news: Frame) -> None:
        waking = bool(self._to_wake)
        for reader in group:
            reader.enqueue(news)
            self._to_wake.append(reader)
        if not waking:
            self._wake_some()

    def _wake_some(self) -> None:
        """Wake a few readers in each turn of the loop, so that requests run in between."""
        for _ in range(min(MAX_WOKEN_PER_TURN, len(self._to_wake))):
            self._to_wake.popleft().wake()
        if self._to_wake:
            self._loop.call_soon(self._wake_some)

    async def _watch_tokens(self) -> None:
        """End connections that are no longer authorised; send cursors to idle connections."""
        looks = 0
        while True:
            await asyncio.sleep(TOKEN_CHECK_S)
            looks += 1
            if self.readers:
                await self._end_unauthorized()
            if looks % IDLE_CHECKS == 0:
                for (_, form), group in self._live.items():
                    self._enqueue_for(group, single(form, "cursor", self.position))

    async def _end_unauthorized(self) -> None:
        try:
            await anyio.to_thread.run_sync(self.tokens.read)
        except Exception as error:
            self._token_reads.failed(error)
            return
        self._token_reads.worked()
        for reader in self.readers:
            if not self.tokens.may_follow(reader.key, reader.filter.project):
                reader.end("unauthorized")

    # -- readers ---------------------------------------------------------------------------

    async def check(self, cursor: int | None) -> None:
        """Refuse a cursor beyond the end of the log, and a reader above the limit."""
        if len(self.readers) >= MAX_READERS:
            raise TooMany(f"The feed has {MAX_READERS} readers, the maximum.", retry_after_s=5)
        if cursor is not None and cursor > self.position:
            head = await anyio.to_thread.run_sync(feed.head, self.store)
            if cursor > head:
                raise Invalid(
                    f"The cursor {cursor} is beyond the end of the log, {head}.",
                    field="cursor",
                    given=cursor,
                    hint="Connect without a cursor, and load again what you show.",
                )

    async def read(
        self, reader: Reader, cursor: int | None, *, live: bool
    ) -> AsyncGenerator[Frame, None]:
        """Everything after the cursor that matches the filter, in order; then a last message."""
        reader.cursor = self.position if cursor is None else cursor
        with self._registered(reader):
            yield single(reader.form, "hello", reader.cursor)
            async for news in self._catch_up(reader) if live else self._history(reader):
                yield news
            while live and (next_one := await reader.next()) is not None:
                yield next_one
                reader.cursor = next_one.cursor
        if reader.ended is not None:
            kind = "bye" if reader.ended == "stopping" else "resync"
            yield single(reader.form, kind, reader.cursor, reason=reader.ended)

    @contextmanager
    def _registered(self, reader: Reader) -> Iterator[None]:
        self.readers.add(reader)
        if self._follower.stopping.is_set():
            reader.end("stopping")
        try:
            yield
        finally:
            self.readers.discard(reader)
            group = self._live.get((reader.filter, reader.form), set())
            group.discard(reader)
            if not group:
                self._live.pop((reader.filter, reader.form), None)

    async def _catch_up(self, reader: Reader) -> AsyncGenerator[Frame, None]:
        """Read the log up to the hub's position, then join the hub, without an await in between."""
        while reader.ended is None:
            if self._at_hub_position(reader):
                self._live.setdefault((reader.filter, reader.form), set()).add(reader)
                return
            upto = self.position
            if reader.cursor > upto:
                await self._moved.wait()
                continue
            news, cursor = await self._next_batch(reader, upto)
            if news is not None:
                yield news
            reader.cursor = cursor

    def _at_hub_position(self, reader: Reader) -> bool:
        """Whether the reader's cursor is the position of the hub.

        A reader behind it would miss events. A reader ahead of it, which has read further at
        another gateway, would get events twice.
        """
        return reader.cursor == self.position

    async def _history(self, reader: Reader) -> AsyncGenerator[Frame, None]:
        """The log up to its present end."""
        head = await anyio.to_thread.run_sync(feed.head, self.store)
        while reader.cursor < head and reader.ended is None:
            news, cursor = await self._next_batch(reader, head)
            if news is not None:
                yield news
            reader.cursor = cursor

    async def _next_batch(self, reader: Reader, upto: int) -> tuple[Frame | None, int]:
        """The frame of the next batch, None if nothing matches, and the cursor after the batch.

        Also a batch that is not full may be followed by others: its size in bytes is limited.
        """
        batch = await anyio.to_thread.run_sync(self._read, reader.cursor, upto)
        cursor = batch[-1].logged.position if batch else upto
        return frame(batch, reader.filter, reader.form, cursor), cursor

    def _read(self, after: int, upto: int) -> list[EventMessages]:
        found = [each for each in feed.read(self.store, after) if each.position <= upto]
        batch = encoded(with_states(self.store, found))
        failpoints.hit("feed.history")
        return batch


def _call_for(done: "Future[None]", call: Callable[[], None]) -> None:
    try:
        call()
    except Exception as error:
        done.set_exception(error)
    else:
        done.set_result(None)
