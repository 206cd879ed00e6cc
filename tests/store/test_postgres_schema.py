"""The schema of the PostgreSQL store: its states, its columns, and the plans of its statements."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from detent.engine.job_forms import Completed, Signature, Submitted, SubmittedTask, ToClaim, form_of
from detent.kernel import entities
from detent.kernel.predicates import ENDED_JOB
from detent.store import work_tables
from detent.store.list_sql import COLUMNS
from detent.store.migration_files import LAYOUT
from detent.store.postgres import PostgresStore, schema, set_rows
from detent.store.postgres.connection import Query, numbered
from detent.store.postgres.locks import Lock
from detent.store.postgres.reader import SQL
from detent.store.rows import columns
from detent.task_lifecycles import all_lifecycles
from verification.postgres_server import Cluster

LIFECYCLES = all_lifecycles()


@pytest.fixture(scope="module")
def database(postgres_server: Cluster) -> Iterator[psycopg.Connection]:
    """An empty database with the present schema."""
    url = postgres_server.create_database("detent_schema")
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection
    postgres_server.drop_database("detent_schema")


# ---- tables ----------------------------------------------------------------------------------


def states(database: psycopg.Connection, constraint: str) -> list[list[str]]:
    """The lists of states in a constraint, in their order."""
    query = "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s"
    (text,) = database.execute(query, [constraint]).fetchone() or ("",)
    lists = re.findall(r"ARRAY\[(.*?)\]", text)
    return [re.findall(r"'(\w+)'", each) for each in lists]


@pytest.mark.parametrize(
    ("constraint", "name"),
    [
        ("active_jobs_run_state", "run"),
        ("ended_jobs_run_state", "run"),
        ("other_runs_state", "run"),
        ("steps_state", "step"),
    ],
)
def test_the_states_are_those_of_the_lifecycle(
    database: psycopg.Connection, constraint: str, name: str
) -> None:
    assert states(database, constraint) == [list(LIFECYCLES[name].state_names)]


def test_the_states_of_a_job_are_those_of_active_and_ended_ones(
    database: psycopg.Connection,
) -> None:
    """So the server does not read the table of active jobs for a list of ended ones."""
    (active,), (ended,) = (states(database, f"{each}_jobs_state") for each in ("active", "ended"))
    assert [*active, *ended] == list(LIFECYCLES["job"].state_names)
    assert set(ended) == set(ENDED_JOB)


def tables(database: psycopg.Connection) -> dict[str, list[str]]:
    """The columns of each table, in their order."""
    query = """
        SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
        FROM information_schema.columns
        WHERE table_schema = 'public'
        GROUP BY table_name
    """
    return dict(database.execute(query).fetchall())


@pytest.mark.parametrize(
    ("table", "entity"),
    [
        ("tasks", entities.Task),
        ("jobs", entities.Job),
        ("runs", entities.Run),
        ("steps", entities.Step),
        ("waits", entities.Wait),
        ("signals", entities.Signal),
        ("active_tasks", entities.Task),
        ("ended_tasks", entities.Task),
        ("active_jobs", entities.Job),
        ("ended_jobs", entities.Job),
        ("other_runs", entities.Run),
        ("checkpoints", entities.Checkpoint),
    ],
)
def test_columns_are_fields(database: psycopg.Connection, table: str, entity: type) -> None:
    assert set(columns(entity)) <= set(tables(database)[table])


@pytest.mark.parametrize("table", COLUMNS)
def test_what_people_list_is_there(database: psycopg.Connection, table: str) -> None:
    assert set(tables(database)[table]) == set(COLUMNS[table])


def test_all_text_is_compared_byte_by_byte(database: psycopg.Connection) -> None:
    """Lists come in the order of every other store, whatever the database's own language."""
    query = """
        SELECT table_name || '.' || column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'text' AND collation_name <> 'C'
    """
    assert database.execute(query).fetchall() == []


