"""Deliberately broken variants of what only the PostgreSQL store does, by name.

Each is a statement without the lock or the comparison that makes it right beside other writers, and
the scenario of the simulation that must notice it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from detent.store.postgres import save_statements, writer
from detent.store.postgres.claims import Lanes
from detent.store.postgres.connection import Query
from detent.store.postgres.locks import Lock, lock_names
from detent.store.postgres.reader import READY

Patches = Iterator[Any]
Make = Callable[..., Query]


def heartbeat_of_any_worker() -> Patches:
    """A heartbeat prolongs the lease of a job whichever worker holds it."""
    yield from _both_lease_statements(b"queue.worker = $2", b"$2::text IS NOT NULL")


def heartbeat_of_any_fence() -> Patches:
    """A heartbeat for a claim that was taken away prolongs the worker's next claim of the job."""
    yield from _both_lease_statements(b"queue.fence = wanted.fence", b"wanted.fence > 0")


def arrival_read_after_the_lanes() -> Patches:
    """The last arrival is read after the lanes: what comes between the two is never read."""

    refresh = Lanes._refresh

    def late(self: Lanes, run: Any) -> None:
        def turned(arrival: Query, *queries: Query) -> list[Any]:
            *answers, last = run(*queries, arrival)
            return [last, *answers]

        refresh(self, turned)

    yield patch.object(Lanes, "_refresh", late)


def claim_waits_for_locked_rows() -> Patches:
    """A claim waits for the rows that another one is taking."""
    yield patch.dict(READY, {"claimable": _changed(READY["claimable"], b" SKIP LOCKED", b"")})


def lease_without_its_fence() -> Patches:
    """The row of a lease keeps the fence of the claim before it."""
    yield patch.object(
        save_statements, "LEASES", _changed(save_statements.LEASES, b"fence = given.fence, ", b"")
    )


def append_without_lock() -> Patches:
    """Writers append at the same time: a later position may be committed before an earlier one."""
    free = _changed(READY["append_turn"], b"pg_advisory_xact_lock($1::integer, 0)", b"$1::integer")
    yield patch.dict(READY, {"append_turn": free})


def named_rows_without_lock() -> Patches:
    """Two change the same table of named rows at the same time."""
    yield _without(Lock.NAMED)


def keys_without_lock() -> Patches:
    """Two bring the same idempotency key at the same time."""
    yield _without(Lock.KEYS)


def limits_without_lock() -> Patches:
    """Two claimers count what runs under a limit at the same time."""
    yield _without(Lock.LIMITS)


def chain_blocks_without_lock() -> Patches:
    """Two processes write a chain block for the same events at the same time."""
    yield _without(Lock.CHAIN_BLOCKS)


#: The scenario that notices each.
NOTICED_BY: Mapping[Callable[[], Patches], str] = {
    heartbeat_of_any_worker: "leases",
    heartbeat_of_any_fence: "leases",
    arrival_read_after_the_lanes: "arrivals",
    claim_waits_for_locked_rows: "claims",
    lease_without_its_fence: "claims",
    append_without_lock: "claims",
    named_rows_without_lock: "named-rows",
    keys_without_lock: "same-key",
    limits_without_lock: "limits",
    chain_blocks_without_lock: "hash-chain-growth",
}
MUTANTS: Mapping[str, Callable[[], Patches]] = {
    each.__name__.replace("_", "-"): each for each in NOTICED_BY
}


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Everything inside runs with the mutant."""
    with ExitStack() as stack:
        for change in MUTANTS[name]():
            stack.enter_context(change)
        yield


# ---- how a statement is broken ---------------------------------------------------------------


def _changed(make: Make, old: bytes, new: bytes) -> Make:
    """Makes the same statement with another text, under a name of its own."""

    def changed(*given: Any, **values: Any) -> Query:
        query = make(*given, **values)
        if old not in query.text:
            raise ValueError(f"{old!r} is not in the statement any more")
        return query._replace(text=query.text.replace(old, new), name=query.name + b"_broken")

    return changed


def _both_lease_statements(old: bytes, new: bytes) -> Patches:
    for name in ("held_leases", "lock_leases"):
        yield patch.dict(READY, {name: _changed(READY[name], old, new)})


def _without(kind: Lock) -> Any:
    """Names of this kind are not locked."""

    def unlocked(given: Lock, names: Any) -> Query:
        query = lock_names(given, names)
        if given is not kind:
            return query
        text = query.text.replace(b"pg_advisory_xact_lock(", b"greatest(")
        return query._replace(text=text, name=query.name + b"_broken")

    return patch.object(writer, "lock_names", unlocked)
