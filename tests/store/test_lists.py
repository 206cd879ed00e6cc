"""Lists for people: a page comes out of an index in order, at its end as at its beginning."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pytest

from detent.store import list_sql
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import numbered
from detent.store.sqlite import SqliteStore
from detent.store.sqlite.reader import TAG_IN_JSON_EACH
from detent.store.statements import statement
from detent.store.types import Query
from verification.postgres_server import Cluster

ROWS = 20_000
LATER = (ROWS // 2, "x")
#: What people and passes ask for, and the index that carries it.
ASKED = {
    "newest tasks": (Query("tasks", {}, "created_at", True), "tasks_by_time"),
    "next page": (Query("tasks", {}, "created_at", True, LATER), "tasks_by_time"),
    "tasks of a state": (
        Query("tasks", {"state": "completed"}, "created_at", True, LATER),
        "tasks_by_state",
    ),
    "tasks of a project": (
        Query("tasks", {"project": "p"}, "created_at", True, LATER),
        "tasks_by_project",
    ),
    "tasks of an intent": (
        Query("tasks", {"intent": "x1"}, "created_at", True, LATER),
        "tasks_by_intent",
    ),
    "tasks with a tag": (
        Query("tasks", {"tags": "red"}, "created_at", True, LATER),
        "task_tags",
    ),
    "urgent tasks": (Query("tasks", {}, "priority", after=("P2", "t5")), "tasks_by_priority"),
    "least urgent tasks": (Query("tasks", {}, "priority", True), "tasks_by_priority"),
    "old tasks": (
        Query("tasks", {"state": "completed", "state_at": ("<", ROWS // 2)}, "state_at"),
        "tasks_by_state_time",
    ),
    "newest jobs": (Query("jobs", {}, "created_at", True, LATER), "jobs_by_time"),
    "failed jobs": (Query("jobs", {"state": "failed"}, "created_at", True), "jobs_by_state"),
    "old jobs": (
        Query(
            "jobs",
            {"task_id": None, "created_at": ("<", 9), "state_at": ("<", 9)},
            "created_at",
        ),
        "jobs_by_time",
    ),
    "newest runs": (Query("runs", {}, "queued_at", True, LATER), "runs_by_time"),
    "failed runs": (Query("runs", {"state": ["failed"]}, "queued_at", True), "runs_by_state"),
    "last run": (Query("runs", {}, "ended_at", True), "runs_ended"),
    "questions of jobs alone": (Query("questions", {}, "begun_at"), "waits_asking"),
    "held resources": (Query("steps", {"held_until": ("<=", 9)}, "held_until"), "steps_held"),
}


def asked(query: Query, contains: str) -> tuple[str, Mapping[str, Any]]:
    """The statement that a list becomes."""
    found: list[tuple[str, Mapping[str, Any]]] = []

    def note(text: str, values: Mapping[str, Any]) -> list[Any]:
        found.append((text, values))
        return []

    list_sql.page(note, query, contains)
    return found[0]


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apsw.Connection]:
    path: Path = tmp_path_factory.mktemp("lists") / "detent.db"
    SqliteStore(path).close()
    opened = apsw.Connection(str(path))
    yield opened
    opened.close()


#: The tables and views of SQLite that a list reads, and what it may sort: the running jobs.
RUNNING = "active_jobs USING INDEX active_jobs_by_state (state=?)"
#: The lists that read each index of SQLite. Tasks and jobs are in two tables each.
INDEXES = {
    "tasks_by_": ("active_tasks_by_", "ended_tasks_by_"),
    "jobs_by_time": ("active_jobs_by_state", "ended_jobs_by_time"),
    "jobs_by_state": ("active_jobs_by_state", "ended_jobs_by_state"),
    "runs_by_time": ("ended_jobs_run_queued", "other_runs_queued"),
    "runs_by_state": ("ended_jobs_run_state", "other_runs_by_state"),
    "runs_ended": ("ended_jobs_run_ended", "other_runs_ended"),
}


def of_sqlite(index: str) -> list[str]:
    for known, names in INDEXES.items():
        if index.startswith(known):
            return [index.replace(known, name) for name in names]
    return [index]


def steps(sqlite: apsw.Connection, query: Query) -> list[str]:
    text, values = asked(query, TAG_IN_JSON_EACH)
    return [row[3] for row in sqlite.execute(f"EXPLAIN QUERY PLAN {text}", values)]


@pytest.mark.parametrize("name", ASKED)
def test_sqlite_walks_an_index_in_order(sqlite: apsw.Connection, name: str) -> None:
    query, index = ASKED[name]
    plan = steps(sqlite, query)
    whole = "\n".join(plan)
    for each in of_sqlite(index):
        assert f"INDEX {each}" in whole or f"SEARCH {each} USING PRIMARY KEY" in whole, whole
    for step, following in zip(plan, [*plan[1:], ""], strict=True):
        assert not step.startswith("SCAN") or "USING INDEX" in step, whole
        assert "CO-ROUTINE" not in step, whole
        if query.after is not None:  # it begins where the last page ended
            assert not step.startswith("SCAN"), whole
        if "FOR ORDER BY" in following and "LAST TERM" not in following:
            assert (query.table, step) == ("runs", f"SEARCH {RUNNING}"), whole


def filled(sqlite: apsw.Connection, count: int) -> None:
    """Active and ended tasks and jobs in several states."""
    sqlite.execute(f"""
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
        INSERT INTO ended_jobs (id, project, state, state_at, intent, priority, rank, root_id,
            queued_at, not_before, attempt, lost, fence, runs, run_id, plan_version, replans,
            created_at, ended_at, resuming, failures, plan_wanted, waited, result, options,
            version, payload, commits, run_state, run_attempt, run_fence, run_worker, run_queued_at,
            run_started_at, run_ended_at, run_cost, run_tokens_in, run_tokens_out)
        SELECT 'e' || n, 'p', iif(n % 50, 'completed', 'failed'), n, 'x', 'P2', n, 'e' || n, 0, 0,
            1, 0, 1, 1, 'e' || n || '-r1', 0, 0, n, n, 0, '{{}}', 0, 0, 'null', '{{}}', 6,
            'null', '', iif(n % 50, 'succeeded', 'failed'), 1, 1, 'w', n, n, n, 0, 0, 0 FROM n;
    """)
    sqlite.execute(f"""
        WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {count})
        INSERT INTO active_jobs (id, project, state, state_at, intent, priority, rank, root_id,
            queued_at, not_before, attempt, lost, fence, runs, plan_version, replans, created_at,
            resuming, failures, plan_wanted, waited, result, options, version, payload, commits,
            lane, due_at)
        SELECT 'a' || n, 'p', iif(n % 1000, 'waiting', 'queued'), n, 'x', 'P2', n, 'a' || n, 0, 0,
            0, 0, 0, 0, 0, 0, n, 0, '{{}}', 0, 0, 'null', '{{}}', 1, 'null', '',
            iif(n % 1000, NULL, 'x'), 0 FROM n;
    """)


#: Lists of jobs and runs that are shown often.
OFTEN = {
    **{name: query for name, (query, _) in ASKED.items() if query.table in ("jobs", "runs")},
    "queued jobs": Query("jobs", {"state": "queued"}, "created_at", True, limit=10),
    "jobs by id": Query("jobs", {"id": ["a5", "e7"]}, limit=2),
    "a run": Query("runs", {"id": "e7-r1"}, limit=1),
    "runs of jobs": Query("runs", {"job_id": ["a5", "e7"]}, "queued_at", limit=10),
    "runs by id": Query("runs", {}, "id", after=("e5-r1", "e5-r1"), limit=10),
    "what a worker holds": Query("queue", {"worker": "w"}, limit=1),
    "work that can be claimed": Query("queue", {"job_id": "a1000"}, limit=1),
}


def work_of(sqlite: apsw.Connection, query: Query) -> int:
    """How many instructions of SQLite's machine a list takes, in hundreds."""
    text, values = asked(query._replace(limit=10), TAG_IN_JSON_EACH)
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    sqlite.set_progress_handler(count, 100)
    try:
        sqlite.execute(text, values).fetchall()
    finally:
        sqlite.set_progress_handler(None)
    return taken


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[apsw.Connection]]:
    made = []
    for count in (10, 10_000, 100_000):
        path: Path = tmp_path_factory.mktemp("sizes") / "detent.db"
        SqliteStore(path).close()
        made.append(apsw.Connection(str(path)))
        made[-1].execute("PRAGMA synchronous = OFF")
        filled(made[-1], count)
    yield made
    for each in made:
        each.close()


