"""detent: durable tasks, jobs and runs whose every change of state is an event in one log.

The public names are re-exported here, each loaded when it is first used; nothing is defined here.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from detent.client import Client
    from detent.worker.app import App
    from detent.worker.failures import Failure, NeedsUser, NetworkError, RateLimited, ResourceFailed
    from detent.worker.run import AsyncRun, Run

__all__ = [
    "App",
    "AsyncRun",
    "Client",
    "Failure",
    "NeedsUser",
    "NetworkError",
    "RateLimited",
    "ResourceFailed",
    "Run",
]

_PLACES = {
    "App": "detent.worker.app",
    "AsyncRun": "detent.worker.run",
    "Client": "detent.client",
    "Failure": "detent.worker.failures",
    "NeedsUser": "detent.worker.failures",
    "NetworkError": "detent.worker.failures",
    "RateLimited": "detent.worker.failures",
    "ResourceFailed": "detent.worker.failures",
    "Run": "detent.worker.run",
}


def __getattr__(name: str) -> Any:
    """Starting the command line must not wait for what it does not use."""
    if name not in _PLACES:
        raise AttributeError(f"module 'detent' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)