def wait_for_a_waiter(connection: psycopg.Connection, waiter: Future[Any]) -> None:
    """Return as soon as another session of the database waits for a lock, or `waiter` has ended."""
    waits = """
        SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database
        WHERE datname = current_database() AND NOT granted
    """
    while not connection.execute(waits).fetchall() and not waiter.done():
        time.sleep(0.005)


@pytest.fixture
def empty(postgres_server: Cluster) -> Iterator[str]:
    yield postgres_server.create_database("detent_two_starts")
    postgres_server.drop_database("detent_two_starts")


def test_a_process_that_starts_during_a_migration_waits_for_it(empty: str) -> None:
    with psycopg.connect(empty, autocommit=True) as first, ThreadPoolExecutor(1) as pool:
        schema.apply(first, empty, upto=LAYOUT - 2)
        with first.transaction():
            schema.apply(first, empty)
            second = pool.submit(lambda: PostgresStore(empty).close())
            wait_for_a_waiter(first, second)
        second.result()
        assert len(schema.applied(first)) == len(schema.MIGRATIONS)


def test_migrations_are_read_again_after_the_wait_for_the_lock(empty: str) -> None:
    """The server keeps in a cache of the session that a table does not exist."""
    with (
        psycopg.connect(empty, autocommit=True) as first,
        psycopg.connect(empty, autocommit=True) as second,
        ThreadPoolExecutor(1) as pool,
    ):
        assert schema.applied(second) == []
        with second.transaction():
            with first.transaction():
                first.execute(schema.TURN, [Lock.SCHEMA])
                first.execute("CREATE TABLE schema_migrations (number int, name text, digest text)")
                first.execute("INSERT INTO schema_migrations VALUES (1, 'first', '')")
                turn = pool.submit(second.execute, schema.TURN, [Lock.SCHEMA])
                wait_for_a_waiter(first, turn)
            turn.result()
            assert [each.number for each in schema.applied(second)] == [1]


# ---- plans of statements ---------------------------------------------------------------------

#: What the server may believe of the tables when it makes a plan that it then keeps.
BELIEFS = {
    "nothing": 0,
    "empty": 0,
    "one row": 1,
    "10 rows": 10,
    "500 rows": 500,
    "10,000 rows": 10_000,
}
#: Statements that are made for several tables, or are about whole small ones, or about sessions.
LEFT_OUT = {name for name, each in SQL.items() if re.search(r"\bnamed\b", each.text)}
#: Maintenance of the whole log.
LEFT_OUT |= {"end_silent", "list_streams", "trim_commits"}
#: Those of the earlier layout, which SQLite has too.
LEFT_OUT |= {"events_after", "events_of_stream", "head", "version_of", "trim_events"}
LEFT_OUT |= {"due_leases", "shift_leases"}
#: It measures all rows of a project.
LEFT_OUT |= {"stored_bytes"}
#: Savepoints have no plan.
LEFT_OUT |= {"before_roots", "unlock_roots"}

