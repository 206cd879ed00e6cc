"""Submissions: the tasks that detent has on one cluster, by key. An actor there holds them.

A key is executed once, however often it is submitted. The run with the highest fence follows it:
requests of a lower fence are refused. The tasks belong to the actor, so that they outlive the
worker that submitted them. A task that no worker has followed for a while is cancelled. This module
does not import Ray; `launch` starts a task.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple

from detent.worker.runners.ray.messages import FOLLOWED, STALE, UNKNOWN, Ended, News, TaskSpec

#: How much output of one task waits for its follower; then the task waits when it writes more.
MAX_WAITING_BYTES = 1_048_576


class Launched(NamedTuple):
    """A task that was started: its end, where its evidence is, and how to cancel it."""

    ended: Awaitable[Ended]
    evidence: Any
    cancel: Callable[[], None]


Launch = Callable[[TaskSpec, dict[str, Any]], Launched]


class Submission:
    """One task and what its follower has not taken yet."""

    def __init__(self, key: str, fence: int, follower: str, now_s: float) -> None:
        self.key, self.fence, self.follower = key, fence, follower
        self.followed_s = now_s
        self.output: deque[bytes] = deque()
        self.waiting = 0
        #: Whether the node discards the rest of the output.
        self.output_cut = False
        #: How many pieces of output, and whether the end, were given to the follower.
        self.given, self.end_given = 0, False
        self.room = asyncio.Event()
        self.launched: Launched | None = None
        self.started = False
        self.ended: Ended | None = None
        #: When the follower confirmed that it knows the end.
        self.known_s: float | None = None

    def give(self) -> News:
        """What the follower does not know yet."""
        self.given, self.end_given = len(self.output), self.ended is not None
        evidence = None
        if self.ended is not None and self.ended.how == "completed" and self.launched is not None:
            evidence = self.launched.evidence
        output = tuple(self.output)
        return News(
            self.key, self.fence, output, self.output_cut, self.ended, evidence, self.started
        )

    def confirm(self, now_s: float) -> None:
        """The follower has what was given to it."""
        for _ in range(self.given):
            self.waiting -= len(self.output.popleft())
        self.given = 0
        if self.end_given and self.known_s is None:
            self.known_s = now_s
        if self.waiting < MAX_WAITING_BYTES:
            self.room.set()


class Follower:
    """A driver process: the submissions that it follows and that have news."""

    def __init__(self) -> None:
        self.ready: set[str] = set()
        self.given: list[Submission] = []
        self.stale: list[News] = []
        self.wake = asyncio.Event()
        self.polled_s = 0.0

    def notify(self, key: str) -> None:
        self.ready.add(key)
        self.wake.set()


class Submissions:
    """All submissions of one cluster. The methods are called by drivers and by tasks."""

    def __init__(
        self,
        launch: Launch,
        *,
        orphan_s: float,
        keep_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.launch, self.clock = launch, clock
        #: A task without a follower is cancelled after `orphan_s`; an end is kept for `keep_s`.
        self.orphan_s, self.keep_s = orphan_s, keep_s
        self.submissions: dict[str, Submission] = {}
        self.followers: dict[str, Follower] = {}
        #: The highest fence of submissions that are gone, and when they went.
        self.past: dict[str, tuple[int, float]] = {}
        self._waits: set[asyncio.Future[None]] = set()

    # -- called by drivers -------------------------------------------------------------------

    async def submit(self, follower: str, spec: TaskSpec, options: dict[str, Any]) -> str:
        """Start the task, or follow the one that has this key already."""
        known = await self.attach(follower, spec.key, spec.fence)
        if known != UNKNOWN:
            return known
        if self.past.get(spec.key, (0, 0.0))[0] >= spec.fence:
            return STALE
        made = Submission(spec.key, spec.fence, follower, self.clock())
        made.launched = self.launch(spec, options)
        self.submissions[spec.key] = made
        self._keep(self._wait(made, made.launched))
        return FOLLOWED

    async def attach(self, follower: str, key: str, fence: int) -> str:
        """Follow a submission with this fence, unless a higher fence follows it."""
        found = self.submissions.get(key)
        if found is None:
            return UNKNOWN
        if fence < found.fence:
            return STALE
        if found.follower != follower or found.fence != fence:
            self._leave(found)
            found.follower, found.fence = follower, fence
            found.given, found.end_given = 0, False
            found.followed_s, found.known_s = self.clock(), None
            self._follower(follower).notify(key)
        return FOLLOWED

    def _leave(self, found: Submission) -> None:
        before = self._follower(found.follower)
        before.given = [each for each in before.given if each is not found]
        before.stale.append(News(found.key, found.fence, stale=True))
        before.wake.set()

    async def cancel(self, key: str, fence: int) -> str:
        """End the task."""
        found = self.submissions.get(key)
        if found is None:
            return UNKNOWN
        if fence < found.fence:
            return STALE
        self._cancel(found)
        return FOLLOWED

    async def leave(self, key: str, fence: int) -> str:
        """Follow the task no longer; it is cancelled if no other run follows it in time."""
        found = self.submissions.get(key)
        if found is None or fence < found.fence:
            return UNKNOWN if found is None else STALE
        self._leave(found)
        found.follower = ""
        return FOLLOWED

    async def poll(self, follower: str, seconds: float) -> list[News]:
        """The news for one driver. The call confirms what the call before it has returned."""
        own = self._follower(follower)
        now_s = self.clock()
        for each in own.given:
            each.confirm(now_s)
        own.given = []
        for each in self.submissions.values():
            if each.follower == follower:
                each.followed_s = now_s
        own.polled_s = now_s
        if not own.ready and not own.stale:
            own.wake.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(own.wake.wait(), seconds)
        return self._give(own, follower)

    def _give(self, own: Follower, follower: str) -> list[News]:
        stale, own.stale = own.stale, []
        found = [self.submissions[key] for key in own.ready if key in self.submissions]
        own.ready = set()
        own.given = [each for each in found if each.follower == follower]
        return [*stale, *(each.give() for each in own.given)]

    # -- called by tasks ---------------------------------------------------------------------

    async def started(self, key: str) -> None:
        """A node has begun to execute the task."""
        found = self.submissions.get(key)
        if found is not None:
            found.started = True
            self._follower(found.follower).notify(key)

    async def write(self, key: str, output: bytes, is_cut: bool = False) -> bool:
        """Keep output for the follower. Waits while much output waits. False: it is not kept."""
        found = self.submissions.get(key)
        if found is None:
            return False
        found.output.append(output)
        found.output_cut = is_cut
        found.waiting += len(output)
        self._follower(found.follower).notify(key)
        while found.waiting >= MAX_WAITING_BYTES:
            found.room.clear()
            await found.room.wait()
        return key in self.submissions

    # -- its own work ------------------------------------------------------------------------

    async def _wait(self, made: Submission, launched: Launched) -> None:
        made.ended = await launched.ended
        self._follower(made.follower).notify(made.key)

    def _keep(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)

    def _cancel(self, found: Submission) -> None:
        if found.launched is not None and found.ended is None:
            found.launched.cancel()

    def _follower(self, name: str) -> Follower:
        return self.followers.setdefault(name, Follower())

    def sweep(self) -> None:
        """Forget ends that are known, and cancel tasks that no driver follows."""
        now_s = self.clock()
        for each in list(self.submissions.values()):
            if each.known_s is not None and now_s - each.known_s >= self.keep_s:
                self._forget(each, now_s)
            elif now_s - each.followed_s >= self.orphan_s:
                self._cancel(each)
                self._forget(each, now_s)
        in_use = {each.follower for each in self.submissions.values()}
        self.followers = {
            name: each
            for name, each in self.followers.items()
            if name in in_use or now_s - each.polled_s < self.orphan_s
        }
        self.past = {
            key: (fence, gone_s)
            for key, (fence, gone_s) in self.past.items()
            if now_s - gone_s < self.orphan_s
        }

    def _forget(self, each: Submission, now_s: float) -> None:
        del self.submissions[each.key]
        self.past[each.key] = (each.fence, now_s)
        each.waiting = 0
        each.room.set()
