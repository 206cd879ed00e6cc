"""Critics: functions of the app that decide what the result of a plan step is worth."""

import dataclasses
import logging

from detent.app.failures import Failure
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.worker import run_outcome
from detent.worker.active_run import ActiveRun
from detent.worker.engine_client import EngineClient
from detent.worker.step_history import earlier_results, result_of

log = logging.getLogger("detent.worker")

#: The decision on a step whose critic the worker does not have: none of the five, so it fails.
UNKNOWN_CRITIC = "unknown_critic"


def critic_of(run: ActiveRun) -> str | None:
    """The name of the critic that the plan step names, or else its intent."""
    if run.step is None:
        return None
    declared: str | None = run.intent.declared.options.get("critic")
    return run.step.critic or declared


def has_critic(run: ActiveRun) -> bool:
    """Whether a critic decides about the plan step of the run."""
    return (critic_of(run) or run.intent.name) in run.intent.app.critics


def require_critic(run: ActiveRun) -> None:
    """Raise Failure, before the run starts, if this worker does not have the critic of the step."""
    name, known = critic_of(run), run.intent.app.critics
    if name is not None and name not in known:
        raise Failure(
            f"the step names the critic {name!r}, which this worker does not have. "
            f"Known: {', '.join(sorted(known)) or 'none'}"
        )


def with_decision(run: ActiveRun, report: c.Report, client: EngineClient) -> c.Report:
    """The report with the decision of the step's critic, if it has one."""
    step = run.step
    if step is None or not isinstance(report, c.CompleteRun | c.FailRun | c.TimeOutRun):
        return report
    critics, name = run.intent.app.critics, critic_of(run)
    if name is not None and name not in critics:
        return dataclasses.replace(report, decision=UNKNOWN_CRITIC)
    critic = critics.get(name or run.intent.name)
    if critic is None:
        return report
    try:
        history = client.query(
            lambda view: earlier_results(view, run.held.job.id, step.name), run.held.expired
        )
        decision = critic(result_of(run, report), history)
    except Exception as error:
        _note(run, client, f"the critic raised {run_outcome.shown(error)}")
        decision = "raised"
    return dataclasses.replace(report, decision=str(decision))


def _note(run: ActiveRun, client: EngineClient, note: str) -> None:
    log.warning("run %s: %s", run.run_id, note)
    try:
        client.execute(c.ReportProgress(run.held.grant, run.run_id, None, note))
    except DetentError as error:
        log.info("run %s: the note was refused: %s", run.run_id, error)
