"""Acceptances with an action for clients: what runs, for whom, and why it did not succeed."""

from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import TypedDict

from detent.kernel.acceptance import ACCEPTANCE, action_of, conflicts_in, is_acceptance
from detent.kernel.entities import Job
from detent.operations import schemas
from detent.store.port import ReadTransaction


def acceptances(
    view: ReadTransaction, rows: Sequence[Mapping[str, Any]]
) -> Mapping[str | None, schemas.Acceptance]:
    """By job id, the acceptances among the latest jobs of tasks."""
    jobs = [row["job_id"] for row in rows if row["job_id"] and action_of(row["options"])]
    found = view.jobs(jobs) if jobs else ()
    return {job.id: acceptance(job) for job, _ in found if is_acceptance(job)}


def acceptance(job: Job) -> schemas.Acceptance:
    """The acceptance that a job carries out."""
    verdict = job.options[ACCEPTANCE]
    return {
        "action": verdict["action"],
        "by": verdict["by"],
        "job_id": job.id,
        "state": job.state,
        "problem": problem(job),
        **_outcome(job),
    }


class _Outcome(TypedDict):
    branch: str | None
    commit: str | None


def _outcome(job: Job) -> _Outcome:
    """The branch that the action changed, and its commit."""
    done = job.result if isinstance(job.result, Mapping) else {}
    if "merge" in done:
        return {"branch": done["merge"]["target"], "commit": done["merge"]["commit"]}
    if "push" in done:
        return {"branch": done["push"]["branch"], "commit": done["push"]["commit"]}
    return {"branch": None, "commit": None}


def problem(job: Job | None) -> str | None:
    """Why an acceptance was not carried out."""
    if job is None or not is_acceptance(job):
        return None
    files = conflicts_in(job.result)
    if files:
        return f"The work has conflicts with its target branch in {', '.join(files[:10])}."
    return job.error if job.state == "failed" else None
