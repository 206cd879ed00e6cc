"""`summary.json` of a run: its job, outcome, cost and evidence in one file.

It is made from rows and written to the run's directory when the run has ended. The keeper writes
it later if the worker could not.
"""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from detent import private_files, views
from detent.kernel.entities import Job, Run
from detent.store.port import ReadTransaction
from detent.store.types import Query

FILE = "summary.json"
LIVE = ("queued", "running")
#: More than the number of evidence files that a run may have.
MAX_EVIDENCE = 100_000


def documents(view: ReadTransaction, run_ids: Collection[str]) -> dict[str, dict[str, Any]]:
    """By run id, the summaries of the runs that have ended."""
    runs = [run for run in view.runs(run_ids) if run.state not in LIVE]
    if not runs:
        return {}
    jobs = {job.id: job for job, _ in view.jobs({run.job_id for run in runs})}
    evidence: dict[str, list[Mapping[str, Any]]] = {run.id: [] for run in runs}
    query = Query("evidence", {"run_id": list(evidence)}, "at", limit=MAX_EVIDENCE)
    for row in view.page(query):
        evidence[row["run_id"]].append(row)
    known = [run for run in runs if run.job_id in jobs]
    return {run.id: _document(run, jobs[run.job_id], evidence[run.id]) for run in known}


def _document(run: Run, job: Job, evidence: list[Mapping[str, Any]]) -> dict[str, Any]:
    began, ended = run.started_at or run.queued_at, run.ended_at or 0
    return {
        "run": run.id,
        "job": job.id,
        "task": job.task_id,
        "project": job.project,
        "intent": job.intent,
        "step": run.step,
        "attempt": run.attempt,
        "worker": run.worker,
        "state": run.state,
        "outcome": run.outcome,
        "exit_code": run.exit_code,
        "error_class": run.error_class,
        "error": run.error,
        "queued_at": views.utc(run.queued_at),
        "started_at": None if run.started_at is None else views.utc(run.started_at),
        "ended_at": views.utc(ended),
        "duration_ms": (ended - began) // 1_000,
        "cost_usd": run.cost / 1_000_000,
        "tokens_in": run.tokens_in,
        "tokens_out": run.tokens_out,
        "session_id": run.session_id,
        "evidence": [_to_schema(row) for row in evidence],
    }


def _to_schema(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "file": row["file"],
        "type": row["kind"],
        "size": row["size"],
        "sha256": row["sha256"],
        "media_type": row["media_type"],
        "at": views.utc(row["at"]),
    }


def write(directory: Path, document: Mapping[str, Any]) -> None:
    """Write the file atomically, in a directory in which the run's program can place links."""
    with private_files.replacing(directory / FILE) as file:
        json.dump(document, file, indent=2, ensure_ascii=False)
        file.write("\n")
