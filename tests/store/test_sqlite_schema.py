"""The schema of the SQLite store: its migrations, its states, its indexes and their use."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import apsw
import pytest

from detent.engine import Engine
from detent.kernel import commands as c
from detent.kernel import entities
from detent.store.list_sql import COLUMNS
from detent.store.migration_files import Applied, Migration, migrations, pending
from detent.store.rows import columns
from detent.store.sqlite import SqliteStore, schema
from detent.store.sqlite.commit_log import SQL
from detent.store.sqlite.connection import ROWS_PER_INSERT, array, insert_of_several
from detent.store.table_names import TABLES
from detent.store.types import LoggedEvent
from detent.task_lifecycles import all_lifecycles
from detent.testing.clock import VirtualClock
from detent.testing.conformance.work_actions import claim_one, complete, do, submit_job
from tests.altered_database import readable
from tests.store import sqlite_processes
from tests.store.test_sqlite import line, process, start

LIFECYCLES = all_lifecycles()

SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "detent.db"


@pytest.fixture
def database(path: Path) -> Iterator[apsw.Connection]:
    SqliteStore(path).close()
    opened = apsw.Connection(str(path))
    yield opened
    opened.close()


# ---- migrations ------------------------------------------------------------------------------


def test_six_concurrent_processes_apply_each_migration_once(path: Path) -> None:
    with ExitStack() as stack:
        runs = [stack.enter_context(process(sqlite_processes.open_only, path)) for _ in range(6)]
        assert [line(run) for run in runs] == ["ready"] * 6
        for run in runs:
            start(run)
        assert [line(run) for run in runs] == ["opened"] * 6
    applied = apsw.Connection(str(path)).execute("SELECT number FROM schema_migrations").fetchall()
    assert applied == [(each.number,) for each in schema.MIGRATIONS]


def test_the_schema_is_the_sum_of_the_migrations(database: apsw.Connection) -> None:
    summed = apsw.Connection(":memory:")
    for migration in migrations("detent.store.sqlite.migrations"):
        summed.execute(migration.text).fetchall()
    assert database.execute(SCHEMA).fetchall() == summed.execute(SCHEMA).fetchall()


def test_what_was_applied_is_recorded(database: apsw.Connection) -> None:
    rows = database.execute("SELECT number, name, digest FROM schema_migrations").fetchall()
    assert rows == [(each.number, each.name, each.digest) for each in schema.MIGRATIONS]


def test_only_what_is_missing_is_pending() -> None:
    known = [Migration(number, "x", "", f"digest {number}") for number in (1, 2, 3)]
    applied = [Applied(number, "x", f"digest {number}") for number in (1, 2)]
    assert pending(known, applied, "here") == known[2:]
    assert pending(known, [], "here") == known


def test_a_migration_that_fails_leaves_nothing_behind(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = len(schema.MIGRATIONS) + 1
    bad = Migration(number, "bad", "CREATE TABLE half (x); CREATE TABLE leases (x);", "d")
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, bad))
    with pytest.raises(Exception, match="leases already exists"):
        SqliteStore(path)
    found = apsw.Connection(str(path)).execute(
        "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"
    )
    assert found.fetchall() == [(0,)]
    monkeypatch.undo()
    SqliteStore(path).close()


# ---- tables ----------------------------------------------------------------------------------


def states(constraint: str) -> list[list[str]]:
    """The chains of states in a constraint, in their order."""
    text = "".join(migration.text for migration in schema.MIGRATIONS)
    [body] = re.findall(rf"CONSTRAINT {constraint} CHECK \((.*?)\n    \)[,\n]", text, re.DOTALL)
    return [re.findall(r"state = '(\w+)'", chain) for chain in re.split(r"WHEN '\w+' THEN", body)]


@pytest.mark.parametrize(
    ("constraint", "name"),
    [
        ("active_jobs_state", "job"),
        ("other_runs_state", "run"),
        ("active_jobs_run_state", "run"),
        ("ended_jobs_run_state", "run"),
        ("steps_state", "step"),
    ],
)
def test_the_states_are_those_of_the_lifecycle(constraint: str, name: str) -> None:
    assert states(constraint) == [list(LIFECYCLES[name].state_names)]


def test_the_states_of_ended_jobs_are_terminal() -> None:
    assert states("ended_jobs_state") == [list(LIFECYCLES["job"].terminal)]


def test_a_list_of_jobs_covers_every_state(database: apsw.Connection) -> None:
    [(text,)] = database.execute("SELECT sql FROM sqlite_schema WHERE name = 'jobs'").fetchall()
    active = re.findall(r"WHERE state = '(\w+)'", str(text))
    assert {*active, *LIFECYCLES["job"].terminal} == set(LIFECYCLES["job"].state_names)


def test_a_state_that_no_lifecycle_has_is_refused(database: apsw.Connection) -> None:
    names = [row[1] for row in database.execute("PRAGMA table_info(other_runs)")]
    values = {name: "x" if name in ("id", "job_id", "worker", "state") else 1 for name in names}
    for name in ("step", "outcome", "error_class", "error", "session_id", "note", "reason"):
        values[name] = "x"
    marks = ", ".join(f":{name}" for name in names)
    with pytest.raises(apsw.ConstraintError, match="other_runs_state"):
        database.execute(f"INSERT INTO other_runs VALUES ({marks})", values)
    database.execute(f"INSERT INTO other_runs VALUES ({marks})", {**values, "state": "queued"})


@pytest.mark.parametrize(
    ("table", "entity"),
    [
        ("active_tasks", entities.Task),
        ("ended_tasks", entities.Task),
        ("active_jobs", entities.Job),
        ("ended_jobs", entities.Job),
        ("other_runs", entities.Run),
        ("steps", entities.Step),
        ("waits", entities.Wait),
        ("signals", entities.Signal),
        ("checkpoints", entities.Checkpoint),
    ],
)
def test_columns_are_fields(database: apsw.Connection, table: str, entity: type) -> None:
    found = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
    assert set(found) >= set(columns(entity))


@pytest.mark.parametrize("table", COLUMNS)
def test_what_people_list_is_there(database: apsw.Connection, table: str) -> None:
    found = {row[1] for row in database.execute(f"PRAGMA table_info({table})")}
    assert found == set(COLUMNS[table])


def test_the_last_commit_stays(database: apsw.Connection) -> None:
    database.execute("INSERT INTO commits VALUES (1, 1, 1, 2, x''), (2, 1, 1, 2, x'')")
    with pytest.raises(apsw.ConstraintError, match="the last commit of the log stays"):
        database.execute("DELETE FROM commits")
    database.execute("DELETE FROM commits WHERE id = 1")


def test_auditors_can_query_events_with_sql(path: Path) -> None:
    store = SqliteStore(path, VirtualClock())
    engine = Engine(store)
    do(engine, c.DeleteJob(finished(engine)))
    finished(engine)
    with store.read() as view:
        logged = [(*event[:-1], event[-1] and event[-1].hex()) for event in view.events(0, 100)]
    store.close()
    names = ", ".join(LoggedEvent._fields)
    auditor = readable(apsw.Connection(str(path)))
    found = auditor.execute(f"SELECT {names} FROM events ORDER BY position")
    assert found.fetchall() == logged


def finished(engine: Engine) -> str:
    job = submit_job(engine, payload={"text": "Grüße", "n": [1.5, None]})
    complete(engine, claim_one(engine), {"ok": True})
    return job


# ---- plans of statements ---------------------------------------------------------------------

#: Statements on small tables of named values, and those that clear a table before a rebuild.
NAMED = {name for name, statement in SQL.items() if re.search(r"\bnamed\b", statement.text)}
#: Statements that read all leases, or the whole intake, which holds only work that was not accepted
#: yet or was refused.
WHOLE = {"running", "shift_leases", "intake", "refused_intake", "stored_bytes"}
#: Statements of a trim or a rebuild, which concern the whole log.
OF_THE_LOG = {
    *("trim_stream_commits", "trim_tombstones", "trim_commits", "trimmed_events"),
    *("clear_stream_commits", "clear_tombstone_commits"),
}
#: One step at the end of the log, though SQLite calls it a scan.
LAST_ROW = {"head", "last_chain_block", "written"}
#: The results of a recursive statement so far.
RECURSIVE = ("SCAN below", "SCAN found")
#: Statements that sort the ids that they find, to find each once.
SETS = {"child_jobs", "children"}


def plan(database: apsw.Connection, name: str) -> list[str]:
    statement = SQL[name]
    text = statement.text
    values = [array(["x"]) if f"carray(:{each})" in text else 1 for each in statement.parameters]
    return [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {text}", values)]


@pytest.mark.parametrize("name", sorted(SQL.keys() - NAMED - WHOLE - LAST_ROW - OF_THE_LOG))
def test_no_statement_reads_or_sorts_a_whole_table(database: apsw.Connection, name: str) -> None:
    for step in plan(database, name):
        assert not step.startswith("USE TEMP B-TREE") or name in SETS
        walks = step.startswith("SCAN ") and "VIRTUAL TABLE" not in step and step not in RECURSIVE
        assert not walks


@pytest.mark.parametrize(
    ("name", "index"),
    [
        (
            "claimable_in_lane",
            "active_jobs_by_lane (lane=? AND project=? AND <expr>=? AND rank<?)",
        ),
        (
            "claimable_of_key",
            "active_jobs_by_key (lane=? AND project=? AND concurrency_key=? AND rank<?)",
        ),
        ("next_lane", "active_jobs_by_lane (lane>?)"),
        ("next_project", "active_jobs_by_lane (lane=? AND project>?)"),
        ("projects_in_lane", "active_jobs_by_lane (lane=? AND project>?)"),
        ("projects_in_lane", "active_jobs_by_lane (lane=? AND project=? AND <expr>=?)"),
        ("next_key", "active_jobs_by_key (lane=? AND project=? AND concurrency_key>?)"),
        ("wake_queue", "active_jobs_asleep (due_at<?)"),
        ("running_by_key", "active_jobs_leased_keys (concurrency_key=?)"),
        ("due_leases", "leases_until (until<?)"),
        ("due_waits", "waits_due (due_at<?)"),
        ("due_deadlines", "deadlines_due (due_at<?)"),
    ],
)
def test_claims_and_timers_use_their_indexes(
    database: apsw.Connection, name: str, index: str
) -> None:
    assert any(step.endswith(f"INDEX {index}") for step in plan(database, name))


@pytest.mark.parametrize(
    "name",
    sorted(name for name in SQL if name[:6] in ("insert", "upsert") and name != "insert_lease"),
)
def test_rows_are_inserted_in_batches(database: apsw.Connection, name: str) -> None:
    several = insert_of_several(SQL[name].text)
    assert several is not None
    values = [None] * (ROWS_PER_INSERT * len(SQL[name].parameters))
    assert database.execute(f"EXPLAIN {several}", values).fetchall()


@pytest.mark.parametrize("name", ["update_jobs", "claimable_in_lane", "end_jobs", "extend_leases"])
def test_nothing_else_is_done_in_batches(name: str) -> None:
    assert insert_of_several(SQL[name].text) is None


def test_every_small_table_is_there(database: apsw.Connection) -> None:
    for table in TABLES:
        found = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        assert found == ["name", "value", "updated_at"]
