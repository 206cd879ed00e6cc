"""The hub: one thread follows the log, and every reader of this process is encoded from there.

Frames are batches, made once for all readers with the same filter. A reader has a short queue; one
that does not keep up is dropped with a reason and never slows a writer or another reader. The hub's
position and a reader's cursor move only after delivery: a batch whose delivery fails is delivered
again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager

import anyio.to_thread

from detent import failpoints, feed
from detent.errors import Invalid, TooMany, Unavailable
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
    with_lifecycles,
)
from detent.store.port import Logged, Store

log = logging.getLogger("detent.gateway")

#: Frames are at least this far apart, and further with many readers.
MIN_PAUSE_S, MAX_PAUSE_S = 0.1, 0.25
PAUSE_PER_READER_S = 0.00025
#: Frames that a reader may be behind before it is dropped.
MAX_FRAMES = 64
MAX_READERS = 5_000
#: Sending to a thousand readers takes a tenth of a second; nobody else waits that long for a turn.
MAX_WOKEN_PER_TURN = 20
#: How often it is looked whether the tokens of open connections still hold.
TOKEN_CHECK_S = 1.0
#: A quiet connection hears its cursor this often.
IDLE_CHECKS = 15
#: How often the hub's thread checks whether the hub is stopping while the loop has not delivered.
CHECK_S = 0.5


class Reader:
    """One connection: the frames that wait for it, and why it ends, once it does."""

    def __init__(self, chosen: Filter, form: Form, key: str) -> None:
        self.filter = chosen
        self.form = form
        #: The digest of the token that it came with.
        self.key = key
        self.ended: str | None = None
        self.over = asyncio.Event()
        self.cursor = 0
        self._frames: deque[Frame] = deque()
        self._news = asyncio.Event()

    def enqueue(self, news: Frame) -> None:
        """Put it into the queue; whoever tells many wakes them little by little."""
        if len(self._frames) >= MAX_FRAMES:
            self.end("slow_reader")
        if self.ended is None:
            self._frames.append(news)

    def wake(self) -> None:
        self._news.set()

    def end(self, reason: str) -> None:
        """Let go of it: what waits is dropped, and the last word says from where to begin again."""
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
    """Belongs to one event loop, on which everything but the following of the log happens."""

    def __init__(self, store: Store, tokens: Tokens) -> None:
        self.store = store
        self.tokens = tokens
        #: All readers, and those of them that have caught up, by what they are encoded.
        self.readers: set[Reader] = set()
        self._live: dict[tuple[Filter, Form], set[Reader]] = {}
        #: Up to here, everything has been encoded to those who have caught up.
        self.position = 0
        self._moved = asyncio.Event()
        self._to_wake: deque[Reader] = deque()
        self._follower = feed.Follower(store, "detent-feed", self._deliver, pause_s=self._pause_s)

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.position = await anyio.to_thread.run_sync(feed.head, self.store)
        self._follower.start(self.position)
        self._watch = asyncio.create_task(self._watch_tokens())

    def stop(self) -> None:
        """End every connection; they are encoded that the server goes away."""
        self._follower.stop()
        self._watch.cancel()
        for reader in self.readers:
            reader.end("stopping")

    def join(self) -> None:
        self._follower.join()

    # -- the thread ------------------------------------------------------------------------

    def _deliver(self, batch: Sequence[Logged]) -> None:
        """Have the event loop deliver a batch; returns after it has, raises if it could not."""
        found = with_lifecycles(self.store, batch)
        failpoints.hit("feed.read")
        done: Future[None] = Future()
        try:
            self._loop.call_soon_threadsafe(self._publish_for, done, found)
        except RuntimeError:
            self._follower.stop()  # the loop has ended, and with it every reader
        while not done.done():
            if self._follower.stopping.is_set():
                raise Unavailable("The gateway is stopping.", retry_after_s=1)
            wait([done], CHECK_S)
        done.result()

    def _pause_s(self) -> float:
        return min(MAX_PAUSE_S, max(MIN_PAUSE_S, PAUSE_PER_READER_S * len(self.readers)))

    # -- the loop --------------------------------------------------------------------------

    def _publish_for(self, done: "Future[None]", batch: list[FeedEvent]) -> None:
        try:
            self._publish(batch)
        except Exception as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    def _publish(self, batch: list[FeedEvent]) -> None:
        """Tell everybody what has come; encode nothing if nobody listens.

        All frames are made before the first reader gets one: a failure leaves the batch as a whole
        to be delivered again.
        """
        position = batch[-1].logged.position
        said = encoded(batch) if self._live else ()
        made = [
            (group, frame(said, chosen, form, position))
            for (chosen, form), group in self._live.items()
        ]
        for group, news in made:
            if news is not None:
                self._enqueue_for(group, news)
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
        """A few readers in each turn of the loop: requests have theirs in between."""
        for _ in range(min(MAX_WOKEN_PER_TURN, len(self._to_wake))):
            self._to_wake.popleft().wake()
        if self._to_wake:
            self._loop.call_soon(self._wake_some)

    async def _watch_tokens(self) -> None:
        """Once a second, end connections whose token is gone; now and then, give a sign of life."""
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
        except Exception:
            log.warning("The tokens cannot be read; it is tried again.", exc_info=True)
            return
        for reader in self.readers:
            if not self.tokens.valid(reader.key):
                reader.end("unauthorized")

    # -- readers ---------------------------------------------------------------------------

    async def check(self, cursor: int | None) -> None:
        """Refuse a cursor that this log has not reached, and one reader too many."""
        if len(self.readers) >= MAX_READERS:
            raise TooMany(f"There are {MAX_READERS} readers already.", retry_after_s=5)
        if cursor is not None and cursor > self.position:
            head = await anyio.to_thread.run_sync(feed.head, self.store)
            if cursor > head:
                raise Invalid(
                    f"The log ends at {head}; the cursor is not one of it.",
                    field="cursor",
                    given=cursor,
                    hint="Begin again without a cursor, and load what you show anew.",
                )

    async def read(
        self, reader: Reader, cursor: int | None, *, live: bool
    ) -> AsyncGenerator[Frame, None]:
        """Everything after the cursor that the filter lets through, in order; then a last word."""
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
        """Read the log up to where the hub is, and join there: no await stands between the two."""
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
        """Whether a reader is exactly where the hub is.

        One that is behind would miss events. One that is ahead, because it has read further at
        another gateway, would get events that it has already.
        """
        return reader.cursor == self.position

    async def _history(self, reader: Reader) -> AsyncGenerator[Frame, None]:
        """The log as it stands now, and no more."""
        head = await anyio.to_thread.run_sync(feed.head, self.store)
        while reader.cursor < head and reader.ended is None:
            news, cursor = await self._next_batch(reader, head)
            if news is not None:
                yield news
            reader.cursor = cursor

    async def _next_batch(self, reader: Reader, upto: int) -> tuple[Frame | None, int]:
        """What the filter lets through of the next batch, and the cursor after the batch."""
        batch = await anyio.to_thread.run_sync(self._read, reader.cursor, upto)
        cursor = batch[-1].logged.position if len(batch) == feed.BATCH else upto
        return frame(batch, reader.filter, reader.form, cursor), cursor

    def _read(self, after: int, upto: int) -> list[EventMessages]:
        found = [each for each in feed.read(self.store, after) if each.position <= upto]
        batch = encoded(with_lifecycles(self.store, found))
        failpoints.hit("feed.history")
        return batch
