"""Deliberately broken variants of what only the PostgreSQL store does, by name.

Each is a statement without the lock or the comparison that makes it right beside other writers, and
the scenario of the simulation that must notice it.
"""

from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import patch

from detent.store.migration_files import LAYOUT
from detent.store.postgres import schema, writer
from detent.store.postgres.claims import Lanes
from detent.store.postgres.connection import Query
from detent.store.postgres.locks import Lock, lock_names, share_names
from detent.store.postgres.reader import READY
from detent.store.postgres.transaction import Transaction
from verification.mutant import Patches

Make = Callable[..., Query]


def heartbeat_of_any_worker() -> Patches:
    """A heartbeat prolongs the lease of a job whichever worker holds it."""
    yield from _both_lease_statements(b"active_jobs.worker = $2", b"$2::text IS NOT NULL")


def heartbeat_of_any_fence() -> Patches:
    """A heartbeat for a claim that was taken away prolongs the worker's next claim of the job."""
    yield from _both_lease_statements(b"active_jobs.fence = wanted.fence", b"wanted.fence > 0")


def arrival_read_after_the_lanes() -> Patches:
    """The horizon is read after the lanes: what is committed between the two is never read."""

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
    """The row of a claimed job keeps the fence of the claim before it."""
    yield _replaced("update_active_jobs", b" fence = given.fence,", b"")


def commit_id_before_the_locks() -> Patches:
    """A transaction allocates its commit id when it begins, before it waits for any lock."""
    take, allocate = Transaction._take, READY["allocate_commit"]()

    def early(self: Transaction, *, unused: bool) -> Any:
        if self._opening.hold_on is not None:
            self._begin = (self._begin[0], allocate, *self._begin[1:])
        return take(self, unused=unused)

    yield patch.object(Transaction, "_take", early)
    yield patch.dict(READY, {"allocate_commit": READY["last_commit"]})


def feed_of_unsequenced_commits() -> Patches:
    """The feed reads commits in the order of their ids, whether or not they have a position."""
    text = (
        b"SELECT id, at, events, body FROM commits WHERE id > $1::bigint"
        b" AND $2::bigint > 0 AND $3::bigint > 0 AND $4::bigint > 0 ORDER BY id"
    )
    known = READY["commits_after"](after=0, limit=1, upto=1, bytes=1)
    yield _replaced("commits_after", known.text, text)


def sequencer_skips_a_gap() -> Patches:
    """The sequencer forgets ids below the highest one that were not visible."""
    yield _migrated("HAVING NOT bool_or(place.is_visible)", "HAVING max(place.id) < 0")


def remembered_rank_never_reset() -> Patches:
    """A claimer ignores the arrivals of others, and remembers where a lane began."""
    yield patch.object(Lanes, "_new_arrivals", lambda _self, _rows: iter(()))


def stale_version_of_a_job() -> Patches:
    """The version of a stream is not compared with that of its row."""
    for name in ("update_active_jobs", "end_jobs"):
        yield _replaced(name, b"given.before IS NULL OR was.version = given.before", b"true")
    yield _replaced(
        "remove_active_jobs", b"(given.before IS NULL OR was.version = given.before)", b"true"
    )


def blanking_ignores_the_stream() -> Patches:
    """Blanking ignores the stream: other events of the commit with the same version are blanked."""
    yield _migrated(
        "LEFT JOIN blank ON blank.commit = commits.id AND blank.stream = streams.part ->> 0",
        "LEFT JOIN blank ON blank.commit = commits.id",
        "WHERE blank.commit = commits.id AND blank.stream = streams.part ->> 0",
        "WHERE blank.commit = commits.id",
        "ARRAY(SELECT blank.stream FROM blank WHERE blank.commit = commits.id)",
        "NULL",
    )


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


def submission_without_its_lifecycle() -> Patches:
    """A submission does not hold the table of lifecycles: one that is removed meanwhile is used."""

    def unlocked(given: Lock, names: Any) -> Query:
        query = share_names(given, names)
        if given is not Lock.NAMED:
            return query
        return _without_lock(query, b"pg_advisory_xact_lock_shared(")

    yield patch.object(writer, "share_names", unlocked)


def missed_root_is_awaited() -> Patches:
    """A writer that missed a root waits for it, though it has locked others that come later."""
    yield _replaced("unlock_roots", b"ROLLBACK TO SAVEPOINT roots", b"SAVEPOINT roots")


#: The scenario that notices each.
NOTICED_BY: Mapping[Callable[[], Patches], str] = {
    heartbeat_of_any_worker: "leases",
    heartbeat_of_any_fence: "leases",
    arrival_read_after_the_lanes: "arrivals",
    claim_waits_for_locked_rows: "claims",
    lease_without_its_fence: "claims",
    commit_id_before_the_locks: "one-stream",
    feed_of_unsequenced_commits: "claims",
    sequencer_skips_a_gap: "claims",
    remembered_rank_never_reset: "later-arrivals",
    stale_version_of_a_job: "stale-version",
    blanking_ignores_the_stream: "deletion",
    named_rows_without_lock: "named-rows",
    keys_without_lock: "same-key",
    limits_without_lock: "limits",
    chain_blocks_without_lock: "hash-chain-growth",
    submission_without_its_lifecycle: "removal",
    missed_root_is_awaited: "endings",
}
MUTANTS: Mapping[str, Callable[[], Patches]] = {
    each.__name__.replace("_", "-"): each for each in NOTICED_BY
}


# ---- how a statement is broken ---------------------------------------------------------------


def _changed(make: Make, old: bytes, new: bytes) -> Make:
    """Makes the same statement with another text, under a name of its own."""

    def changed(*given: Any, **values: Any) -> Query:
        query = make(*given, **values)
        if old not in query.text:
            raise ValueError(f"{old!r} is not in the statement any more")
        return query._replace(text=query.text.replace(old, new), name=query.name + b"_broken")

    return changed


def _replaced(name: str, old: bytes, new: bytes) -> Any:
    """The statement with this name has another text."""
    return patch.dict(READY, {name: _changed(READY[name], old, new)})


def _both_lease_statements(old: bytes, new: bytes) -> Patches:
    for name in ("held_leases", "lock_leases"):
        yield _replaced(name, old, new)


def _migrated(*texts: str) -> Any:
    """New databases have a function with another text."""
    layout = schema.MIGRATIONS[LAYOUT - 1]
    text = layout.text
    for old, new in zip(texts[::2], texts[1::2], strict=True):
        if old not in text:
            raise ValueError(f"{old!r} is not in the migration any more")
        text = text.replace(old, new)
    changed = layout._replace(text=text)
    migrations = [changed if each is layout else each for each in schema.MIGRATIONS]
    return patch.object(schema, "MIGRATIONS", tuple(migrations))


def _without(kind: Lock) -> Any:
    """Names of this kind are not locked."""

    def unlocked(given: Lock, names: Any) -> Query:
        query = lock_names(given, names)
        return query if given is not kind else _without_lock(query, b"pg_advisory_xact_lock(")

    return patch.object(writer, "lock_names", unlocked)


def _without_lock(query: Query, function: bytes) -> Query:
    """The statement that only computes the numbers of its locks."""
    if function not in query.text:
        raise ValueError(f"{function!r} is not in the statement any more")
    text = query.text.replace(function, b"greatest(")
    return query._replace(text=text, name=query.name + b"_broken")
