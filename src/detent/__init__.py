"""detent: durable tasks, jobs and runs whose every change of state is an event in one log.

The public names are re-exported here, each loaded when it is first used; nothing is defined here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent.client import AsyncClient, Client
    from detent.enlisting import intake_row
    from detent.errors import JobFailed
    from detent.worker.app import App
    from detent.worker.failures import Failure, NeedsUser, NetworkError, RateLimited, ResourceFailed
    from detent.worker.run import AsyncRun, Run

__all__ = [
    "App",
    "AsyncClient",
    "AsyncRun",
    "Client",
    "Failure",
    "JobFailed",
    "NeedsUser",
    "NetworkError",
    "RateLimited",
    "ResourceFailed",
    "Run",
    "intake_row",
]

_PLACES = {
    "App": "detent.worker.app",
    "AsyncClient": "detent.client",
    "AsyncRun": "detent.worker.run",
    "Client": "detent.client",
    "Failure": "detent.worker.failures",
    "JobFailed": "detent.errors",
    "NeedsUser": "detent.worker.failures",
    "NetworkError": "detent.worker.failures",
    "RateLimited": "detent.worker.failures",
    "ResourceFailed": "detent.worker.failures",
    "Run": "detent.worker.run",
    "intake_row": "detent.enlisting",
}


def __getattr__(name: str) -> Any:
    """Starting the command line must not wait for what it does not use."""
    if name not in _PLACES:
        raise AttributeError(f"module 'detent' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