@pytest.mark.parametrize("name", OFTEN)
def test_a_list_costs_the_same_with_a_hundred_thousand_rows(
    sizes: list[apsw.Connection], name: str
) -> None:
    small, medium, large = (work_of(each, OFTEN[name]) for each in sizes)
    assert steps(sizes[0], OFTEN[name]) == steps(sizes[2], OFTEN[name])
    assert large <= 2 * max(small, medium) + 60, (small, medium, large)


#: A function in FROM is called once for each row; `(function(...)).*` calls it for each column.
TASK = """
    INSERT INTO {table}
    SELECT made.* FROM generate_series(1, {rows}) AS n,
    json_populate_record(NULL::{table}, json_build_object(
        'id', '{letter}' || n, 'project', 'p' || n % 10, 'lifecycle', 'review', 'state', {state},
        'state_at', n, 'intent', 'x' || n % 1000, 'source', 'api', 'priority', 'P' || n % 4,
        'root_id', '{letter}' || n, 'depth', 0, 'jobs', 1, 'open_dependencies', 0,
        'open_subtasks', 0, 'subtasks', 0, 'rounds', 0, 'spent', 0, 'created_by', 'a',
        'created_at', n, 'depends_on', '[]', 'settled', '[]', 'blocked_detail', '[]',
        'answered', 'null', 'options', '[]', 'version', 1, 'title', '', 'payload', 'null',
        'tags', CASE n % 2 WHEN 0 THEN '["red"]' ELSE '[]' END, 'commits', ''
    )) AS made
"""
SELDOM = "CASE n % 50 WHEN 0 THEN 'completed' ELSE 'cancelled' END"
JOB = """
    INSERT INTO {table}
    SELECT made.* FROM generate_series(1, {rows}) AS n,
    json_populate_record(NULL::{table}, json_build_object(
        'id', '{letter}' || n, 'project', 'p', 'state', {state}, 'state_at', n, 'intent', 'x',
        'priority', 'P2', 'rank', n, 'root_id', '{letter}' || n, 'queued_at', n, 'not_before', 0,
        'attempt', 0, 'lost', 0, 'fence', 1, 'runs', 1, 'plan_version', 0, 'replans', 0,
        'created_at', n, 'resuming', false, 'failures', '[]', 'plan_wanted', false,
        'waited', false, 'result', 'null', 'options', '[]', 'version', 1, 'payload', 'null',
        'commits', '', 'asleep', false, {more}
    )) AS made
"""
FAILED = "CASE n % 50 WHEN 0 THEN 'failed' ELSE 'completed' END"
ENDED = """
    'ended_at', n, 'run_id', 'e' || n || '-r1', 'run_queued_at', n, 'run_ended_at', n,
    'run_state', CASE n % 50 WHEN 0 THEN 'failed' ELSE 'succeeded' END
"""
FILL = (
    TASK.format(table="active_tasks", letter="t", state="'pending'", rows=ROWS),
    TASK.format(table="ended_tasks", letter="u", state=SELDOM, rows=ROWS),
    JOB.format(table="active_jobs", letter="j", state="'queued'", more="'lane', 'x'", rows=ROWS),
    JOB.format(table="ended_jobs", letter="e", state=FAILED, more=ENDED, rows=ROWS),
    f"""
    INSERT INTO other_runs (id, job_id, state, attempt, fence, worker, queued_at, ended_at, cost,
        tokens_in, tokens_out)
    SELECT 'e' || n || '-r2', 'e' || n, 'succeeded', 1, 1, 'w', n, n, 0, 0, 0
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO waits (job_id, name, kind, begun_at, missing, due_at, needs, detail)
    SELECT 'j' || n, 'w', CASE n % 50 WHEN 0 THEN 'question' ELSE 'timer' END, n, 0, n, '[]', '[]'
    FROM generate_series(1, {ROWS}) AS n
    """,
)
#: The indexes of PostgreSQL that carry a list. Tasks and jobs are in two tables each.
POSTGRES_INDEXES = {
    "tasks_by_": ("active_tasks_by_", "ended_tasks_by_"),
    "jobs_by_time": ("active_jobs_by_time", "ended_jobs_by_time"),
    "jobs_by_state": ("ended_jobs_by_state",),
    "jobs_ended": ("ended_jobs_ended",),
    "runs_by_time": ("ended_jobs_run_time", "other_runs_by_time"),
    "runs_by_state": ("ended_jobs_run_state", "other_runs_by_state"),
    "runs_ended": ("ended_jobs_run_ended", "other_runs_ended"),
}


