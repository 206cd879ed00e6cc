"""Decides reviews, answers and signals: accept, reject, answer, send a signal."""

from collections.abc import Collection, Mapping
from typing import Any

from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.acceptance import action_of
from detent.kernel.decide.control import queue_task
from detent.kernel.decide.guards import (
    not_its_own,
    not_over_a_question,
    not_while_accepting,
    possible,
    same_diff,
    seen,
)
from detent.kernel.decide.variant_choice import choose_variant
from detent.kernel.derived_ids import job_of_task
from detent.kernel.draft import Draft
from detent.kernel.entities import Checkpoint, Job, Task, Wait
from detent.kernel.outcome_rules import round_limit
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.transitions.waits import deliver_signal, end_wait
from detent.kernel.variants import is_choice
from detent.kernel.wait_kinds import ANSWERED, PEOPLE, QUESTIONS
from detent.kernel.world import CHECKPOINTS, SIGNALS, WAITS
from detent.quantity import quantity

MAX_EARLY_SIGNALS = 1_000

# ---- review ----------------------------------------------------------------------------------


def accept_task(draft: Draft, command: c.AcceptTask) -> None:
    task = draft.task(command.task_id)
    without_action = command.without_action or action_of(task.options) is None
    not_its_own(draft, task, "accept it")
    not_over_a_question(task)
    not_while_accepting(draft, task)
    possible(draft, task, e.TaskAccepted if without_action else e.TaskAccepting)
    seen(draft, task, command.seen)
    diff = same_diff(draft, task, command.diff)
    if without_action:
        draft.emit(task.id, e.TaskAccepted(command.comment, diff))
    else:
        job_id = job_of_task(task.id, task.jobs + 1)
        draft.emit(task.id, e.TaskAccepting(job_id, command.comment, diff))


def reject_task(draft: Draft, command: c.RejectTask) -> None:
    task = draft.task(command.task_id)
    not_its_own(draft, task, "reject it")
    not_over_a_question(task)
    not_while_accepting(draft, task)
    possible(draft, task, e.TaskRejected)
    seen(draft, task, command.seen)
    diff = same_diff(draft, task, command.diff)
    draft.emit(task.id, e.TaskRejected(task.rounds + 1, command.comment, diff))
    _rounds_left(draft, task)
    if command.run:
        queue_task(draft, c.QueueTask(task.id))


def _rounds_left(draft: Draft, task: Task) -> None:
    limit = round_limit(draft.lifecycle(task), task)
    if limit is not None and task.rounds >= limit:
        times = quantity(task.rounds, "time")
        raise Refused(
            f"Task {task.id} was rejected {times}, which is its limit (max_rounds).",
            code="rounds_used",
        )


# ---- questions -------------------------------------------------------------------------------


def answer_task(draft: Draft, command: c.AnswerTask) -> str:
    """Answer an open question. A repeated answer is accepted, a different one is refused."""
    task = draft.task(command.task_id)
    not_its_own(draft, task, "answer its question")
    job = draft.job_of(task)
    asked = task.blocked_detail.get("wait") if task.blocked_by in PEOPLE else None
    wait = None if job is None else _open_question(draft, job, command.wait or asked, QUESTIONS)
    if wait is not None:
        seen(draft, task, command.seen)
    if wait is not None and is_choice(wait):
        return choose_variant(draft, c.ChooseVariant(task.id, str(command.answer)))
    if wait is not None:
        return _answer(draft, wait, command.answer)
    return _repeated(_first_answer(draft, task, command.wait), command.answer, task.id)


def answer_job(draft: Draft, command: c.AnswerJob) -> str:
    job = draft.job(command.job_id)
    not_its_own(draft, job, "answer its question")
    task = draft.task_of(job)
    if task is not None:
        return answer_task(draft, c.AnswerTask(task.id, command.answer, command.wait))
    wait = _open_question(draft, job, command.wait, ANSWERED)
    if wait is not None:
        return _answer(draft, wait, command.answer)
    if command.wait is None:
        first = _any_earlier_answer(draft, job.id, command.answer)
    else:
        first = _earlier_answer(draft, job.id, command.wait)
    return _repeated(first, command.answer, job.id)


