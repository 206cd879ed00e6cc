"""Gathers what a torture has left: the log, the rows, the ledger, the history. Reads only."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from detent.store.port import Query, Reading, Store
from detent.testing.audit import audit
from detent.testing.torture import history
from detent.testing.torture.checker import Evidence, Seen, problems
from detent.testing.torture.history import Op
from detent.testing.torture.ledger import Ledger

BATCH = 1_000
FAR = 1 << 62


def gather(store: Store, ledger: Ledger, told: Sequence[Op] = ()) -> Evidence:
    with store.read() as view:
        return Evidence(
            log=list(_log(view)),
            ledger={job_id: ledger.lines(job_id) for job_id in ledger.jobs()},
            history=told,
            jobs=_states(view, "jobs"),
            tasks=_states(view, "tasks"),
        )


def log_of(store: Store) -> list[Seen]:
    with store.read() as view:
        return list(_log(view))


def judge(store: Store, ledger: Ledger, told: Sequence[Op] = ()) -> list[str]:
    """Every broken promise, P8 among them: the rows are what the log says."""
    found = problems(gather(store, ledger, told))
    try:
        audit(store)
    except AssertionError as error:
        found.append(f"P8: {error}")
    return found


def told(path: Path) -> list[Op]:
    return history.read(path)


def _log(view: Reading) -> Iterator[Seen]:
    after = 0
    while events := view.events(after, BATCH):
        for each in events:
            data = json.loads(each.data) if each.data else {}
            yield Seen(
                *(each.position, each.stream, each.version, each.name, each.subject),
                *(each.actor, data),
            )
        after = events[-1].position


def _states(view: Reading, table: str) -> dict[str, str]:
    return {row["id"]: row["state"] for row in view.page(Query(table, limit=FAR))}
