"""detent: durable tasks, jobs and runs; every change of state is an event in one log.

The public names are re-exported here; each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent.app.app import App
    from detent.app.async_run_context import AsyncRun
    from detent.app.effects import NOT_DONE
    from detent.app.failures import (
        CodeChanged,
        DependencyMissing,
        Expired,
        Failure,
        Interrupted,
        NeedsUser,
        NetworkError,
        OverBudget,
        RateLimited,
        ResourceFailed,
        Stopped,
        SubtaskFailed,
        Suspended,
        TimedOut,
    )
    from detent.app.handle import Handle
    from detent.app.intent import Intent
    from detent.app.plan_request import PlanRequest
    from detent.app.ray_run import RayRun
    from detent.app.run_context import Run
    from detent.app.step_result import StepResult
    from detent.app.subtasks import Subtask, SubtaskOutcome
    from detent.client import AsyncClient, Client
    from detent.errors import JobFailed
    from detent.transactional_enqueue import intake_row
    from detent.worker.worker import Worker

__all__ = [
    "NOT_DONE",
    "App",
    "AsyncClient",
    "AsyncRun",
    "Client",
    "CodeChanged",
    "DependencyMissing",
    "Expired",
    "Failure",
    "Handle",
    "Intent",
    "Interrupted",
    "JobFailed",
    "NeedsUser",
    "NetworkError",
    "OverBudget",
    "PlanRequest",
    "RateLimited",
    "RayRun",
    "ResourceFailed",
    "Run",
    "StepResult",
    "Stopped",
    "Subtask",
    "SubtaskFailed",
    "SubtaskOutcome",
    "Suspended",
    "TimedOut",
    "Worker",
    "intake_row",
]

_MODULES = {
    "NOT_DONE": "detent.app.effects",
    "App": "detent.app.app",
    "AsyncClient": "detent.client",
    "AsyncRun": "detent.app.async_run_context",
    "Client": "detent.client",
    "CodeChanged": "detent.app.failures",
    "DependencyMissing": "detent.app.failures",
    "Expired": "detent.app.failures",
    "Failure": "detent.app.failures",
    "Handle": "detent.app.handle",
    "Intent": "detent.app.intent",
    "Interrupted": "detent.app.failures",
    "JobFailed": "detent.errors",
    "NeedsUser": "detent.app.failures",
    "NetworkError": "detent.app.failures",
    "OverBudget": "detent.app.failures",
    "PlanRequest": "detent.app.plan_request",
    "RateLimited": "detent.app.failures",
    "RayRun": "detent.app.ray_run",
    "ResourceFailed": "detent.app.failures",
    "Run": "detent.app.run_context",
    "StepResult": "detent.app.step_result",
    "Stopped": "detent.app.failures",
    "Subtask": "detent.app.subtasks",
    "SubtaskFailed": "detent.app.failures",
    "SubtaskOutcome": "detent.app.subtasks",
    "Suspended": "detent.app.failures",
    "TimedOut": "detent.app.failures",
    "Worker": "detent.worker.worker",
    "intake_row": "detent.transactional_enqueue",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'detent' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
