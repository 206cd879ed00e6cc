"""The function runner: calls a handler with its arguments, on a thread or on the event loop."""

import traceback
from collections.abc import Callable
from typing import Any

from detent.errors import DetentError
from detent.kernel import commands as c
from detent.worker import run_outcome
from detent.worker.active_run import Attempt
from detent.worker.arguments import Parameters
from detent.worker.engine_client import Line
from detent.worker.failures import Crash, Failure, Suspended
from detent.worker.journal import Journal
from detent.worker.run_context import AsyncRun, Run
from detent.worker.run_requests import drive, drive_async
from detent.worker.values import storable


class FunctionRunner:
    """Runs a plain function, or a coroutine function if `asynchronous`."""

    stoppable = False

    def __init__(
        self, function: Callable[..., Any], parameters: Parameters, *, asynchronous: bool
    ) -> None:
        self.function = function
        self.parameters = parameters
        self.asynchronous = asynchronous

    def run(self, attempt: Attempt, line: Line) -> c.Report:
        journal = Journal(attempt, line) if self.parameters.wants_run else None
        try:
            run = None if journal is None else Run(journal)
            value = self.function(**self.parameters.decode(attempt.payload, run))
        except BaseException as error:
            report = _raised(attempt, error)
        else:
            report = _returned(attempt, journal, value)
        if journal is not None:
            drive(journal.notice(), line)
        return report

    async def run_async(self, attempt: Attempt, line: Line) -> c.Report:
        journal = Journal(attempt, line) if self.parameters.wants_run else None
        try:
            run = None if journal is None else AsyncRun(journal)
            value = await self.function(**self.parameters.decode(attempt.payload, run))
        except BaseException as error:
            report = _raised(attempt, error)
        else:
            report = _returned(attempt, journal, value)
        if journal is not None:
            await drive_async(journal.notice(), line)
        return report


def _returned(attempt: Attempt, journal: Journal | None, value: Any) -> c.Report:
    grant, run_id = attempt.hold.grant, attempt.run_id
    if journal is not None and journal.suspension is not None:
        return _swallowed(attempt, journal.suspension)
    try:
        return run_outcome.completed(grant, run_id, storable(value, "the result"))
    except DetentError as error:
        return run_outcome.failed(grant, run_id, run_outcome.of_exception(error))


def _raised(attempt: Attempt, error: BaseException) -> c.Report:
    if isinstance(error, Crash):
        raise error
    interruption = run_outcome.interrupted(error)
    if isinstance(interruption, Suspended):
        return interruption.report
    if attempt.stopped is None and not isinstance(error, DetentError | Failure):
        attempt.files.write("".join(traceback.format_exception(error)))
    return run_outcome.failed(attempt.hold.grant, attempt.run_id, run_outcome.of_exception(error))


def _swallowed(attempt: Attempt, suspension: Suspended) -> c.Report:
    error = Failure(
        f"the handler caught the suspension for {suspension.report.wait!r} and went on; "
        "code that catches BaseException must raise it again"
    )
    return run_outcome.failed(attempt.hold.grant, attempt.run_id, run_outcome.of_exception(error))
