"""Virtual keepers, which run the real keeper's passes, and readers that tail the feed."""

import logging
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress

from detent import feed
from detent.errors import Unavailable
from detent.keeper import scheduler, timers
from detent.keeper.keeper import Duty, Keeper
from detent.keeper.unblocker import Unblocker
from detent.operations.context import Core
from detent.store.types import LoggedEvent
from verification.simulation.injected_faults import Violation
from verification.simulation.virtual_process import Process

# A full disk is part of the play: no keeper needs to complain of it on the terminal.
logging.getLogger("detent").addHandler(logging.NullHandler())


def duties() -> Sequence[Duty]:
    return (
        Duty("due", 500, _checked(timers.run)),
        Duty("unblock", 2_000, _checked(Unblocker().run)),
        Duty("schedules", 500, _checked(scheduler.run)),
    )


def _checked(run: Callable[[Core], int]) -> Callable[[Core], int]:
    """A duty whose failed assertions are violations. Others act during it, and fail inside it.

    A keeper continues after any exception of a duty, so that it would hide an assertion.
    """

    def once(core: Core) -> int:
        try:
            return run(core)
        except AssertionError as failed:
            raise Violation(str(failed)) from failed

    return once


class VirtualKeeper:
    """Elected or standing by, one pass a step. Others act between the passes of its duties."""

    mortal = True

    def __init__(self, process: Process) -> None:
        self.process = process

    def life(self) -> Generator[None]:
        keeper = Keeper(self.process.core, self.process.name, duties())
        while True:
            self.process.store.begin()
            with suppress(Unavailable):
                keeper.run_once()
            self.process.auditor.look()
            yield


class Reader:
    """Tails the feed, and goes on after a death from the last event that it took."""

    mortal = True

    def __init__(self, process: Process) -> None:
        self.process = process
        self.cursor = 0

    def life(self) -> Generator[None]:
        tail = feed.Tail(self.process.store, self._deliver, self.cursor)
        while True:
            self.process.store.begin()
            tail.step()
            self.cursor = tail.cursor
            yield

    def _deliver(self, batch: Sequence[LoggedEvent]) -> None:
        self.process.auditor.tailed(self.process.name, batch)
