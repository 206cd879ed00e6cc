"""Runs: lists of them, their evidence and their output."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from detent import views
from detent.kernel.entities import Job
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.cursor_pages import MAX_ROWS, listed, page, states_from
from detent.operations.output_times import read_times
from detent.operations.queries import jobs_of, titles_of
from detent.operations.registry import Caller, Scope, operation
from detent.operations.run_output import read_output
from detent.store.stale_reads import read_stale
from detent.store.types import Query

LIVE = ("queued", "running")
#: The kinds of waits for a budget.
BUDGET_WAITS = ("budget", "funds")


@operation(Scope.READ, "GET", "/api/runs")
def list_runs(
    core: Core,
    caller: Caller,
    *,
    state: str | None = None,
    worker: str | None = None,
    job_id: str | None = None,
    search: str = "",
    sort: str = "-queued_at",
    cursor: str | None = None,
    limit: int = 100,
) -> schemas.RunPage:
    """List runs, filtered and sorted, one page at a time."""
    where: dict[str, Any] = {} if state is None else {"state": states_from(core, state, "runs")}
    where.update({} if worker is None else {"worker": worker})
    where.update({} if job_id is None else {"job_id": job_id})
    rows, after = page(core, "runs", where, sort, cursor, limit, search)
    return {"items": _with_tasks(core, caller, rows), "cursor": after}


def _with_tasks(
    core: Core, caller: Caller, rows: Sequence[Mapping[str, Any]]
) -> list[schemas.ListedRun]:
    """Runs with their tasks; only those that the caller may see."""
    with read_stale(core.store) as view:
        jobs = {job.id: job for job, _ in view.jobs({row["job_id"] for row in rows})}
    if caller.project is not None:
        jobs = {job.id: job for job in jobs.values() if job.project == caller.project}
    titles = titles_of(core, {job.task_id for job in jobs.values()})
    return [_listed(row, jobs, titles) for row in rows if row["job_id"] in jobs]


def _listed(
    row: Mapping[str, Any], jobs: Mapping[str, Job], titles: Mapping[str | None, str]
) -> schemas.ListedRun:
    task_id = jobs[row["job_id"]].task_id
    return {**run_from(row), "task_id": task_id, "title": titles.get(task_id, "")}


@operation(Scope.READ, "GET", "/api/runs/{run_id}")
def show_run(core: Core, caller: Caller, *, run_id: str) -> schemas.ListedRun:
    """Show a run, its outcome, and the title of its task."""
    [found] = _with_tasks(core, caller, [core.run(caller, run_id)])
    return found


@operation(Scope.READ, "GET", "/api/runs/{run_id}/evidence")
def run_evidence(core: Core, caller: Caller, *, run_id: str) -> schemas.EvidenceList:
    """List the evidence files of a run."""
    core.run(caller, run_id)
    return {"items": listed(core, Query("evidence", {"run_id": run_id}, "at"))}


@operation(Scope.READ, "GET", "/api/runs/{run_id}/output")
def run_output(core: Core, caller: Caller, *, run_id: str, offset: int = 0) -> schemas.Output:
    """Read the output of a run from an offset, also while it runs."""
    return _output(core, core.run(caller, run_id), offset)


# ---- runs of a task and of a job -------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/runs")
def task_runs(core: Core, caller: Caller, *, task_id: str) -> schemas.Runs:
    """List the runs of a task's jobs, oldest first."""
    return {"items": _runs(core, jobs_of(core, caller, task_id))}


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/evidence")
def task_evidence(core: Core, caller: Caller, *, task_id: str) -> schemas.EvidenceList:
    """List the evidence files of a task's runs."""
    return {"items": _evidence(core, jobs_of(core, caller, task_id))}


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/logs")
def task_logs(core: Core, caller: Caller, *, task_id: str, offset: int = 0) -> schemas.Output:
    """Read the output of a task's last run from an offset, also while it runs."""
    return _last_output(core, jobs_of(core, caller, task_id), offset)


@operation(Scope.READ, "GET", "/api/jobs/{job_id}/runs")
def job_runs(core: Core, caller: Caller, *, job_id: str) -> schemas.Runs:
    """List the runs of a job, oldest first."""
    core.job(caller, job_id)
    return {"items": _runs(core, [job_id])}


@operation(Scope.READ, "GET", "/api/jobs/{job_id}/evidence")
def job_evidence(core: Core, caller: Caller, *, job_id: str) -> schemas.EvidenceList:
    """List the evidence files of a job's runs."""
    core.job(caller, job_id)
    return {"items": _evidence(core, [job_id])}


@operation(Scope.READ, "GET", "/api/jobs/{job_id}/logs")
def job_logs(core: Core, caller: Caller, *, job_id: str, offset: int = 0) -> schemas.Output:
    """Read the output of a job's last run from an offset, also while it runs."""
    core.job(caller, job_id)
    return _last_output(core, [job_id], offset)


def _runs(core: Core, jobs: list[str]) -> list[schemas.Run]:
    with core.store.read() as view:
        found = view.page(Query("runs", {"job_id": jobs}, "queued_at", limit=MAX_ROWS))
    return [run_from(row) for row in found] if jobs else []


def _evidence(core: Core, jobs: list[str]) -> list[schemas.Evidence]:
    runs = [run["id"] for run in _runs(core, jobs)]
    return listed(core, Query("evidence", {"run_id": runs}, "at")) if runs else []


def _last_output(core: Core, jobs: list[str], offset: int) -> schemas.Output:
    with core.store.read() as view:
        query = Query("runs", {"job_id": jobs}, "queued_at", descending=True, limit=1)
        rows = view.page(query) if jobs else ()
    if not rows:
        return {"run_id": None, "text": "", "offset": 0, "ended": False, "times": []}
    return _output(core, rows[0], offset)


def _output(core: Core, run: Mapping[str, Any], offset: int) -> schemas.Output:
    """`ended` is read before the text, so the end is never reported before the whole output."""
    ended = run["state"] not in LIVE
    data = read_output(core.store, core.settings.data_dir, run["id"], offset)
    times: list[schemas.OutputTime] = []
    if data:
        known = read_times(core.store, core.settings.data_dir, run["id"])
        times = [{"line": line, "at": views.utc(at)} for line, at in known.of_lines(data, offset)]
    return {
        "run_id": run["id"],
        "text": data.decode("utf-8", "replace"),
        "offset": offset + len(data),
        "ended": ended,
        "times": times,
    }


def run_from(row: Mapping[str, Any]) -> schemas.Run:
    """A run for clients, with the reason for its end.

    A suspended run has not finished its work: it waits, or its budget is spent.
    """
    outcome, reason = row["outcome"], row["reason"] or row["error"]
    if outcome == "suspended" and row["reason"] in BUDGET_WAITS:
        outcome = "budget"
    if reason is None and row["state"] == "cancelled":
        reason = outcome
    return cast(schemas.Run, views.shown({**row, "outcome": outcome, "reason": reason}))
