"""What people and programs ask of work that exists: run, cancel, judge, answer, retry, change, delete."""

from typing import Any

from detent.errors import Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.consequences import complete_wait, new_job, signal, unblock
from detent.kernel.decide.guards import not_a_run, not_the_producer, refuse, seen
from detent.kernel.draft import Draft
from detent.kernel.predicates import DONE_TASK, ENDED_JOB
from detent.kernel.state import Job, Task
from detent.kernel.world import SIGNALS, WAITS

MOST_EARLY_SIGNALS = 1_000

# ---- running ---------------------------------------------------------------------------------


def queue_task(draft: Draft, command: c.QueueTask) -> None:
    task = draft.task(command.task_id)
    _rounds_left(task)
    if draft.may(task, e.TaskRetried):
        draft.emit(task.id, e.TaskRetried(new_job(draft, task)))
    else:
        draft.emit(task.id, e.TaskQueued(f"{task.id}-j{task.jobs + 1}"))


def _rounds_left(task: Task) -> None:
    most = task.options.get("max_rounds")
    if most is not None and task.rounds >= most:
        raise Refused(
            f"task {task.id} was rejected {task.rounds} times, which is its limit",
            code="rounds_used",
            hint="Raise max_rounds, or cancel the task.",
        )


def retry_task(draft: Draft, command: c.RetryTask) -> None:
    task = draft.task(command.task_id)
    not_a_run(draft, task, "retry it")
    if task.state == "blocked" and task.blocked_by != "question":
        unblock(draft, task)
    elif draft.may(task, e.TaskRetried):
        draft.emit(task.id, e.TaskRetried(new_job(draft, task)))
    else:
        refuse(task, "task_unblocked" if task.lifecycle == "board" else "task_retried")


def resume_task(draft: Draft, command: c.ResumeTask) -> None:
    task = draft.task(command.task_id)
    draft.emit(task.id, e.TaskResumed(new_job(draft, task)))


def unblock_task(draft: Draft, command: c.UnblockTask) -> None:
    """A person says that the reason is gone. Not over an open question, which wants its answer."""
    task = draft.task(command.task_id)
    if task.blocked_by == "question":
        raise Refused(
            f"task {task.id} waits for an answer", code="open_question", legal=("answer", "cancel")
        )
    unblock(draft, task)


# ---- cancelling ------------------------------------------------------------------------------


def cancel_task(draft: Draft, command: c.CancelTask) -> str:
    """Cancel now, or ask the worker to stop. Says which: `cancelled` or `requested`."""
    task = draft.task(command.task_id)
    job = None if task.job_id is None else draft.job(task.job_id)
    if job is not None and job.state == "running" and draft.may(task, e.TaskCancelled):
        outcome = "requested"
        if task.cancel_reason is None:
            draft.emit(task.id, e.TaskCancelRequested(command.reason))
            draft.emit(job.id, e.JobCancelRequested(command.reason))
    else:
        outcome = "cancelled"
        _cancel_now(draft, task, job, command.reason)
    for child in draft.children.get(task.id, ()):
        if draft.may(draft.task(child), e.TaskCancelled):
            cancel_task(draft, c.CancelTask(child, command.reason))
    return outcome


def _cancel_now(draft: Draft, task: Task, job: Job | None, reason: str) -> None:
    if not draft.may(task, e.TaskCancelled):
        refuse(task, e.TaskCancelled.name)
    if job is None or job.state in ENDED_JOB:
        draft.emit(task.id, e.TaskCancelled(reason))
    else:
        draft.emit(job.id, e.JobCancelled(reason))


def cancel_job(draft: Draft, command: c.CancelJob) -> str:
    job = draft.job(command.job_id)
    if job.task_id is not None and draft.task_of(job) is not None:
        return cancel_task(draft, c.CancelTask(job.task_id, command.reason))
    if job.state != "running":
        draft.emit(job.id, e.JobCancelled(command.reason))
        return "cancelled"
    if job.cancel_reason is None:
        draft.emit(job.id, e.JobCancelRequested(command.reason))
    return "requested"


# ---- judging and answering -------------------------------------------------------------------


def accept_task(draft: Draft, command: c.AcceptTask) -> None:
    task = draft.task(command.task_id)
    not_the_producer(draft, task)
    seen(draft, task, command.seen)
    draft.emit(task.id, e.TaskAccepted(command.comment))


def reject_task(draft: Draft, command: c.RejectTask) -> None:
    task = draft.task(command.task_id)
    not_the_producer(draft, task)
    seen(draft, task, command.seen)
    draft.emit(task.id, e.TaskRejected(task.rounds + 1, command.comment))
    if command.run:
        queue_task(draft, c.QueueTask(task.id))