#: A function in FROM is called once for each row; `(function(...)).*` calls it for each column.
JOB = """
    INSERT INTO {table}
    SELECT made.* FROM generate_series(1, {{0}}) AS n,
    json_populate_record(NULL::{table}, json_build_object(
        'id', '{letter}' || n, 'project', 'p', 'state', '{state}', 'state_at', 1, 'intent', 'x',
        'priority', 'P2', 'rank', n, 'root_id', '{letter}' || n, 'queued_at', 0, 'not_before', 0,
        'attempt', 0, 'lost', 0, 'fence', 1, 'worker', 'w', 'runs', 1, 'plan_version', 0,
        'run_id', '{letter}' || n || '-r1', 'replans', 0, 'created_at', 0, 'resuming', false,
        'failures', '[]', 'plan_wanted', false, 'waited', false, 'result', 'null', 'options', '[]',
        'version', 1, 'payload', 'null', 'commits', n * 1024, 'run_state', 'running',
        'run_queued_at', 1, 'lane', 'x', 'due_at', 0, 'asleep', n % 2 = 0,
        'lease_id', nullif(n % 3, 0)
    )) AS made;
"""
FILL = f"""
    {JOB.format(table="active_jobs", letter="j", state="queued")}
    {JOB.format(table="ended_jobs", letter="e", state="completed")}
    INSERT INTO leases SELECT n, 'w', n, 1, ARRAY['j' || n] FROM generate_series(1, {{0}}) AS n;
    INSERT INTO other_runs SELECT 'j' || n || '-r2', 'j' || n, 'running', 1, 1, 'w', 1, NULL, NULL,
        NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, NULL
    FROM generate_series(1, {{0}}) AS n;
    INSERT INTO commits
    SELECT n * 1024, n, 1, '[["j' || n || '",1,"p",[["x",1,null,"a",{{{{}}}}]]]]'
    FROM generate_series(1, {{0}}) AS n;
    INSERT INTO commit_positions SELECT n, n * 1024 FROM generate_series(1, {{0}}) AS n;
    INSERT INTO sequencer_turns VALUES (1, {{0}} * 1024, {{0}}, '{{{{}}}}', '{{{{}}}}');
    INSERT INTO stream_commits SELECT 's' || n, n * 1024 FROM generate_series(1, {{0}}) AS n;
    INSERT INTO tombstones SELECT 'd' || n, n * 1024 FROM generate_series(1, {{0}}) AS n;
    INSERT INTO waits SELECT 'j' || n, 'w', 'timer', 1, NULL, 0, n, '[]', '{{{{}}}}'
    FROM generate_series(1, {{0}}) AS n;
    INSERT INTO idempotency_keys SELECT 'p', 'k' || n, '', '', n
    FROM generate_series(1, {{0}}) AS n;
    INSERT INTO evidence SELECT 'j' || n || '-r1', 'f', 'k', '', 1, 'm', 1
    FROM generate_series(1, {{0}}) AS n;
"""
FILLED = (
    *("active_jobs", "ended_jobs", "leases", "other_runs", "commits", "commit_positions"),
    *("sequencer_turns", "stream_commits", "tombstones", "waits", "idempotency_keys", "evidence"),
)


@pytest.fixture(scope="module", params=BELIEFS)
def planner(request: pytest.FixtureRequest, database: psycopg.Connection) -> psycopg.Connection:
    """A database of which the server believes something that need not be true later."""
    belief: str = request.param
    database.execute(f"TRUNCATE {', '.join(FILLED)}".encode())
    if BELIEFS[belief]:
        database.execute(FILL.format(BELIEFS[belief]).encode())
    if belief != "nothing":
        database.execute("VACUUM ANALYZE")
    return database


#: What the statements of sets find in the settings of their transaction.
SETTINGS = {"now": "1", "chosen": "{j1,j2}", "commit": "1024", "released": "[]"}


def plan(database: psycopg.Connection, name: str) -> str:
    """The plan that is kept for a statement, made in a write transaction."""
    return plan_of(database, numbered(SQL[name]), len(SQL[name].parameters))


def plan_of(database: psycopg.Connection, text: bytes, parameters: int) -> str:
    values = ", ".join(["NULL"] * parameters)
    with database.transaction(force_rollback=True):
        begin = psycopg.RawCursor(database)
        begin.execute(numbered(SQL["begin_writing"]), ["30000", "60000"])
        for setting, value in SETTINGS.items():
            database.execute("SELECT set_config(%s, %s, true)", [f"detent.{setting}", value])
        database.execute(b"PREPARE statement AS " + text)
        execute = f"EXECUTE statement({values})" if values else "EXECUTE statement"
        rows = database.execute(f"EXPLAIN (COSTS OFF) {execute}".encode()).fetchall()
        database.execute("DEALLOCATE statement")
    return "\n".join(row[0] for row in rows)


