"""Databases of storage layout 1, made from databases of the present layout or by SQL."""

from pathlib import Path

import apsw

from detent.store.sqlite import schema
from detent.store.sqlite.checks import APPLICATION_ID
from detent.store.table_names import TABLES
from tests.altered_database import readable

#: Small tables that layout 1 does not have.
NEW = (
    *("lifecycles", "review_drafts", "viewed_files", "snoozes"),
    *("forge_items", "slack", "graph_checkpoints", "project_usage"),
)
#: The tables that have the same columns in both layouts.
SAME = (
    *("events", "seals", "tasks", "dependencies", "jobs", "runs", "evidence", "plans", "steps"),
    *("waits", "signals", "checkpoints", "deadlines", "idempotency_keys", "intake", "outbox"),
    *(table for table in TABLES if table not in NEW),
)
QUEUE = """
    INSERT INTO queue (job_id, root_id, project, intent, rank, due_at, asleep, concurrency_key,
        worker, fence, lease_until, lane)
    SELECT queue.job_id, queue.root_id, queue.project, queue.intent, queue.rank, queue.due_at,
        active_jobs.asleep, queue.concurrency_key, queue.worker, queue.fence, queue.lease_until,
        queue.lane
    FROM new.queue JOIN new.active_jobs ON active_jobs.id = queue.job_id
"""


def empty(path: Path, upto: int = 8) -> apsw.Connection:
    """A new file with the first migrations."""
    opened = apsw.Connection(str(path))
    opened.execute("PRAGMA journal_mode = WAL")
    for number, name, text, digest in schema.MIGRATIONS[:upto]:
        opened.execute(text).fetchall()
        opened.execute(schema.NOTE, (number, name, digest, 1))
    opened.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return opened


def copy(new: Path, to: Path) -> None:
    """The content of a database of the present layout, in layout 1."""
    old = readable(empty(to))
    old.execute("ATTACH ? AS new", (str(new),))
    old.execute("BEGIN")
    for table in SAME:
        names = [row[1] for row in old.execute(f"PRAGMA main.table_info({table})").fetchall()]
        columns = ", ".join(f'"{name}"' for name in names)
        # The view of events has digests as hexadecimal text.
        values = columns.replace('"digest"', "unhex(digest)") if table == "events" else columns
        old.execute(f"DELETE FROM main.{table}")
        old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {values} FROM new.{table}")
    old.execute(QUEUE)
    old.execute("COMMIT")
    old.close()


def multiply(path: Path, job: str, count: int) -> None:
    """Add copies of an ended job, with ids in which `000000` is replaced by a number."""
    old = apsw.Connection(str(path))
    old.execute("PRAGMA synchronous = OFF")
    old.execute("BEGIN")
    [(events, head)] = old.execute(
        "SELECT count(*), max(position) FROM events WHERE stream = ?", (job,)
    ).fetchall()
    for table, key in (("events", "stream"), ("jobs", "id"), ("runs", "job_id")):
        names = [row[1] for row in old.execute(f"PRAGMA table_info({table})").fetchall()]
        values = [
            f"position + {head} * n"
            if name == "position"
            else f"replace({name}, '000000', number)"
            if name in ("stream", "id", "job_id", "run_id", "root_id", "subject", "data")
            else f'"{name}"'
            for name in names
        ]
        columns = ", ".join(f'"{name}"' for name in names)
        old.execute(
            "WITH RECURSIVE series (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < ?)"
            ", numbers AS (SELECT n, printf('%06d', n) AS number FROM series)"
            f" INSERT INTO {table} ({columns}) SELECT {', '.join(values)}"
            f" FROM numbers CROSS JOIN {table} WHERE {key} = ?",
            (count, job),
        ).fetchall()
    old.execute("COMMIT")
    old.close()
    assert events == head, "the job is the only one"
