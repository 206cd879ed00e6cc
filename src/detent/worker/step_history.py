"""What a critic is shown: how a step's run ended, and how its earlier runs did, from the log."""

from dataclasses import dataclass
from typing import Any

import msgspec

from detent.kernel import commands as c
from detent.store.log_walk import events_of
from detent.worker.active_run import Attempt
from detent.worker.engine_client import Line

ENDS = {
    "run_succeeded": "succeeded",
    "run_failed": "failed",
    "run_timed_out": "timeout",
    "run_cancelled": "cancelled",
}


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one run of a step ended."""

    run_id: str
    state: str
    attempt: int
    resource: str | None = None
    value: Any = None
    error_class: str | None = None
    error: str | None = None

    @property
    def succeeded(self) -> bool:
        return self.state == "succeeded"

    @classmethod
    def of(cls, attempt: Attempt, report: c.Report) -> "StepResult":
        """The run that has just ended."""
        run_id, number, resource = attempt.run_id, attempt.number, attempt.resource
        if isinstance(report, c.CompleteRun):
            return cls(run_id, "succeeded", number, resource, report.result)
        if isinstance(report, c.FailRun):
            return cls(run_id, "failed", number, resource, None, report.error_class, report.error)
        error = report.error if isinstance(report, c.TimeOutRun) else None
        return cls(run_id, "timeout", number, resource, None, "timeout", error)


def tried(line: Line, job_id: str, step: str) -> tuple[StepResult, ...]:
    """The earlier runs of a step that have ended, oldest first."""
    with line.read() as view:
        events = list(events_of(view, job_id))
    begun: dict[str, dict[str, Any]] = {}
    ended = []
    for event in events:
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