@pytest.mark.parametrize("name", sorted(SQL.keys() - LEFT_OUT))
def test_no_plan_reads_a_whole_table(planner: psycopg.Connection, name: str) -> None:
    """Neither one by one nor again and again, whatever the server believes of the tables."""
    text = plan(planner, name)
    assert "Seq Scan" not in text, text
    assert "Join Filter" not in text, text


def sets() -> Iterator[tuple[str, Query]]:
    """The statements of sets, by what they write."""
    for kind, lifecycle in (("jobs", ""), ("tasks", "board"), ("review tasks", "review")):
        plain = f'["{lifecycle}",{{}},{{}}]' if lifecycle else "{}"
        submitted: Signature = Submitted("ann", "p", "x", "P2", None, "{}")
        if lifecycle:
            submitted = SubmittedTask("ann", "p", lifecycle, "x", "cli", "P2", (), "{}")
        forms = [
            form_of(each)
            for each in (
                *(submitted, ToClaim("w", "p", plain)),
                Completed("ann", "p", plain, None, None),
            )
        ]
        new, claimed, ended = (each.written("n") for each in forms if each is not None)
        yield f"insert {kind}", set_rows._insert(new)[0]
        yield f"claim {kind}", set_rows._update(claimed, work_tables.JOBS)[0]
        if lifecycle:
            yield f"start {kind}", set_rows._update(claimed, work_tables.TASKS)[0]
        yield f"end {kind}", set_rows._end(ended)[0]


SETS = dict(sets())


@pytest.mark.parametrize("name", SETS)
def test_no_set_reads_a_whole_table(planner: psycopg.Connection, name: str) -> None:
    text = SETS[name].text
    found = plan_of(planner, text, len(set(re.findall(rb"\$\d+", text))))
    assert "Seq Scan" not in found, found
    assert "Join Filter" not in found, found
    if name.startswith(("claim", "end")):
        assert "active_jobs_pkey" in found, found


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claimable", "active_jobs_lanes"),
        ("choose_plain", "active_jobs_lanes"),
        ("choose_plain", "arrivals_by_transaction"),
        ("plain_runs", "active_jobs_pkey"),
        ("release_ended", "leases_pkey"),
        ("lane_floors", "active_jobs_lanes"),
        ("lanes", "active_jobs_lanes"),
        ("due_asleep", "active_jobs_asleep"),
        ("next_asleep", "active_jobs_asleep"),
        ("arrivals_after", "arrivals_by_transaction"),
        ("running_by_intent", "active_jobs_pkey"),
        ("running_by_key", "active_jobs_pkey"),
        ("expired_leases", "leases_until"),
        ("release_leases", "leases_pkey"),
        ("due_waits", "waits_due"),
        ("due_deadlines", "deadlines_due"),
        ("live_runs", "other_runs_by_job"),
        ("live_runs", "active_jobs_pkey"),
        ("runs", "active_jobs_pkey"),
        ("runs", "ended_jobs_pkey"),
        ("update_active_jobs", "active_jobs_pkey"),
        ("end_jobs", "active_jobs_pkey"),
        ("remove_active_jobs", "active_jobs_pkey"),
        ("insert_active_jobs", "ended_jobs_pkey"),
        ("insert_active_jobs", "tombstones_pkey"),
        ("commits_after", "commit_positions_pkey"),
        ("commits_after", "commits_pkey"),
        ("commits_of_stream", "stream_commits_pkey"),
        ("commits_of_stream", "commits_pkey"),
        ("last_position", "sequencer_turns_pkey"),
    ],
)
def test_statements_use_their_indexes(planner: psycopg.Connection, name: str, index: str) -> None:
    assert re.search(rf"\busing {index}\b|Index Scan on {index}\b", plan(planner, name))


@pytest.mark.parametrize(
    "name",
    ["lane_floors", "due_asleep", "expired_leases", "due_waits", "due_deadlines", "commits_after"],
)
def test_what_is_asked_in_order_is_not_sorted(planner: psycopg.Connection, name: str) -> None:
    """It comes out of its index in order: a few of a million cost what a few cost."""
    assert "Sort" not in plan(planner, name)