def _open_question(draft: Draft, job: Job, name: str | None, kinds: Collection[str]) -> Wait | None:
    """Return the open question of that name, or the oldest open question."""
    waits: Mapping[str, Wait] = draft.parts_of(WAITS, job.id)
    asked = [wait for wait in waits.values() if wait.kind in kinds]
    if name is not None:
        asked = [wait for wait in asked if wait.name == name]
    return min(asked, key=lambda wait: wait.begun_at, default=None)


def _answer(draft: Draft, wait: Wait, answer: Any) -> str:
    options = wait.detail.get("options") or ()
    if options and not wait.detail.get("other") and answer not in options:
        listed = ", ".join(map(str, options))
        raise Refused(
            f"{answer!r} is not an option of this question. Its options are: {listed}.",
            code="not_an_option",
            legal=options,
        )
    if isinstance(answer, str) and not answer.strip() and answer not in options:
        raise Invalid("The answer has no text. Write one.", field="answer", given=answer)
    end_wait(draft, wait, "answered", answer)
    return "answered"


def _first_answer(draft: Draft, task: Task, wait: str | None) -> Mapping[str, Any] | None:
    if task.answered is not None and wait in (None, task.answered["question"]):
        return task.answered
    return None if task.job_id is None else _earlier_answer(draft, task.job_id, wait)


def _earlier_answer(draft: Draft, job_id: str, wait: str | None) -> Mapping[str, Any] | None:
    """Return the answer that is kept in the checkpoint of an ended wait."""
    known: Checkpoint | None = draft.part(CHECKPOINTS, job_id, wait or "")
    if known is None or known.kind != "wait" or known.value["outcome"] == "expired":
        return None
    return {"question": wait, "answer": known.value["value"]}


def _any_earlier_answer(draft: Draft, job_id: str, answer: Any) -> Mapping[str, Any] | None:
    """Return an earlier answer of a job without a task: an equal one if there is one.

    Checkpoints have no order, so the last question is unknown.
    """
    known: Mapping[str, Checkpoint] = draft.parts_of(CHECKPOINTS, job_id)
    given = [
        {"question": each.name, "answer": each.value["value"]}
        for each in known.values()
        if each.kind == "wait" and each.value["outcome"] == "answered"
    ]
    return next((each for each in given if each["answer"] == answer), given[-1] if given else None)


def _repeated(first: Mapping[str, Any] | None, answer: Any, asked: str) -> str:
    if first is None:
        raise Refused(f"{asked} has no open question.", code="no_question")
    if first["answer"] != answer:
        raise Refused(
            f"{asked} was answered before, with {first['answer']!r}.",
            code="already_answered",
            details={"answer": first["answer"]},
        )
    return "repeated"


# ---- signals ---------------------------------------------------------------------------------


def send_signal(draft: Draft, command: c.SendSignal) -> str:
    """Return `delivered`, `kept` for a wait that has not begun, or `repeated` (no change)."""
    job = draft.job(command.job_id)
    known = draft.parts_of(SIGNALS, job.id)
    if command.name in known:
        return "repeated"
    if job.state in ENDED_JOB:
        raise Refused(f"Job {job.id} is {job.state} and receives no signals.", code="job_ended")
    if sum(1 for each in known.values() if not each.taken) >= MAX_EARLY_SIGNALS:
        raise Refused(
            f"Job {job.id} has {MAX_EARLY_SIGNALS} signals that no wait has received yet, which is "
            "the limit.",
            code="too_many_signals",
        )
    deliver_signal(draft, job.id, command.name, command.value)
    return "delivered" if draft.part(SIGNALS, job.id, command.name).taken else "kept"
