"""The results of a plan step's runs, the last and the earlier ones, for its critic."""

from typing import Any

import msgspec

from detent.app.step_result import StepResult
from detent.kernel import commands as c
from detent.store.log_walk import events_of
from detent.store.port import LogReader
from detent.worker.active_run import ActiveRun

ENDS = {
    "run_succeeded": "succeeded",
    "run_failed": "failed",
    "run_timed_out": "timeout",
    "run_cancelled": "cancelled",
}


def result_of(run: ActiveRun, report: c.Report) -> StepResult:
    """The result of the run that has just ended."""
    run_id, attempt, resource = run.run_id, run.attempt, run.resource
    if isinstance(report, c.CompleteRun):
        return StepResult(run_id, "succeeded", attempt, resource, report.result)
    if isinstance(report, c.FailRun):
        return StepResult(
            run_id, "failed", attempt, resource, None, report.error_class, report.error
        )
    error = report.error if isinstance(report, c.TimeOutRun) else None
    return StepResult(run_id, "timeout", attempt, resource, None, "timeout", error)


def earlier_results(log: LogReader, job_id: str, step: str) -> tuple[StepResult, ...]:
    """The results of the step's earlier runs, oldest first, from the log."""
    begun: dict[str, dict[str, Any]] = {}
    ended = []
    for event in events_of(log, job_id):
        if event.subject is None or not event.data or not event.name.startswith("run_"):
            continue
        data = msgspec.json.decode(event.data)
        if event.name == "run_queued" and data.get("step") == step:
            begun[event.subject] = data
        elif event.name in ENDS and event.subject in begun:
            ended.append(_ended(event.subject, ENDS[event.name], begun[event.subject], data))
    return tuple(ended)


def _ended(run_id: str, state: str, begun: dict[str, Any], data: dict[str, Any]) -> StepResult:
    error_class = "timeout" if state == "timeout" else data.get("error_class")
    error = data.get("error") or data.get("reason")
    return StepResult(
        run_id, state, begun["attempt"], begun.get("resource"), None, error_class, error
    )
