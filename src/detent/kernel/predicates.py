"""The predicates of the couplings: each checks the draft after an event."""

from typing import cast

from detent.kernel import events as e
from detent.kernel.draft import Draft
from detent.kernel.entities import Job, Run, Task
from detent.kernel.retention import Ending
from detent.kernel.retry import PLAIN, Again, FailureClass, policy_from, verdict
from detent.kernel.task_lifecycle import Phase
from detent.kernel.world import RUNS

ENDED_JOB = frozenset({"completed", "failed", "cancelled"})
WAITING_JOB = frozenset({"waiting", "parked"})


def always(draft: Draft, record: e.Record) -> bool:
    return True


# ---- of a run --------------------------------------------------------------------------------


def only_run_was_suspended(draft: Draft, record: e.Record) -> bool:
    """Whether the only run of a job without a plan was suspended."""
    suspended = cast(e.RunSucceeded, record.event).outcome == "suspended"
    return suspended and moves_job(draft, record)


def attempt_is_left(draft: Draft, record: e.Record) -> bool:
    return moves_job(draft, record) and retry_of_run(draft, record) is not None


def no_attempt_is_left(draft: Draft, record: e.Record) -> bool:
    return moves_job(draft, record) and retry_of_run(draft, record) is None


def moves_job(draft: Draft, record: e.Record) -> bool:
    """Whether the end of the run moves its job: it has no plan, and no cancel was requested."""
    run = cast(Run, draft.part(RUNS, record.stream, record.subject or ""))
    return run.step is None and draft.job(record.stream).cancel_reason is None


def failure_class(event: e.RunFailed | e.RunTimedOut) -> FailureClass:
    if isinstance(event, e.RunTimedOut):
        return FailureClass.TIMEOUT
    return FailureClass(event.error_class)


def retry_of_run(draft: Draft, record: e.Record) -> Again | None:
    """Return the next attempt after this failed run; None if no attempt is left.

    It is computed once for each run: two couplings and the retry itself use it.
    """
    run_id = cast(str, record.subject)
    if run_id not in draft.retries:
        event = cast(e.RunFailed | e.RunTimedOut, record.event)
        reset_at = event.reset_at if isinstance(event, e.RunFailed) else None
        job = draft.job(record.stream)
        draft.retries[run_id] = next_attempt(draft, job, failure_class(event), reset_at)
    return draft.retries[run_id]


def next_attempt(
    draft: Draft, job: Job, kind: FailureClass, reset_at: int | None = None
) -> Again | None:
    """Return the next attempt after a failure of the job; None if no attempt is left."""
    task = draft.task_of(job)
    base = PLAIN if task is None else draft.lifecycle(task).policy
    policy = policy_from(job.options.get("retry", {}), base)
    return verdict(policy, kind, job.failures, job.lost, draft.now, reset_at)


# ---- of a job --------------------------------------------------------------------------------


def has_task(draft: Draft, record: e.Record) -> bool:
    return draft.task_of(draft.job(record.stream)) is not None


def has_parent_job(draft: Draft, record: e.Record) -> bool:
    return draft.job(record.stream).parent_job_id is not None


def has_child_jobs(draft: Draft, record: e.Record) -> bool:
    return bool(draft.children.get(record.stream))


def task_waits_for_retry(draft: Draft, record: e.Record) -> bool:
    task = draft.task_of(draft.job(record.stream))
    return (
        task is not None and is_blocked(draft, task) and task.blocked_by in ("retry", "rate_limit")
    )


def in_work(draft: Draft, task: Task) -> bool:
    """Whether a run of the task has started: only then can it be blocked by a failure."""
    return draft.phase(task) is Phase.WORKING


def is_blocked(draft: Draft, task: Task) -> bool:
    return draft.phase(task) is Phase.BLOCKED


def was_retried_with_a_plan(draft: Draft, record: e.Record) -> bool:
    asked = cast(e.JobRequeued, record.event).reason == "retried"
    return asked and draft.job(record.stream).plan_version > 0


# ---- of a task -------------------------------------------------------------------------------


def has_subtasks(draft: Draft, record: e.Record) -> bool:
    return bool(draft.children.get(record.stream))


def was_the_last_subtask(draft: Draft, record: e.Record) -> bool:
    """Whether the parent waits only for its subtasks, and all of them are settled."""
    task = draft.task(record.stream)
    if task.open_subtasks > 0 or task.job_id is None:
        return False
    if is_blocked(draft, task):
        return task.blocked_by == "subtasks"
    # In a log of version 0.1.0 a task was not blocked meanwhile.
    return in_work(draft, task) and draft.job(task.job_id).state == "completed"


def is_an_ended_subtask(draft: Draft, record: e.Record) -> bool:
    task = draft.task(record.stream)
    return task.parent_id is not None and draft.ending(task) is not None


def has_ended_with_dependents(draft: Draft, record: e.Record) -> bool:
    if not draft.dependents.get(record.stream):
        return False
    return draft.ending(draft.task(record.stream)) is not None


def has_ended(draft: Draft, task: Task) -> bool:
    """Whether its state is terminal."""
    return task.state in draft.lifecycle(task).terminal


def is_done(draft: Draft, task: Task) -> bool:
    return draft.ending(task) is Ending.DONE


def has_failed(draft: Draft, task: Task) -> bool:
    """Whether the task failed or was cancelled, as its parent and its dependents see it."""
    return draft.ending(task) in (Ending.FAILED, Ending.CANCELLED)


def was_settled(draft: Draft, subtask: Task) -> bool:
    """Whether its outcome was handled or it was dismissed: no task above it waits for it."""
    return subtask.id in draft.task(subtask.parent_id or "").settled


def failed_dependencies(draft: Draft, task: Task) -> list[str]:
    """Return its dependencies that have failed and were not run again since."""
    if task.open_dependencies == 0:
        return []
    found = (draft.find_task(name) for name in task.depends_on)
    return [each.id for each in found if each is not None and has_failed(draft, each)]


def a_dependency_is_open(draft: Draft, record: e.Record) -> bool:
    """Whether a dependency is not done yet, and none has failed (another row handles that)."""
    task = draft.task(record.stream)
    waits = task.open_dependencies > 0 and draft.may(task, e.TaskBlocked)
    return waits and not failed_dependencies(draft, task)


def a_dependency_has_failed(draft: Draft, record: e.Record) -> bool:
    task = draft.task(record.stream)
    waits = draft.phase(task) in (Phase.QUEUED, Phase.BLOCKED)
    return waits and bool(failed_dependencies(draft, task))


def dependencies_are_done(draft: Draft, record: e.Record) -> bool:
    task = draft.task(record.stream)
    return (
        task.open_dependencies == 0 and is_blocked(draft, task) and task.blocked_by == "dependency"
    )


def needs_a_new_job(draft: Draft, record: e.Record) -> bool:
    return cast(e.TaskUnblocked | e.TaskMoved, record.event).job_id is not None


def keeps_its_job(draft: Draft, record: e.Record) -> bool:
    return not needs_a_new_job(draft, record) and draft.task(record.stream).job_id is not None
