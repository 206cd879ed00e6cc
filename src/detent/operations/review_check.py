"""The check of a task's latest work: what its checker, a subtask, has found."""

from detent.kernel.acceptance import is_acceptance
from detent.kernel.checks import CHECKS, says_accept
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.entities import Job, Task
from detent.operations import schemas
from detent.store.port import ReadTransaction
from detent.store.types import Query

#: How many of the newest subtasks are searched.
MAX_SUBTASKS = 200


def check_of(view: ReadTransaction, task: Task) -> schemas.Check | None:
    """The check of the work under review; None if there is none."""
    checker = task.options.get("checker")
    if checker is None:
        return None
    jobs = {job.id: job for job, _ in view.jobs(jobs_of_task(task.id, task.jobs))}
    worked = [name for name in jobs_of_task(task.id, task.jobs) if not is_acceptance(jobs[name])]
    where = {"parent_id": task.id, "intent": checker}
    rows = view.page(Query("tasks", where, "created_at", descending=True, limit=MAX_SUBTASKS))
    states = {row["id"]: row["state"] for row in rows}
    for job, _ in view.jobs([row["job_id"] for row in rows if row["job_id"] is not None]):
        # Only detent sets this option, so no other subtask of the intent is a check.
        if worked and job.options.get(CHECKS, {}).get("job_id") == worked[-1]:
            return _to_schema(job, states[job.task_id or ""])
    return None


def _to_schema(job: Job, state: str) -> schemas.Check:
    ended = job.state == "completed"
    return {
        "task_id": job.task_id or "",
        "checker": job.intent,
        "state": state,
        "accept": says_accept(job.result) if ended else None,
        "diff": job.options[CHECKS].get("diff"),
        "result": job.result if ended else None,
    }
