"""The conformance suite: checks that every implementation of a store must pass.

`run(check, open_store)` for each of `CHECKS` tests a store. `open_store(clock)` opens a store on
one database that is empty at first; a check may open several on it.
"""

from detent.testing.conformance import (
    blobs,
    claims,
    clocks,
    comments,
    deletion,
    end_races,
    equal_jobs,
    feed_order,
    fences,
    keys,
    lifecycles,
    limits,
    lists,
    log_maintenance,
    outbox,
    plans,
    reads,
    recent_commits,
    timers,
    writes,
)
from detent.testing.conformance.case import CHECKS, Case, Check, OpenStore, run

__all__ = [
    "CHECKS",
    "Case",
    "Check",
    "OpenStore",
    "blobs",
    "claims",
    "clocks",
    "comments",
    "deletion",
    "end_races",
    "equal_jobs",
    "feed_order",
    "fences",
    "keys",
    "lifecycles",
    "limits",
    "lists",
    "log_maintenance",
    "outbox",
    "plans",
    "reads",
    "recent_commits",
    "run",
    "timers",
    "writes",
]
