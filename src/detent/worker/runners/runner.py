"""The contract of a runner: how one run of an intent is carried out. An extension point."""

from typing import Protocol

from detent.kernel.commands import Report
from detent.worker.active_run import Attempt
from detent.worker.engine_client import Line


class Runner(Protocol):
    """Carries out runs, many at once. A run that `attempt.on_stop` tells to end must end soon."""

    #: Awaited on the worker's event loop instead of blocking a thread of its own.
    asynchronous: bool
    #: Ends for certain, and soon, when it is told to; one that does not is left behind, fenced.
    stoppable: bool

    def run(self, attempt: Attempt, line: Line) -> Report:
        """Do the work and say how it ended; blocks until then."""

    async def run_async(self, attempt: Attempt, line: Line) -> Report:
        """The same, awaited."""
