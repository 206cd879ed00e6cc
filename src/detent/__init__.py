"""detent: durable tasks, jobs and runs; every change of state is an event in one log.

The public names are re-exported here; each is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent.client import AsyncClient, Client
    from detent.errors import JobFailed
    from detent.transactional_enqueue import intake_row
    from detent.worker.app import App
    from detent.worker.effects import NOT_DONE
    from detent.worker.failures import (
        Expired,
        Failure,
        NeedsUser,
        NetworkError,
        RateLimited,
        ResourceFailed,
    )
    from detent.worker.plan_runner import PlanRequest
    from detent.worker.run_context import AsyncRun, Run
    from detent.worker.step_history import StepResult

__all__ = [
    "NOT_DONE",
    "App",
    "AsyncClient",
    "AsyncRun",
    "Client",
    "Expired",
    "Failure",
    "JobFailed",
    "NeedsUser",
    "NetworkError",
    "PlanRequest",
    "RateLimited",
    "ResourceFailed",
    "Run",
    "StepResult",
    "intake_row",
]

_MODULES = {
    "NOT_DONE": "detent.worker.effects",
    "App": "detent.worker.app",
    "AsyncClient": "detent.client",
    "AsyncRun": "detent.worker.run_context",
    "Client": "detent.client",
    "Expired": "detent.worker.failures",
    "Failure": "detent.worker.failures",
    "JobFailed": "detent.errors",
    "NeedsUser": "detent.worker.failures",
    "NetworkError": "detent.worker.failures",
    "PlanRequest": "detent.worker.plan_runner",
    "RateLimited": "detent.worker.failures",
    "ResourceFailed": "detent.worker.failures",
    "Run": "detent.worker.run_context",
    "StepResult": "detent.worker.step_history",
    "intake_row": "detent.transactional_enqueue",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that the command line starts fast."""
    if name not in _MODULES:
        raise AttributeError(f"module 'detent' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
