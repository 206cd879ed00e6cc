"""Everything one can ask of detent: one list of typed functions, each with its scope.

The gateway serves them over HTTP, MCP as tools; the CLI and the embedded API call them directly.
"""

from detent.operations import (
    agents,
    byhand,
    charts,
    costs,
    history,
    inbox,
    intake,
    jobs,
    limits,
    looking,
    many,
    projects,
    reporting,
    resources,
    runs,
    schedules,
    stats,
    system,
    tasks,
    tokens,
    webhooks,
    workers,
)
from detent.operations.registry import OPERATIONS, Caller, Operation, Scope

__all__ = [
    "OPERATIONS",
    "Caller",
    "Operation",
    "Scope",
    "agents",
    "byhand",
    "charts",
    "costs",
    "history",
    "inbox",
    "intake",
    "jobs",
    "limits",
    "looking",
    "many",
    "projects",
    "reporting",
    "resources",
    "runs",
    "schedules",
    "stats",
    "system",
    "tasks",
    "tokens",
    "webhooks",
    "workers",
]
