"""What a person may do with a task or a job now: exactly the verbs that would not be refused.

By state, and for what is blocked by its reason. Tables over the kernel's own. Pure.
"""

from collections.abc import Iterable, Mapping

from detent.kernel.predicates import ENDED_JOB
from detent.kernel.state import Job, Task, Wait
from detent.kernel.waits import ANSWERED

STATES: Mapping[str, tuple[str, ...]] = {
    "inbox": ("run", "cancel", "delete"),
    "pending": ("run", "cancel", "delete"),
    "todo": ("cancel",),
    "queued": ("cancel",),
    "doing": ("cancel",),
    "running": ("cancel",),
    "ready": ("accept", "reject", "cancel", "delete"),
    "failed": ("run", "retry", "delete"),
    "timed_out": ("run", "retry", "resume", "delete"),
    "done": ("delete",),
    "completed": ("delete",),
    "cancelled": ("delete",),
    "budget_exceeded": ("delete",),
}
#: Of a blocked task, by its reason. A task whose job has ended can be deleted besides.
BLOCKED: Mapping[str, tuple[str, ...]] = {
    "question": ("answer", "cancel"),
    "needs_user": ("answer", "cancel"),
    "subtasks": ("retry", "cancel"),
    "dependency": ("cancel",),
    "retry": ("retry", "cancel"),
    "rate_limit": ("retry", "cancel"),
    "resource": ("retry", "cancel"),
    "budget": ("raise", "cancel"),
    "error": ("retry", "cancel"),
}


def actions_on(task: Task, job: Job | None) -> list[str]:
    """Of a task and its present job, as far as no other task stands in the way."""
    if task.state in ("failed", "timed_out") and task.failed_dependency:
        return ["delete"]  # it would only fail again
    if task.state != "blocked":
        return sorted(STATES[task.state])
    over = job is not None and job.state in ENDED_JOB and task.open_subtasks == 0
    return sorted((*BLOCKED[task.blocked_by or "error"], *(("delete",) if over else ())))


def actions_on_job(job: Job, waits: Iterable[Wait]) -> list[str]:
    """Of a job alone; that of a task moves with its task."""
    if job.state in ENDED_JOB:
        return ["retry", "delete"] if job.state == "failed" else ["delete"]
    asks = any(wait.kind in ANSWERED for wait in waits)
    return [*(["answer"] if asks else []), "cancel", "signal"]