def answer_task(draft: Draft, command: c.AnswerTask) -> str:
    """Answer the open question; the same answer again is fine, another one is not."""
    task = draft.task(command.task_id)
    not_the_producer(draft, task)
    wait_name = task.blocked_detail.get("wait")
    if task.state == "blocked" and task.blocked_by in ("question", "needs_user") and wait_name:
        _one_of_the_options(task, command.answer)
        wait = draft.part(WAITS, task.job_id or "", wait_name)
        complete_wait(draft, wait, "answered", command.answer)
        return "answered"
    if task.answered is None:
        raise Refused(
            f"task {task.id} is {task.state} and has no open question", code="no_question"
        )
    if task.answered["answer"] != command.answer:
        raise Refused(
            f"task {task.id} was answered before, with {task.answered['answer']!r}",
            code="already_answered",
            details={"answer": task.answered["answer"]},
        )
    return "repeated"


def _one_of_the_options(task: Task, answer: Any) -> None:
    options = task.blocked_detail.get("options") or ()
    if options and not task.blocked_detail.get("free_text") and answer not in options:
        listed = ", ".join(map(str, options))
        raise Refused(
            f"the question allows: {listed}; not {answer!r}", code="not_an_option", legal=options
        )


def send_signal(draft: Draft, command: c.SendSignal) -> str:
    """`delivered`, `kept` for a wait that has not begun, or `repeated`, which changes nothing."""
    job = draft.job(command.job_id)
    known = draft.parts_of(SIGNALS, job.id)
    if command.name in known:
        return "repeated"
    if job.state in ENDED_JOB:
        raise Refused(f"job {job.id} is {job.state} and hears no more signals", code="job_ended")
    if sum(1 for each in known.values() if not each.taken) >= MOST_EARLY_SIGNALS:
        raise Refused(
            f"job {job.id} has {MOST_EARLY_SIGNALS} signals that nothing waited for yet",
            code="too_many_signals",
        )
    signal(draft, job.id, command.name, command.value)
    return "delivered" if draft.job(job.id).state != job.state else "kept"


# ---- changing --------------------------------------------------------------------------------


def edit_task(draft: Draft, command: c.EditTask) -> None:
    task = draft.task(command.task_id)
    not_a_run(draft, task, "change it")
    if task.state in DONE_TASK or task.state == "cancelled":
        raise Refused(
            f"task {task.id} is {task.state} and is not changed any more", code="task_ended"
        )
    draft.emit(task.id, e.TaskEdited(command.changes))


def raise_budget(draft: Draft, command: c.RaiseBudget) -> None:
    task = draft.task(command.task_id)
    not_a_run(draft, task, "raise its budget")
    if command.budget <= task.spent:
        raise Refused(
            f"task {task.id} has spent {task.spent} micro-dollars already", code="budget_too_small"
        )
    draft.emit(task.id, e.BudgetRaised(command.budget))
    task = draft.task(task.id)
    if task.state == "blocked" and task.blocked_by == "budget":
        unblock(draft, task, task.blocked_detail.get("wait"), "raised")


def retry_job(draft: Draft, command: c.RetryJob) -> None:
    job = draft.job(command.job_id)
    task = draft.task_of(job)
    if task is not None:
        retry_task(draft, c.RetryTask(task.id))
        return
    draft.emit(job.id, e.JobRequeued("retried"))


# ---- deleting --------------------------------------------------------------------------------


def delete_task(draft: Draft, command: c.DeleteTask) -> None:
    task = draft.task(command.task_id)
    reasons = _holding(draft, task)
    if reasons:
        raise Refused(
            f"task {task.id} cannot be deleted: {'; '.join(reasons)}",
            code="still_needed",
            details={"reasons": reasons},
            hint="Cancel it first, or delete what needs it.",
        )
    draft.emit(task.id, e.TaskDeleted(command.reason, draft.versions.get(task.id, 0), task.jobs))


def _holding(draft: Draft, task: Task) -> list[str]:
    """Everything that keeps a task from being deleted."""
    reasons = []
    if task.state in ("queued", "running", "todo", "doing"):
        reasons.append(f"it is {task.state}")
    job = None if task.job_id is None else draft.job(task.job_id)
    if job is not None and job.state not in ENDED_JOB:
        reasons.append(f"its job {job.id} is {job.state}")
    if task.open_subtasks:
        reasons.append(f"{task.open_subtasks} of its subtasks are not completed")
    waiting = [each for each in draft.dependents.get(task.id, ()) if _still_waits(draft, each)]
    reasons.extend(f"task {each} depends on it" for each in waiting)
    if task.parent_id is not None and draft.task(task.parent_id).state not in (
        *DONE_TASK,
        "cancelled",
    ):
        reasons.append(f"its parent {task.parent_id} has not ended")
    return reasons


def _still_waits(draft: Draft, task_id: str) -> bool:
    task = draft.find_task(task_id)
    return (
        task is not None
        and task.open_dependencies > 0
        and task.state not in (*DONE_TASK, "cancelled")
    )


def delete_job(draft: Draft, command: c.DeleteJob) -> None:
    job = draft.job(command.job_id)
    if job.task_id is not None:
        raise Refused(
            f"job {job.id} belongs to task {job.task_id}: delete that", code="still_needed"
        )
    if job.state not in ENDED_JOB:
        raise Refused(f"job {job.id} is {job.state}: cancel it first", code="still_needed")
    draft.emit(job.id, e.JobDeleted(command.reason, draft.versions.get(job.id, 0), job.runs))
