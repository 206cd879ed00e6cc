"""The function runner: calls a Python handler with its arguments, on a thread or on the loop."""

import traceback
from typing import Any

from detent.app.async_run_context import AsyncRun
from detent.app.failures import Crash, Failure, Suspended
from detent.app.handlers import FunctionHandler
from detent.app.journal import Journal
from detent.app.run_context import Run
from detent.app.run_operations import drive, drive_async
from detent.app.values import storable
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.trace_propagation import run_span
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient


class FunctionRunner:
    """Calls a plain function, or awaits a coroutine function if it is `asynchronous`."""

    stoppable = False

    def __init__(self, handler: FunctionHandler) -> None:
        self.function = handler.function
        self.parameters = handler.parameters
        self.asynchronous = handler.asynchronous

    def execute(self, run: ActiveRun, client: EngineClient) -> c.Report:
        journal = Journal(run, client) if self.parameters.wants_run else None
        try:
            context = None if journal is None else Run(journal)
            with run_span(run.traceparent):
                value = self.function(**self.parameters.decode(run.payload, context))
        except BaseException as error:
            report = _raised(run, error)
        else:
            report = _returned(run, journal, value)
        if journal is not None:
            drive(journal.report_unreached(), client)
        return report

    async def execute_async(self, run: ActiveRun, client: EngineClient) -> c.Report:
        journal = Journal(run, client) if self.parameters.wants_run else None
        try:
            context = None if journal is None else AsyncRun(journal)
            with run_span(run.traceparent):
                value = await self.function(**self.parameters.decode(run.payload, context))
        except BaseException as error:
            report = _raised(run, error)
        else:
            report = _returned(run, journal, value)
        if journal is not None:
            await drive_async(journal.report_unreached(), client)
        return report


def _returned(run: ActiveRun, journal: Journal | None, value: Any) -> c.Report:
    grant, run_id = run.held.grant, run.run_id
    if journal is not None and journal.suspension is not None:
        return _swallowed(run, journal.suspension)
    try:
        return run_outcome.completed(grant, run_id, storable(value, "the result"))
    except DetentError as error:
        return run_outcome.failed(grant, run_id, run_outcome.of_exception(error))


def _raised(run: ActiveRun, error: BaseException) -> c.Report:
    if isinstance(error, Crash):
        raise error
    interruption = run_outcome.interrupted(error)
    if isinstance(interruption, Suspended):
        return interruption.report
    if run.stopped is None and not isinstance(error, DetentError | Failure):
        run.files.write("".join(traceback.format_exception(error)))
    return run_outcome.failed(run.held.grant, run.run_id, run_outcome.of_exception(error))


def _swallowed(run: ActiveRun, suspension: Suspended) -> c.Report:
    error = Failure(
        f"the handler caught the suspension for {suspension.report.wait!r} and continued. "
        "Code that catches BaseException must raise it again"
    )
    return run_outcome.failed(run.held.grant, run.run_id, run_outcome.of_exception(error))
