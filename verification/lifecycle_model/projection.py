"""Maps tasks of the kernel to the variables of the TLA+ model. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

from detent.kernel.acceptance import is_acceptance
from detent.kernel.entities import Job, Task
from detent.kernel.predicates import WAITING_JOB
from detent.kernel.task_lifecycle import TaskLifecycle

LIVE = frozenset({"queued", "running", "waiting", "retrying"})
#: The reason in the model, by that of a blocked task.
REASONS: Mapping[str, str] = {
    "rate_limit": "retry",
    "needs_user": "question",
    "budget": "lack",
    "resource": "lack",
    "error": "failed",
}


class Variables(NamedTuple):
    """One task as the model has it."""

    state: str
    job: str = "none"
    reason: str = "none"
    rounds: int = 0
    errors: int = 0
    timeouts: int = 0
    lost: int = 0
    cancel: bool = False
    settled: bool = False
    accepts: bool = False
    outside: str = ""


#: By name of the task in the model.
ModelState = tuple[tuple[str, Variables], ...]

ABSENT = Variables("absent")


def model_state(tasks: Mapping[str, Variables]) -> ModelState:
    return tuple(sorted(tasks.items()))


def project(
    lifecycle: TaskLifecycle, task: Task, job: Job | None, settled: bool = False
) -> Variables:
    """Return the variables of a task and its latest job."""
    found = Variables(
        state=task.state,
        reason=_reason(task),
        rounds=task.rounds,
        cancel=task.cancel_reason is not None and lifecycle.by_state[task.state].ending is None,
        settled=settled,
    )
    return found if job is None else _with_job(found, job)


def _reason(task: Task) -> str:
    if task.blocked_by is None:
        return "none"
    return "failed" if task.retries_left == 0 else REASONS.get(task.blocked_by, task.blocked_by)


def _with_job(found: Variables, job: Job) -> Variables:
    state = "waiting" if job.state in WAITING_JOB else job.state
    found = found._replace(accepts=is_acceptance(job))
    if state not in LIVE:
        return found._replace(job=state)
    timeouts = job.failures.get("timeout", 0)
    errors = sum(job.failures.values()) - timeouts
    return found._replace(job=state, errors=errors, timeouts=timeouts, lost=job.lost)
