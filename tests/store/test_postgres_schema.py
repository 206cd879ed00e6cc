"""The schema of the PostgreSQL store: its states, its columns, and the plans of its statements."""

import re
from collections.abc import Iterator

import psycopg
import pytest

from detent.kernel import entities
from detent.kernel.lifecycles import LIFECYCLES
from detent.store.list_sql import COLUMNS
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import numbered
from detent.store.postgres.reader import SQL
from detent.store.rows import Question, columns
from detent.store.sqlite import schema as sqlite_schema
from verification.postgres_server import Cluster


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


@pytest.mark.parametrize("name", ["job", "run", "step"])
def test_the_states_are_those_of_the_lifecycle(database: psycopg.Connection, name: str) -> None:
    assert states(database, f"{name}s_state") == [list(LIFECYCLES[name].state_names)]


def test_the_states_of_a_task_are_those_of_its_lifecycle(database: psycopg.Connection) -> None:
    lists = [list(LIFECYCLES[name].state_names) for name in ("board", "review")]
    assert states(database, "tasks_state") == lists
    with pytest.raises(psycopg.errors.NotNullViolation):  # and not by the states
        database.execute("INSERT INTO tasks (id, lifecycle, state) VALUES ('t', 'board', 'todo')")


def tables(database: psycopg.Connection) -> dict[str, list[str]]:
    """The columns of each table, in their order."""
    query = """
        SELECT table_name, array_agg(column_name::text ORDER BY ordinal_position)
        FROM information_schema.columns
        WHERE table_schema = 'public'
        GROUP BY table_name
    """
    return dict(database.execute(query).fetchall())


def test_the_tables_are_those_of_sqlite(database: psycopg.Connection) -> None:
    # SQLite has two more, for its own storage layout.
    text = "\n".join(migration.text for migration in sqlite_schema.MIGRATIONS[:8])
    found = re.findall(r"^CREATE TABLE (\w+) \((.*?)^\)", text, re.MULTILINE | re.DOTALL)
    column = re.compile(r"^    (\w+) (?:TEXT|INTEGER|BLOB|REAL)", re.MULTILINE)
    dropped = re.findall(r"^DROP TABLE (\w+)", text, re.MULTILINE)
    theirs = {name: column.findall(body) for name, body in found if name not in dropped}
    for name, added in re.findall(r"^ALTER TABLE (\w+) ADD COLUMN (\w+)", text, re.MULTILINE):
        theirs[name].append(added)
    ours = tables(database)
    (view,) = re.findall(r"^CREATE VIEW (\w+)", text, re.MULTILINE)
    assert ours.pop(view) == list(Question._fields)
    # Other processes are notified of lanes; blobs and output have no files beside the database.
    assert ours.keys() - theirs.keys() == {"arrivals", "blobs", "output"}
    assert {name: set(ours[name]) for name in theirs} == {
        name: set(names) for name, names in theirs.items()
    }


@pytest.mark.parametrize(
    ("table", "entity"),
    [
        ("tasks", entities.Task),
        ("jobs", entities.Job),
        ("runs", entities.Run),
        ("steps", entities.Step),
        ("waits", entities.Wait),
        ("signals", entities.Signal),
        ("checkpoints", entities.Checkpoint),
    ],
)
def test_columns_are_fields(database: psycopg.Connection, table: str, entity: type) -> None:
    assert set(columns(entity)) <= set(tables(database)[table])


@pytest.mark.parametrize("table", COLUMNS)
def test_what_people_list_is_there(database: psycopg.Connection, table: str) -> None:
    assert set(tables(database)[table]) - {"asleep"} == set(COLUMNS[table])


def test_all_text_is_compared_byte_by_byte(database: psycopg.Connection) -> None:
    """Lists come in the order of every other store, whatever the database's own language."""
    query = """
        SELECT table_name || '.' || column_name FROM information_schema.columns
        WHERE table_schema = 'public' AND data_type = 'text' AND collation_name <> 'C'
    """
    assert database.execute(query).fetchall() == []


# ---- plans of statements ---------------------------------------------------------------------

