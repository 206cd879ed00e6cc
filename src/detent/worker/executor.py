"""Carrying out one run, to the one report that ends it: on a thread, on a loop, in a test."""

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from detent import failpoints
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.program_log import about
from detent.worker import run_outcome
from detent.worker.active_run import Attempt, Stop
from detent.worker.engine_client import Line
from detent.worker.failures import Crash, Failure
from detent.worker.required_evidence import required_of, with_evidence
from detent.worker.step_history import StepResult, tried

log = logging.getLogger("detent.worker")

#: The decision on a step whose critic the worker does not have: none of the five, so it fails.
UNKNOWN_CRITIC = "unknown_critic"
#: What is reported for a run that had to stop, whatever its code made of it.
STOPPED: Mapping[Stop, Callable[[Attempt], c.Report | None]] = {
    # Nobody would hear it.
    Stop.LOST: lambda _: None,
    Stop.CANCEL: lambda attempt: c.ConfirmCancel(attempt.hold.grant),
    Stop.HAND_BACK: lambda attempt: c.HandBack(attempt.hold.grant),
    Stop.RUN_LIMIT: lambda attempt: _timed_out(attempt, f"ran longer than {attempt.run_s} s"),
    Stop.IDLE_LIMIT: lambda attempt: _timed_out(
        attempt, f"gave no sign of life for {attempt.idle_s} s"
    ),
}


def _timed_out(attempt: Attempt, how: str) -> c.Report:
    limit = str(attempt.stopped)
    return c.TimeOutRun(attempt.hold.grant, attempt.run_id, limit, f"the run {how}")


def carry_out(attempt: Attempt, line: Line) -> c.Report | None:
    """Run it to its end, blocking; what to report, None if nobody would hear it."""
    report = None
    if attempt.stopped is None:
        attempt.start()
        try:
            failpoints.hit("run.start")
            with about(**_ids(attempt)):
                report = _runner(attempt).run(attempt, line)
        except Crash:
            raise
        except BaseException as error:  # a runner's own fault must not take the worker along
            report = _broken(attempt, error)
    return concluded(attempt, report, line)


async def carry_out_async(attempt: Attempt, line: Line) -> c.Report | None:
    """The same, awaited; a critic or a look at the store may block, and is made aside."""
    report = None
    if attempt.stopped is None:
        attempt.start()
        try:
            with about(**_ids(attempt)):
                report = await _runner(attempt).run_async(attempt, line)
        except Crash:
            raise
        except BaseException as error:
            report = _broken(attempt, error)
    if attempt.step is None and not required_of(attempt):
        return concluded(attempt, report, line)
    return await line.aside(lambda: concluded(attempt, report, line))


def _ids(attempt: Attempt) -> dict[str, str | None]:
    """What lines in the log are about while the run is carried out."""
    job = attempt.hold.job
    return {"task_id": job.task_id, "job_id": job.id, "run_id": attempt.run_id}


def _runner(attempt: Attempt) -> Any:
    _check_critic(attempt)
    runner = attempt.intent.runner
    if runner is None:
        lack = "" if attempt.step is not None else ", and the work was submitted without a plan"
        raise Failure(f"intent {attempt.intent.name} has no handler in this worker{lack}")
    return runner


def _broken(attempt: Attempt, error: BaseException) -> c.Report:
    return run_outcome.failed(attempt.hold.grant, attempt.run_id, run_outcome.of_exception(error))


def concluded(attempt: Attempt, report: c.Report | None, line: Line) -> c.Report | None:
    """The report that counts: why it had to stop before how it ended, then the critic's word."""
    attempt.files.end_output()
    if attempt.stopped is not None and not _finished_anyway(attempt, report):
        report = STOPPED[attempt.stopped](attempt)
    if isinstance(report, c.CompleteRun):
        report = with_evidence(attempt, report, line)
    return None if report is None else _judged(attempt, report, line)


def _finished_anyway(attempt: Attempt, report: c.Report | None) -> bool:
    """A function that was done all the same keeps its end; a command's exit proves nothing."""
    runner = attempt.intent.runner
    return (
        attempt.stopped is Stop.HAND_BACK
        and isinstance(report, c.CompleteRun | c.SuspendRun)
        and runner is not None
        and not runner.stoppable
    )


# ---- the critic ----------------------------------------------------------------------------


def _judged(attempt: Attempt, report: c.Report, line: Line) -> c.Report:
    """With the decision of the step's critic, if it has one; an unknown critic fails the step."""
    if attempt.step is None or not isinstance(report, c.CompleteRun | c.FailRun | c.TimeOutRun):
        return report
    critics, name = attempt.intent.app.critics, critic_of(attempt)
    if name is not None and name not in critics:
        return dataclasses.replace(report, decision=UNKNOWN_CRITIC)
    critic = critics.get(name or attempt.intent.name)
    if critic is None:
        return report
    try:
        history = tried(line, attempt.hold.job.id, attempt.step.name)
        decision = critic(StepResult.of(attempt, report), history)
    except Exception as error:
        _note(attempt, line, f"the critic raised {run_outcome.shown(error)}")
        decision = "raised"
    return dataclasses.replace(report, decision=str(decision))


def critic_of(attempt: Attempt) -> str | None:
    """The name of the critic that the step names, or else its intent."""
    if attempt.step is None:
        return None
    declared: str | None = attempt.intent.declared.options.get("critic")
    return attempt.step.critic or declared


def _check_critic(attempt: Attempt) -> None:
    """Before anything is done: a result that no critic can judge is never accepted."""
    name, known = critic_of(attempt), attempt.intent.app.critics
    if name is not None and name not in known:
        raise Failure(
            f"the step names the critic {name!r}, which this worker does not have. "
            f"Known: {', '.join(sorted(known)) or 'none'}"
        )


def _note(attempt: Attempt, line: Line, note: str) -> None:
    log.warning("run %s: %s", attempt.run_id, note)
    try:
        line.tell(c.ReportProgress(attempt.hold.grant, attempt.run_id, None, note))
    except DetentError as error:
        log.info("run %s: the note was not taken: %s", attempt.run_id, error)
