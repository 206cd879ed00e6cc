"""Reads for people: tasks, jobs, runs and events as shown, and why something is not moving."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.state import Job, Task, Wait
from detent.store.port import Logged, Reading

#: Columns that only the engine needs.
INTERNAL = ("nonce", "rank", "resuming", "waited", "plan_wanted")
TIMES = ("at", "due_at", "not_before")


def shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as people see it: times in UTC text, money in dollars, nothing of the engine's own."""
    return {name: _value(name, value) for name, value in row.items() if name not in INTERNAL}


def _value(name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in TIMES or name.endswith(("_at", "_deadline", "_until")):
        return utc(value)
    if name in ("budget", "spent", "cost"):
        return value / 1_000_000
    return value


def utc(at_us: int) -> str:
    """ISO 8601 in UTC with milliseconds."""
    moment = datetime.fromtimestamp(at_us / 1_000_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def event(logged: Logged) -> dict[str, Any]:
    """An event of the feed."""
    return {
        "position": logged.position,
        "stream": logged.stream,
        "version": logged.version,
        "name": logged.name,
        "subject": logged.subject,
        "project": logged.project,
        "at": utc(logged.at),
        "actor": logged.actor,
        "data": msgspec.json.decode(logged.data) if logged.data else None,
    }


# ---- why -------------------------------------------------------------------------------------

#: By reason of a block: who can clear it, and how.
CLEARED_BY: Mapping[str, tuple[str, str]] = {
    "question": ("a person", "answer"),
    "needs_user": ("a person", "answer"),
    "subtasks": ("its subtasks", "wait, or retry the failed one"),
    "dependency": ("what it depends on", "wait, or retry what failed"),
    "retry": ("detent", "wait, or retry now"),
    "rate_limit": ("detent", "wait for the reset"),
    "budget": ("a person", "raise the budget, or cancel"),
    "resource": ("a resource that is freed", "wait, or add a resource"),
    "error": ("a person", "retry, or cancel"),
}

#: Task events that a person may bring about, and by which verb.
VERBS: Mapping[str, str] = {
    "task_queued": "run",
    "task_retried": "retry",
    "task_resumed": "resume",
    "task_answered": "answer",
    "task_accepted": "accept",
    "task_rejected": "reject",
    "task_cancelled": "cancel",
    "task_unblocked": "retry",
}

#: The same for job events.
JOB_VERBS: Mapping[str, str] = {"job_cancelled": "cancel", "wait_completed": "signal"}


def why(view: Reading, task: Task) -> dict[str, Any]:
    """Every reason that a task is not moving, who can clear it, and what is legal."""
    job = next((job for job, _ in view.jobs([task.job_id])), None) if task.job_id else None
    reasons = list(_reasons(view, task, job))
    legal = [VERBS[name] for name in LIFECYCLES[task.lifecycle].legal(task.state) if name in VERBS]
    return {
        "id": task.id,
        "state": task.state,
        "since": utc(task.state_at),
        "reasons": reasons,
        "actions": sorted(set(legal)),
    }


def why_job(view: Reading, job: Job) -> dict[str, Any]:
    """The same of a job: every reason that it is not moving."""
    legal = [JOB_VERBS[name] for name in LIFECYCLES["job"].legal(job.state) if name in JOB_VERBS]
    return {
        "id": job.id,
        "state": job.state,
        "since": utc(job.state_at),
        "reasons": list(_job_reasons(view, job)),
        "actions": sorted(legal),
    }


def _reasons(view: Reading, task: Task, job: Job | None) -> Iterable[dict[str, Any]]:
    if LIFECYCLES[task.lifecycle].is_terminal(task.state):
        return
    if task.state == "blocked" and task.blocked_by:
        who, how = CLEARED_BY[task.blocked_by]
        detail = shown(task.blocked_detail)
        yield {"reason": task.blocked_by, "cleared_by": who, "how": how, "detail": detail}
    if task.state in ("inbox", "pending"):
        yield {"reason": "not_queued", "cleared_by": "a person", "how": "run", "detail": {}}
    if task.state == "ready":
        yield {
            "reason": "review",
            "cleared_by": "a person",
            "how": "accept or reject",
            "detail": {},
        }
    if task.failed_subtask:
        yield _of("failed_subtask", "a person", "retry or cancel it", {"task": task.failed_subtask})
    if task.open_dependencies:
        yield _of("dependency", "what it depends on", "wait", {"open": task.open_dependencies})
    if job is not None:
        yield from _job_reasons(view, job)


def _job_reasons(view: Reading, job: Job) -> Iterable[dict[str, Any]]:
    if job.state == "queued":
        yield _of("queued", "a worker for its intent", "start a worker", {"intent": job.intent})
    if job.state == "retrying":
        yield _of("retry", "detent", "wait", {"due_at": utc(job.not_before)})
    if job.state in ("waiting", "parked"):
        waits: list[Wait] = list(view.waits([job.id]))
        for wait in waits:
            due = {} if wait.due_at is None else {"due_at": utc(wait.due_at)}
            yield _of(
                f"wait:{wait.kind}", "its signal or its time", "signal", {"name": wait.name, **due}
            )
    if job.cancel_reason and job.state == "running":
        yield _of("cancelling", "the worker that runs it", "wait", {"asked": job.cancel_reason})


def _of(reason: str, who: str, how: str, detail: dict[str, Any]) -> dict[str, Any]:
    return {"reason": reason, "cleared_by": who, "how": how, "detail": detail}
