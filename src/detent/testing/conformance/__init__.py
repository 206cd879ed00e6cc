"""What every store must do, as plain functions: the specification of the store's port, published.

`run(check, open_store)` for each of `CHECKS` tests a store. `open_store(clock)` opens a store on
one database that is empty at first; a check may open several at once.
"""

from detent.testing.conformance import (
    appending,
    blobs,
    claiming,
    clocks,
    ending,
    fencing,
    following,
    forgetting,
    keeping,
    keys,
    limits,
    listing,
    outbox,
    plans,
    reading,
    timing,
)
from detent.testing.conformance.case import CHECKS, Case, Check, OpenStore, run

__all__ = [
    "CHECKS",
    "Case",
    "Check",
    "OpenStore",
    "appending",
    "blobs",
    "claiming",
    "clocks",
    "ending",
    "fencing",
    "following",
    "forgetting",
    "keeping",
    "keys",
    "limits",
    "listing",
    "outbox",
    "plans",
    "reading",
    "run",
    "timing",
]