def of_postgres(index: str) -> list[str]:
    for known, names in POSTGRES_INDEXES.items():
        if index.startswith(known):
            return [index.replace(known, name) for name in names]
    return [index]


@pytest.fixture(scope="module")
def postgres(postgres_server: Cluster) -> Iterator[psycopg.Connection]:
    url = postgres_server.create_database("detent_lists")
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for fill in FILL:
            connection.execute(fill.encode())
        connection.execute("ANALYZE")
        connection.execute("SET enable_bitmapscan = off")
        yield connection
    postgres_server.drop_database("detent_lists")


@pytest.mark.parametrize("name", [name for name in ASKED if name != "held resources"])
def test_postgres_walks_an_index_in_order(postgres: psycopg.Connection, name: str) -> None:
    query, index = ASKED[name]
    text, values = asked(query, "{column} LIKE :{value}")
    list_ = statement("list", text)
    bound = [values[each] for each in list_.parameters]
    rows = postgres.execute(b"EXPLAIN (COSTS OFF) " + numbered(list_), bound).fetchall()
    plan = "\n".join(row[0] for row in rows)
    for each in of_postgres(index):
        assert each in plan, plan
    # What is leased is read as a whole and sorted: it is what runs now.
    plan = re.sub(r"->  Sort\n +Sort Key: active_jobs.*\n +->  Nested Loop\n.*on leases", "", plan)
    assert "Seq Scan" not in plan, plan
    assert "Sort" not in plan.replace("Incremental Sort", "").replace("Sort Key", ""), plan
