"""Guards that decisions share: who holds the job, who may judge, what a command may carry."""

from detent.errors import Forbidden, Invalid, Refused
from detent.kernel.budget_reservation import used_up
from detent.kernel.commands import Actor, Grant
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Run, Task
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.predicates import failed_dependencies
from detent.kernel.wait_kinds import PEOPLE
from detent.kernel.world import RUNS

#: Reasons of a cancel that only detent gives: they decide what happens next.
OWN_REASONS = ("dependency", "handed_back", "job_timeout", "queue_timeout", "worker_lost")


def held(draft: Draft, grant: Grant) -> Job:
    """The job, if this grant is the one that holds it now. Every report of a worker passes here."""
    job = draft.job(grant.job_id)
    if job.state != "running" or job.fence != grant.fence or job.nonce != grant.nonce:
        raise Refused(
            f"the grant with fence {grant.fence} no longer holds job {job.id}, "
            f"which is {job.state} with fence {job.fence}",
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


def not_its_own(draft: Draft, work: Task | Job, what: str) -> None:
    """A run neither judges its own work, its parents' or its subtasks', nor widens its limits."""
    if works_on(draft.actor, work.root_id):
        raise Forbidden(
            f"{draft.actor.name} works on {work.id} and may not {what}",
            code="own_work",
            hint="A person, or an agent that works on something else, must decide.",
        )


def works_on(actor: Actor, root_id: str) -> bool:
    """Whether the actor is a run of this tree: bound to it, or named as one of its runs."""
    named = actor.name.startswith("run:") and actor.name.endswith(f"@{root_id}")
    return named or actor.root_id == root_id


def only_below_its_own(draft: Draft, parent: Task | Job | None) -> None:
    """A run adds work to the tree that it works on, and nowhere else."""
    root_id = draft.actor.root_id
    if root_id is not None and (parent is None or parent.root_id != root_id):
        raise Forbidden(
            f"{draft.actor.name} works on {root_id} and may add work below it only",
            code="own_work",
            hint="Submit it as a subtask of the own task.",
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


def refusal(task: Task, event: str) -> Refused:
    """A refusal by the lifecycle's own table, which names what would be legal."""
    return LIFECYCLES[task.lifecycle].illegal(task.state, event)


def cancel_reason(reason: str) -> None:
    if reason in OWN_REASONS:
        raise Invalid(f"{reason} is a reason that only detent gives", field="reason", given=reason)


def dependencies_allow(draft: Draft, task: Task) -> None:
    """What depends on something that has failed would only fail again."""
    failed = failed_dependencies(draft, task)
    if failed:
        raise Refused(
            f"task {task.id} depends on {', '.join(failed)}, which failed",
            code="dependency_failed",
            details={"failed": failed},
        )


def not_over_a_question(task: Task) -> None:
    """What a person's answer holds up is neither judged nor run again before it is answered."""
    if task.blocked_by in PEOPLE:
        raise Refused(
            f"task {task.id} has an open question",
            code="open_question",
            legal=("answer", "cancel"),
            hint=f"Answer it first: `detent answer {task.id} ANSWER`. Or cancel the task.",
        )


def reason_is_gone(draft: Draft, task: Task) -> None:
    """A person may end a block, but not one that would come back at once."""
    not_over_a_question(task)
    if task.blocked_by == "dependency" and task.open_dependencies > 0:
        dependencies_allow(draft, task)
        raise Refused(
            f"task {task.id} waits for {task.open_dependencies} of {', '.join(task.depends_on)}",
            code="dependency_open",
        )
    if task.blocked_by == "budget" and used_up(draft, task):
        raise Refused(f"task {task.id} has spent its budget", code="budget_spent")
