"""Finds the diff under review: the newest `changes.diff` of the runs of a task. Reads only."""

from collections.abc import Mapping
from typing import Any

from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Task
from detent.store.port import ReadTransaction
from detent.store.types import Query

CHANGES = "changes.diff"
MAX_ROWS = 1_000


def diff_under_review(view: ReadTransaction, task: Task) -> Mapping[str, Any] | None:
    """The row of the evidence; None if no run of the task has changed a work tree."""
    jobs = {"job_id": jobs_of_task(task.id, task.jobs)}
    runs = [row["id"] for row in view.page(Query("runs", jobs, "queued_at", limit=MAX_ROWS))]
    if not runs:
        return None
    where = {"run_id": runs, "file": CHANGES}
    rows = view.page(Query("evidence", where, "at", limit=MAX_ROWS))
    return rows[-1] if rows else None
