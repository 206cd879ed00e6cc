"""What `verify` puts together: invariants of jobs, due times, and a log that grows meanwhile."""

import pytest

from detent.engine import Engine
from detent.integrity import audit
from detent.integrity.verify import verify
from detent.store.memory import Database, MemoryStore
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete, submit_job


@pytest.fixture
def database() -> Database:
    """One job that ran to its end."""
    database = Database()
    engine = Engine(MemoryStore(VirtualClock(), database))
    submit_job(engine, options={"job_timeout_ms": 60_000})
    complete(engine, claim_one(engine))
    return database


def test_an_event_after_the_end_breaks_an_invariant(database: Database) -> None:
    store = MemoryStore(VirtualClock(), database)
    assert verify(store).differences == []
    log = database.tables.log
    again = next(each for each in log if each.name == "job_running")
    end = log[-1]
    log.append(again._replace(position=end.position + 1, version=end.version + 1))
    with store.read() as view:
        (found, *_) = audit.offences(view, audit.fold(view))
    assert (found.position, found.field) == (end.position + 1, "invariant 1")
    assert found in verify(store).differences


def test_due_times_are_compared_only_with_the_log_that_was_folded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore(VirtualClock(), database)
    database.tables.deadlines["stray"] = 1
    verdict = verify(store)
    assert verdict.timers_checked
    assert {each.what for each in verdict.differences} == {"deadline"}
    fold = audit.fold

    def fold_while_work_goes_on(*given: object) -> audit.Folded:
        folded = fold(*given)  # type: ignore[arg-type]
        submit_job(Engine(store))
        return folded

    monkeypatch.setattr(audit, "fold", fold_while_work_goes_on)
    verdict = verify(store)
    assert not verdict.timers_checked
    assert verdict.differences == []


def test_progress_is_reported(database: Database) -> None:
    reported: list[tuple[str, int]] = []
    store = MemoryStore(VirtualClock(), database)
    head = verify(store, progress=lambda *each: reported.append(each)).position
    assert reported == [("chain", head), ("fold", head)]
