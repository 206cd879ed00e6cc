"""Guards that decisions share: who holds the job, who may judge, what a name may be."""

from detent.errors import Forbidden, Refused
from detent.kernel.commands import Grant
from detent.kernel.draft import Draft
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.state import Job, Run, Task
from detent.kernel.world import RUNS


def held(draft: Draft, grant: Grant) -> Job:
    """The job, if this grant is the one that holds it now. Everything a worker reports passes here."""
    job = draft.job(grant.job_id)
    if job.state != "running" or job.fence != grant.fence or job.nonce != grant.nonce:
        raise Refused(
            f"the grant with fence {grant.fence} no longer holds job {job.id}, which is {job.state} "
            f"with fence {job.fence}",
            code="stale_fence",
            details={"job": job.id, "state": job.state, "fence": job.fence},
        )
    return job


def held_run(draft: Draft, grant: Grant, run_id: str) -> tuple[Job, Run]:
    """The job and its live run, if the grant holds them."""
    job = held(draft, grant)
    run: Run | None = draft.part(RUNS, job.id, run_id)
    if run is None or run.state != "running" or run.fence != job.fence:
        state = "unknown" if run is None else run.state
        raise Refused(
            f"the run {run_id} of job {job.id} is {state}, not running", code="stale_fence"
        )
    return job, run


def not_the_producer(draft: Draft, task: Task) -> None:
    """An agent never judges its own work, nor its parents' or its subtasks'."""
    if draft.actor.root_id is not None and draft.actor.root_id == task.root_id:
        raise Forbidden(
            f"{draft.actor.name} works on task {task.id} and may not judge it",
            code="own_work",
            hint="A person, or an agent that works on something else, must decide.",
        )


def not_a_run(draft: Draft, task: Task, what: str) -> None:
    """A run cannot widen what it may do itself."""
    if draft.actor.root_id is not None and draft.actor.root_id == task.root_id:
        raise Forbidden(
            f"{draft.actor.name} works on task {task.id} and may not {what}", code="own_work"
        )


def seen(draft: Draft, task: Task, version: int | None) -> None:
    """A verdict is bound to what was looked at."""
    now = draft.versions.get(task.id, 0)
    if version is not None and version != now:
        raise Refused(
            f"task {task.id} has moved on: version {version} was looked at, it is now {now}",
            code="version_conflict",
            hint="Look at the task again and decide anew.",
        )


def refuse(task: Task, event: str) -> None:
    """Refuse by the lifecycle's own table, which names what would be legal."""
    LIFECYCLES[task.lifecycle].next(task.state, event)
