"""Checks that several decisions share: the grant, who may decide, open questions, dependencies."""

from collections.abc import Mapping

from detent.errors import Forbidden, Invalid, Refused
from detent.kernel import events as e
from detent.kernel.acceptance import ACCEPTANCE, is_acceptance
from detent.kernel.budget_reservation import used_up
from detent.kernel.commands import Actor, Grant
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Run, Task
from detent.kernel.predicates import ENDED_JOB, failed_dependencies
from detent.kernel.wait_kinds import PEOPLE
from detent.kernel.world import RUNS

#: Reasons for a cancel that only detent itself gives: they decide what happens next.
OWN_REASONS = ("dependency", "handed_back", "job_timeout", "queue_timeout", "worker_lost")
#: By the event that a command writes, what the command does to the task.
DONE_TO_TASK: Mapping[str, str] = {
    e.TaskQueued.name: "run",
    e.TaskRetried.name: "retried",
    e.TaskResumed.name: "resumed",
    e.TaskUnblocked.name: "unblocked",
    e.TaskAccepted.name: "accepted",
    e.TaskAccepting.name: "accepted",
    e.TaskRejected.name: "rejected",
    e.TaskCancelled.name: "cancelled",
}


def held(draft: Draft, grant: Grant) -> Job:
    """Return the job if the grant is of its latest claim. Every report of a worker is checked."""
    job = draft.job(grant.job_id)
    if job.state != "running" or job.fence != grant.fence or job.nonce != grant.nonce:
        raise Refused(
            f"The grant with fence {grant.fence} of job {job.id} is not valid any more: the job is "
            f"{job.state} with fence {job.fence}.",
            code="stale_fence",
            details={"job": job.id, "state": job.state, "fence": job.fence},
        )
    return job


def held_run(draft: Draft, grant: Grant, run_id: str) -> tuple[Job, Run]:
    """Return the job and its live run if the grant is valid."""
    job = held(draft, grant)
    run: Run | None = draft.part(RUNS, job.id, run_id)
    if run is None or run.state != "running" or run.fence != job.fence:
        state = "unknown" if run is None else run.state
        raise Refused(f"Run {run_id} of job {job.id} is {state}, not running.", code="stale_fence")
    return job, run


def not_its_own(draft: Draft, work: Task | Job, what: str) -> None:
    """Refuse a run that reviews the work of its own tree or raises its limits."""
    if works_on(draft.actor, work.root_id):
        raise Forbidden(
            f"{draft.actor.name} works on {work.id} and may not {what}.",
            code="own_work",
            hint="A person, or an agent that works on another task, must decide.",
        )


def works_on(actor: Actor, root_id: str) -> bool:
    """Whether the actor is a run of this tree, by its root id or by its name."""
    named = actor.name.startswith("run:") and actor.name.endswith(f"@{root_id}")
    return named or actor.root_id == root_id


def only_below_its_own(draft: Draft, parent: Task | Job | None) -> None:
    """Refuse a run that submits work outside its own tree."""
    root_id = draft.actor.root_id
    if root_id is not None and (parent is None or parent.root_id != root_id):
        raise Forbidden(
            f"{draft.actor.name} works on {root_id} and may add work only below it.",
            code="own_work",
            hint="Submit it as a subtask of the run's own task.",
        )


def seen(draft: Draft, task: Task, version: int | None) -> None:
    """Refuse a review of an outdated version of the task."""
    now = draft.versions.get(task.id, 0)
    if version is not None and version != now:
        raise Refused(
            f"Task {task.id} has changed: version {version} was reviewed, it is now version {now}.",
            code="version_conflict",
            hint="Show the task again and review its current version.",
        )


def same_diff(draft: Draft, task: Task, reviewed: ReviewedDiff | None) -> str | None:
    """Return the SHA-256 of the reviewed diff; refuse if the task may have another diff now."""
    if reviewed is None:
        return None
    job_id = task.job_id or ""
    if (reviewed.job_id, reviewed.job_version) != (job_id, draft.versions.get(job_id, 0)):
        raise Refused(
            f"Task {task.id} has new results since the diff {reviewed.sha256} was reviewed.",
            code="diff_changed",
            details={"reviewed": reviewed.sha256},
        )
    return reviewed.sha256


def not_while_accepting(draft: Draft, task: Task) -> None:
    """Refuse a second verdict while the action of the first one is in the queue or runs."""
    job = draft.job_of(task)
    if job is not None and is_acceptance(job) and job.state not in ENDED_JOB:
        verdict = job.options[ACCEPTANCE]
        raise Refused(
            f"Task {task.id} was accepted by {verdict['by']}, and its action ({verdict['action']}) "
            "has not ended.",
            code="already_accepted",
            hint="Wait until it has ended: `detent why` shows its progress.",
            details={"by": verdict["by"], "action": verdict["action"]},
        )


def possible(draft: Draft, task: Task, event: type[e.Event]) -> None:
    """Refuse a command whose event the lifecycle does not allow in the task's state."""
    if not draft.may(task, event):
        raise refusal(draft, task, event.name)


def refusal(draft: Draft, task: Task, event: str, done: str | None = None) -> Refused:
    """Return the refusal of an event, in words for people if a command writes it.

    `done` is what the command would have done to the task.
    """
    done = done or DONE_TO_TASK.get(event)
    message = None
    if done is not None:
        message = f"Task {task.id} cannot be {done}: it is {task.state_text}."
    return draft.lifecycle(task).illegal(task.state, event, message=message)


def cancel_reason(reason: str) -> None:
    if reason in OWN_REASONS:
        message = f"The reason {reason!r} is reserved for detent. Give another reason."
        raise Invalid(message, field="reason", given=reason)


def dependencies_allow(draft: Draft, task: Task) -> None:
    """Refuse to run a task with a failed dependency: it would fail again."""
    failed = failed_dependencies(draft, task)
    if failed:
        raise Refused(
            f"Task {task.id} depends on {', '.join(failed)}, which failed.",
            code="dependency_failed",
            details={"failed": failed},
        )


def not_over_a_question(task: Task) -> None:
    """Refuse to review or run a task with an open question."""
    if task.blocked_by in PEOPLE:
        raise Refused(
            f"Task {task.id} has an open question.",
            code="open_question",
            legal=("answer", "cancel"),
            hint=f"Answer it first: `detent answer {task.id} ANSWER`. Or cancel the task.",
        )


def reason_is_gone(draft: Draft, task: Task) -> None:
    """Refuse to unblock a task that would be blocked again immediately."""
    not_over_a_question(task)
    if task.blocked_by == "dependency" and task.open_dependencies > 0:
        dependencies_allow(draft, task)
        raise Refused(
            f"Task {task.id} waits for {task.open_dependencies} of its dependencies: "
            f"{', '.join(task.depends_on)}.",
            code="dependency_open",
        )
    if task.blocked_by == "budget" and used_up(draft, task):
        raise Refused(
            f"Task {task.id} has spent its budget. Raise the budget first.", code="budget_spent"
        )
