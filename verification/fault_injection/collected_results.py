"""Collects the results of a run: the log, the rows, the effects, the history. Reads only."""

import json
from collections.abc import Iterator, Sequence

from detent.store.log_walk import batches
from detent.store.port import ReadTransaction, Store
from detent.store.types import LoggedEvent, Query
from detent.testing.audit import audit
from verification.fault_injection.checker import Evidence, Seen, problems
from verification.fault_injection.client_history import Op
from verification.fault_injection.effect_record import EffectRecord

BATCH = 1_000
FAR = 1 << 62


def gather(store: Store, effects: EffectRecord, history: Sequence[Op] = ()) -> Evidence:
    with store.read() as view:
        return Evidence(
            log=[_seen(each) for piece in batches(view) for each in piece],
            effects={job_id: effects.lines(job_id) for job_id in effects.jobs()},
            history=history,
            jobs=_states(view, "jobs"),
            tasks=_states(view, "tasks"),
        )


def pieces_of(store: Store, after: int) -> Iterator[list[Seen]]:
    """The log from a position on, each piece by a look of its own: the store may go away."""
    while True:
        with store.read() as view:
            piece = [_seen(each) for each in view.events(after, BATCH)]
        if not piece:
            return
        yield piece
        after = piece[-1].position


def judge(store: Store, effects: EffectRecord, history: Sequence[Op] = ()) -> list[str]:
    """Every broken promise, P8 among them: the rows are what the log says."""
    found = problems(gather(store, effects, history))
    try:
        audit(store)
    except AssertionError as error:
        found.append(f"P8: {error}")
    return found


def _seen(event: LoggedEvent) -> Seen:
    data = json.loads(event.data) if event.data else {}
    return Seen(
        *(event.position, event.stream, event.version, event.name, event.subject),
        *(event.actor, data),
    )


def _states(view: ReadTransaction, table: str) -> dict[str, str]:
    return {row["id"]: row["state"] for row in view.page(Query(table, limit=FAR))}
