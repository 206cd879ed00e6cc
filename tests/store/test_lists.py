"""Lists for people: a page comes out of an index in order, at its end as at its beginning."""

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
LATER = (5, "x")
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
        Query("tasks", {"state": "completed", "state_at": ("<", 9)}, "state_at"),
        "tasks_by_state_time",
    ),
    "newest jobs": (Query("jobs", {}, "created_at", True, LATER), "jobs_by_time"),
    "failed jobs": (Query("jobs", {"state": "failed"}, "created_at", True), "jobs_by_state"),
    "old jobs": (Query("jobs", {"task_id": None, "ended_at": ("<", 9)}, "ended_at"), "jobs_ended"),
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


@pytest.mark.parametrize("name", ASKED)
def test_sqlite_walks_an_index_in_order(sqlite: apsw.Connection, name: str) -> None:
    query, index = ASKED[name]
    text, values = asked(query, TAG_IN_JSON_EACH)
    plan = "\n".join(row[3] for row in sqlite.execute(f"EXPLAIN QUERY PLAN {text}", values))
    assert f"INDEX {index}" in plan or f"SEARCH {index} USING PRIMARY KEY" in plan, plan
    if query.after is not None:  # it begins where the last page ended
        assert plan.startswith("SEARCH"), plan
    assert "FOR ORDER BY" not in plan, plan  # the last term alone may be put in order


FILL = f"""
    INSERT INTO tasks (id, project, lifecycle, state, state_at, intent, source, priority, root_id,
        depth, jobs, open_dependencies, open_subtasks, subtasks, rounds, spent, created_by,
        created_at, depends_on, blocked_detail, answered, options, version, title, payload, tags)
    SELECT 't' || n, 'p' || n % 10, 'review',
        CASE n % 50 WHEN 0 THEN 'completed' ELSE 'pending' END, n, 'x' || n % 50, 'api',
        'P' || n % 4, 't' || n, 0, 1, 0, 0, 0, 0, 0, 'a', n, '[]', '{{}}', 'null', '{{}}', 1, '',
        'null', CASE n % 2 WHEN 0 THEN '["red"]' ELSE '[]' END
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO jobs SELECT 'j' || n, 'p', 'completed', n, 'x', 'P2', n, 'j' || n, NULL, NULL, 0,
        0, 0, 0, 0, NULL, NULL, 0, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, n, n, false,
        '{{}}', false, false, 'null', '{{}}', 1, 'null'
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO runs SELECT 'r' || n, 'j' || n, 'succeeded', 1, 1, 'w', n, NULL, n, n, NULL,
        NULL, NULL, NULL, NULL, 0, 0, 0, NULL, NULL
    FROM generate_series(1, {ROWS}) AS n;
    INSERT INTO waits (job_id, name, kind, begun_at, missing, due_at, needs, detail)
    SELECT 'j' || n, 'w', CASE n % 50 WHEN 0 THEN 'question' ELSE 'timer' END, n, 0, n, '[]', '{{}}'
    FROM generate_series(1, {ROWS}) AS n;
"""


@pytest.fixture(scope="module")
def postgres(postgres_server: Cluster) -> Iterator[psycopg.Connection]:
    url = postgres_server.create_database("detent_lists")
    PostgresStore(url).close()
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor) as connection:
        for fill in FILL.split(";\n"):
            if fill.strip():
                connection.execute(fill.encode())
        connection.execute("ANALYZE")
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
    assert index in plan, plan
    assert "Seq Scan" not in plan, plan
    assert "Sort" not in plan.replace("Incremental Sort", "").replace("Sort Key", ""), plan