#: What the server may believe of the tables when it makes a plan that it then keeps.
BELIEFS = ("nothing", "empty", "one row", "many rows")
#: Statements that are made for several tables, or are about whole small ones, or about sessions.
LEFT_OUT = {name for name, each in SQL.items() if re.search(r"\bnamed\b", each.text)}
LEFT_OUT |= {"end_silent"}

FILL = """
    INSERT INTO jobs SELECT 'j' || n, 'p', 'queued', 1, 'x', 'P2', n, 'j' || n, NULL, NULL, 0, 0, 0,
        0, 0, NULL, NULL, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, 0, NULL, false, '{{}}',
        false, false, 'null', '{{}}', 1, 'null'
    FROM generate_series(1, {0}) AS n;
    INSERT INTO queue SELECT 'j' || n, 'j' || n, 'p', 'x', n, 0, n % 2 = 0, NULL
    FROM generate_series(1, {0}) AS n;
    INSERT INTO runs SELECT 'r' || n, 'j' || n, 'running', 1, 1, 'w', 1, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL
    FROM generate_series(1, {0}) AS n;
    INSERT INTO events OVERRIDING SYSTEM VALUE
    SELECT n, 'j' || n, 1, 'p', 'x', 1, NULL, 1, 'a', '' FROM generate_series(1, {0}) AS n;
    INSERT INTO waits SELECT 'j' || n, 'w', 'timer', 1, NULL, 0, n, '[]', '{{}}'
    FROM generate_series(1, {0}) AS n;
    INSERT INTO idempotency_keys SELECT 'p', 'k' || n, '', '', n
    FROM generate_series(1, {0}) AS n;
    INSERT INTO evidence SELECT 'r' || n, 'f', 'k', '', 1, 'm', 1
    FROM generate_series(1, {0}) AS n;
"""
FILLED = ("jobs", "queue", "runs", "events", "waits", "idempotency_keys", "evidence")


@pytest.fixture(scope="module", params=BELIEFS)
def planner(request: pytest.FixtureRequest, database: psycopg.Connection) -> psycopg.Connection:
    """A database of which the server believes something that need not be true later."""
    belief: str = request.param
    database.execute(f"TRUNCATE {', '.join(FILLED)}".encode())
    if belief.endswith(("row", "rows")):
        database.execute(FILL.format(1 if belief == "one row" else 500).encode())
    if belief != "nothing":
        database.execute("VACUUM ANALYZE")
    return database


def plan(database: psycopg.Connection, name: str) -> str:
    """The plan that is kept for a statement, made in a write transaction."""
    values = ", ".join(["NULL"] * len(SQL[name].parameters))
    with database.transaction(force_rollback=True):
        begin = psycopg.RawCursor(database)
        begin.execute(numbered(SQL["begin_writing"]), ["30000", "60000"])
        database.execute(b"PREPARE statement AS " + numbered(SQL[name]))
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


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("claimable", "queue_lanes"),
        ("lane_floors", "queue_lanes"),
        ("lanes", "queue_lanes"),
        ("due_asleep", "queue_asleep"),
        ("next_asleep", "queue_asleep"),
        ("running_by_intent", "queue_leased"),
        ("running_by_key", "queue_leased_keys"),
        ("due_leases", "queue_leased"),
        ("due_waits", "waits_due"),
        ("due_deadlines", "deadlines_due"),
        ("live_runs", "runs_by_job"),
        ("update_jobs", "jobs_pkey"),
        ("delete_queue", "queue_pkey"),
        ("events_after", "events_pkey"),
        ("events_of_stream", "events_in_stream"),
    ],
)
def test_statements_use_their_indexes(planner: psycopg.Connection, name: str, index: str) -> None:
    assert re.search(rf"\busing {index}\b|Index Scan on {index}\b", plan(planner, name))


@pytest.mark.parametrize(
    "name",
    ["lane_floors", "due_asleep", "due_leases", "due_waits", "due_deadlines", "events_after"],
)
def test_what_is_asked_in_order_is_not_sorted(planner: psycopg.Connection, name: str) -> None:
    """It comes out of its index in order: a few of a million cost what a few cost."""
    assert "Sort" not in plan(planner, name)
