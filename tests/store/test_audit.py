"""The audit finds what it is for: every way in which rows and log can come to disagree."""

from collections.abc import Callable
from typing import Any

import pytest

from detent.engine import Engine
from detent.integrity.audit import Difference, differences, fold, timer_differences
from detent.store.clock import CLOCK
from detent.store.memory import Database, MemoryStore
from detent.store.memory.tables import Tables
from detent.testing.audit import audit, picture
from detent.testing.clock import VirtualClock
from detent.testing.conformance.case import Case
from detent.testing.conformance.reads import busy
from detent.testing.conformance.work_actions import submit_job

Tamper = Callable[[Tables], None]


@pytest.fixture
def database() -> Database:
    """Work of every kind, with rows that are right."""
    database = Database()
    case = Case(lambda clock: MemoryStore(clock, database))
    busy(case)
    audit(case.store)
    return database


def found(database: Database) -> list[Difference]:
    with MemoryStore(VirtualClock(), database).write() as tx:
        return [*differences(tx), *timer_differences(tx, fold(tx))]


def change(table: str, **columns: Any) -> Tamper:
    """Change the first row of a table."""

    def tamper(tables: Tables) -> None:
        rows = getattr(tables, table)
        key = next(iter(rows))
        rows[key] = rows[key]._replace(**columns)

    return tamper


def drop(table: str) -> Tamper:
    return lambda tables: getattr(tables, table).popitem()


def in_job(**columns: Any) -> Tamper:
    def tamper(tables: Tables) -> None:
        key, row = next(iter(tables.jobs.items()))
        tables.jobs[key] = row._replace(job=row.job._replace(**columns))

    return tamper


@pytest.mark.parametrize(
    ("what", "field", "tamper"),
    [
        ("task", "version", change("tasks", version=99)),
        ("task", "payload", change("tasks", payload="other")),
        ("task", "tags", change("tasks", tags=("other",))),
        ("task", "row", drop("tasks")),
        ("job", "state", in_job(state="failed")),
        ("job", "fence", in_job(fence=7)),
        ("job", "row", drop("jobs")),
        ("run", "note", change("runs", note="other")),
        ("run", "row", drop("runs")),
        ("step", "state", change("steps", state="failed")),
        ("wait", "due_at", change("waits", due_at=1)),
        ("wait", "due", change("waits", due_at=1)),
        ("signal", "value", change("signals", value="other")),
        ("checkpoint", "value", change("checkpoints", value="other")),
        ("checkpoint", "row", drop("checkpoints")),
        ("evidence", "size", change("evidence", size=-1)),
        ("queue", "worker", change("queue", worker="other")),
        ("queue", "rank", change("queue", rank=0)),
        ("queue", "row", drop("queue")),
        ("deadline", "due", drop("deadlines")),
        ("resource", "in_use", change("steps", resource="van")),
    ],
)
def test_a_row_that_differs(database: Database, what: str, field: str, tamper: Tamper) -> None:
    tamper(database.tables)
    assert (what, field) in {(each.what.split()[0], each.field) for each in found(database)}


def test_a_difference_says_where_and_what(database: Database) -> None:
    job = next(iter(database.tables.jobs))
    in_job(fence=7)(database.tables)
    with MemoryStore(VirtualClock(), database).read() as view:
        (difference,) = differences(view)
        last = view.events(0, 1_000, stream=job)[-1]
    assert difference == Difference(job, last.position, "job", "fence", 1, 7)


def test_a_row_that_the_log_does_not_know(database: Database) -> None:
    row = next(iter(database.tables.jobs.values()))
    database.tables.jobs["stray"] = row._replace(job=row.job._replace(id="stray"))
    assert Difference("stray", 0, "job", "row", False, True) in found(database)


def test_a_gap_in_a_stream(database: Database) -> None:
    log = database.tables.log
    at = len(log) - 1
    log[at] = log[at]._replace(version=log[at].version + 1)
    wrong = log[at]
    expected = Difference(
        wrong.stream, wrong.position, "event", "version", wrong.version - 1, wrong.version
    )
    assert expected in found(database)


@pytest.mark.parametrize(
    "changed",
    [{"name": "job_completed", "data": '{"result":null}'}, {"data": "{]"}, {"name": "unheard_of"}],
)
def test_an_event_that_cannot_be_replayed(changed: dict[str, Any]) -> None:
    database = Database()
    store = MemoryStore(VirtualClock(), database)
    jobs = [submit_job(Engine(store)), submit_job(Engine(store))]
    database.tables.log[0] = database.tables.log[0]._replace(**changed)
    flaws = {(each.stream, each.position, each.what, each.field) for each in found(database)}
    assert flaws == {
        (jobs[0], 1, "event", "name"),
        (jobs[0], 1, "job", "row"),
        (jobs[0], 1, "queue", "row"),
    }


def test_a_blanked_event_without_a_digest() -> None:
    database = Database()
    submit_job(Engine(MemoryStore(VirtualClock(), database)))
    database.tables.log[0] = database.tables.log[0]._replace(data="")
    assert ("event", "digest") in {(each.what, each.field) for each in found(database)}


def test_the_assertion_names_every_difference(database: Database) -> None:
    in_job(fence=7, worker="missing")(database.tables)
    with pytest.raises(AssertionError, match=r"(?s)fence.*worker|worker.*fence"):
        audit(MemoryStore(VirtualClock(), database))


def test_a_picture_shows_every_change(database: Database) -> None:
    store = MemoryStore(VirtualClock(), database)
    before = picture(store)
    assert picture(store) == before
    change("queue", lease_until=1)(database.tables)
    assert picture(store) != before


def test_a_picture_leaves_out_the_time_that_was_written_last(database: Database) -> None:
    """A write renews it only on a slow machine: more than a second after the last event."""
    store = MemoryStore(VirtualClock(), database)
    before = picture(store)
    with store.write() as tx:
        tx.put_rows("system_state", {CLOCK: {"at": tx.now(), "position": 0, "resets": 0}})
    assert picture(store) == before
