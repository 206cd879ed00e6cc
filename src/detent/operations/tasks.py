"""Actions on a task: run, cancel, accept, reject, answer, retry, assign, edit and delete."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from detent.engine import Idempotency
from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from detent.kernel.budget import budget_from
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.kernel.decide.edit import EDITABLE
from detent.kernel.decide.guards import DONE_TO_TASK
from detent.kernel.entities import Task
from detent.kernel.lifecycle import normalise
from detent.kernel.priority import priority_from
from detent.kernel.task_events import TASK_EVENTS
from detent.operations import schemas, why_reasons
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope, operation
from detent.operations.reviewed_diff import reviewed_diff
from detent.operations.text_fields import reason_from, text, texts
from detent.operations.tokens import check_person
from detent.operations.why_reason import why_context
from detent.store.codec import read_record
from detent.store.log_walk import events_of
from detent.store.port import ReadTransaction
from detent.submission.command import digest
from detent.submission.options import (
    check_checker,
    check_variants,
    for_lifecycle,
    options_from,
)
from detent.submission.payload import ARGUMENTS, check_payload
from detent.submission.plan_checks import with_steps
from detent.submission.request import MAX_TAGS, MAX_TITLE
from detent.submission.workspace_options import check_workspace
from detent.views import utc


def carry_out(
    core: Core, caller: Caller, command: c.TaskCommand, key: Idempotency | None = None
) -> schemas.Moved:
    """Carry out a command on a task that the caller may see, and return its new state."""
    core.task(caller, command.task_id)
    try:
        outcome = core.engine.do(command, caller.actor, key=key)
    except Refused as refusal:
        raise _with_legal_actions(core, caller, command.task_id, refusal) from None
    task, version = core.task(caller, command.task_id)
    return {"id": task.id, "state": task.state, "version": version, "outcome": outcome}


#: How often a verdict is tried again because its job changed without a new diff.
MAX_TRIES = 3


def judge(
    core: Core,
    caller: Caller,
    task_id: str,
    diff: str | None,
    order: Callable[[ReviewedDiff | None], c.TaskCommand],
) -> schemas.Moved:
    """Carry out a verdict about a diff; refused if another diff is under review."""
    if diff is None:
        return carry_out(core, caller, order(None))
    named = diff
    return judge_diff(core, caller, lambda: reviewed_diff(core, caller, task_id, named), order)


def judge_diff(
    core: Core,
    caller: Caller,
    find: Callable[[], ReviewedDiff | None],
    order: Callable[[ReviewedDiff | None], c.TaskCommand],
) -> schemas.Moved:
    """Carry out a verdict about the diff that `find` reads; try again if only its job changed."""
    for more_tries in reversed(range(MAX_TRIES)):
        reviewed = find()
        try:
            return carry_out(core, caller, order(reviewed))
        except Refused as refusal:
            if refusal.code != "diff_changed" or not more_tries:
                raise
    raise AssertionError("the last try returns or raises")


def _check_payload(core: Core, caller: Caller, task_id: str, payload: Any) -> None:
    """Check a new payload of a task like the payload of a submission."""
    task, _ = core.task(caller, task_id)
    context = core.submission_context(caller)
    row = context.intents.get(task.intent, {})
    if ARGUMENTS in row:
        check_payload(context, task.intent, row, payload)


#: Codes of refusals that depend on the state of the task: their hints list the legal actions.
BY_STATE = frozenset(
    {
        *("refused", "illegal_transition", "dependency_failed", "dependency_open", "budget_spent"),
        *("still_needed", "rounds_used", "not_dismissible", "no_question", "task_ended"),
        "no_variants",
    }
)


#: Events that have operations of their own with another scope than `send_event`.
OPERATED = frozenset({"task_queued", "task_retried", "task_resumed", "task_cancelled"})
#: Events that end a task or its round because a person or a checker has decided so.
VERDICTS = frozenset({"task_accepted", "task_rejected", "task_cancelled"})


def _with_legal_actions(core: Core, caller: Caller, task_id: str, refusal: Refused) -> Refused:
    """The refusal with a hint that names only what would be accepted now."""
    if refusal.code not in BY_STATE:
        return refusal
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        found = why_reasons.legal_actions(why_context(core, view), task)
        refusal = _after_verdict(view, task, refusal)
    refusal.details["actions"] = [each.to_schema() for each in found]
    listed = ", ".join(f"`{each.command}`" for each in found)
    possible = f"Possible now: {listed}." if found else "No action is possible now."
    refusal.hint = f"Task {task_id} is {task.state_text}. {possible}"
    return refusal


def _after_verdict(view: ReadTransaction, task: Task, refusal: Refused) -> Refused:
    """The refusal with the verdict that came first, if that was the task's last transition."""
    done = DONE_TO_TASK.get(str(refusal.details.get("event")))
    moves = [each for each in events_of(view, task.id) if each.name in TASK_EVENTS] if done else []
    if not moves or moves[-1].name not in VERDICTS:
        return refusal
    last = moves[-1]
    by = getattr(read_record(last).event, "by", None) or last.actor
    verdict = f"it was {DONE_TO_TASK[last.name]} by {by} at {utc(last.at)}"
    message = f"Task {task.id} cannot be {done}: {verdict}."
    return Refused(
        message, code=refusal.code, legal=refusal.legal, hint=refusal.hint, details=refusal.details
    )


@operation(Scope.OPERATE, "POST", "/api/tasks/{task_id}/run")
def run_task(core: Core, caller: Caller, *, task_id: str) -> schemas.Moved:
    """Queue a task, or run it again after a failure."""
    return carry_out(core, caller, c.QueueTask(task_id))


@operation(Scope.OPERATE, "POST", "/api/tasks/{task_id}/cancel")
def cancel_task(
    core: Core, caller: Caller, *, task_id: str, reason: str = "cancelled", seen: int | None = None
) -> schemas.Moved:
    """Cancel a task and its subtasks; the workers of running jobs are asked to stop."""
    return carry_out(core, caller, c.CancelTask(task_id, reason, seen))


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/accept")
def accept_task(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    comment: str | None = None,
    seen: int | None = None,
    diff: str | None = None,
    without_action: bool = False,
) -> schemas.Moved:
    """Accept a task that waits for review. A declared action (merge, push) runs first."""

    def order(reviewed: ReviewedDiff | None) -> c.TaskCommand:
        return c.AcceptTask(task_id, comment, seen, reviewed, without_action=without_action)

    return judge(core, caller, task_id, diff, order)


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/reject")
def reject_task(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    comment: str | None = None,
    run: bool = False,
    seen: int | None = None,
    diff: str | None = None,
) -> schemas.Moved:
    """Reject a task, with a comment for the next run."""

    def order(reviewed: ReviewedDiff | None) -> c.TaskCommand:
        return c.RejectTask(task_id, comment, seen, run, reviewed)

    return judge(core, caller, task_id, diff, order)


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/events")
def send_event(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    event: str,
    comment: str | None = None,
    seen: int | None = None,
    diff: str | None = None,
) -> schemas.Moved:
    """Send a task an event of its lifecycle."""
    event = normalise(event)
    if event in OPERATED:
        caller.require(Scope.OPERATE)

    def order(reviewed: ReviewedDiff | None) -> c.TaskCommand:
        return c.SendEvent(task_id, event, comment, seen, reviewed)

    return judge(core, caller, task_id, diff, order)


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/answer")
def answer_task(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    answer: Any,
    question: str | None = None,
    seen: int | None = None,
    idempotency_key: str | None = None,
) -> schemas.Moved:
    """Answer the open question of a task, or the one that is named; the task continues with it."""
    command = c.AnswerTask(task_id, answer, question, seen)
    if idempotency_key is None:
        return carry_out(core, caller, command)
    task, _ = core.task(caller, task_id)
    body = digest({"answer": answer, "question": question})
    key = Idempotency(task.project, f"answer:{task_id}:{idempotency_key}", body)
    return carry_out(core, caller, command, key)


@operation(Scope.OPERATE, "POST", "/api/tasks/{task_id}/resume")
def resume_task(core: Core, caller: Caller, *, task_id: str) -> schemas.Moved:
    """Resume a timed-out task in its agent session."""
    return carry_out(core, caller, c.ResumeTask(task_id))


@operation(Scope.OPERATE, "POST", "/api/tasks/{task_id}/retry")
def retry_task(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    payload: Any = None,
    max_budget_usd: float | None = None,
) -> schemas.Moved:
    """Run a task again, with its attempt counts reset and with a new payload or budget if given."""
    if payload is not None:
        _check_payload(core, caller, task_id, payload)
    changes = {} if payload is None else {"payload": payload}
    budget = None if max_budget_usd is None else budget_from(max_budget_usd)
    return carry_out(core, caller, c.RetryTask(task_id, changes, budget))


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/dismiss")
def dismiss_task(
    core: Core, caller: Caller, *, task_id: str, reason: str | None = None
) -> schemas.Moved:
    """Dismiss a failed subtask: it keeps its state, and its parent stops waiting for it."""
    return carry_out(core, caller, c.DismissSubtask(task_id, reason_from(reason)))


@operation(Scope.REVIEW, "POST", "/api/tasks/{task_id}/assign")
def assign_task(
    core: Core, caller: Caller, *, task_id: str, person: str | None = None
) -> schemas.Moved:
    """Assign a task to a person; without a person, end the assignment."""
    if person is not None:
        check_person(person, "person")
    return carry_out(core, caller, c.AssignTask(task_id, person))


@operation(Scope.OPERATE, "POST", "/api/tasks/{task_id}/signal")
def signal_task(
    core: Core, caller: Caller, *, task_id: str, name: str, value: Any = None
) -> schemas.Signalled:
    """Send a named signal to the job of a task; it is stored until the job waits for it."""
    task, _ = core.task(caller, task_id)
    if task.job_id is None:
        refusal = Refused(f"Task {task_id} has no job that could receive the signal.")
        raise _with_legal_actions(core, caller, task_id, refusal)
    outcome = core.engine.do(c.SendSignal(task.job_id, name, value), caller.actor)
    return {"id": task_id, "outcome": outcome}


@operation(Scope.OPERATE, "PATCH", "/api/tasks/{task_id}")
def edit_task(
    core: Core,
    caller: Caller,
    *,
    task_id: str,
    title: str | None = None,
    payload: Any = None,
    tags: Sequence[str] | None = None,
    priority: str | None = None,
    options: Mapping[str, Any] | None = None,
    max_budget_usd: float | None = None,
    seen: int | None = None,
) -> schemas.Moved:
    """Edit fields of a task in one transaction; a higher budget unblocks what waits for it."""
    task, _ = core.task(caller, task_id)
    changes: dict[str, Any] = {}
    if payload is not None:
        _check_payload(core, caller, task_id, payload)
        changes["payload"] = payload
    if title is not None:
        changes["title"] = text(title, "title", longest=MAX_TITLE)
    if tags is not None:
        changes["tags"] = list(texts(tags, "tags", MAX_TAGS))
    if priority is not None:
        changes["priority"] = priority_from(priority).value
    if options is not None:
        with core.store.read() as view:
            lifecycle = view.lifecycles()[task.lifecycle]
        edited = {**task.options, **options_from({}, options, lifecycle.policy)}
        check_workspace(edited, "options")
        check_checker(edited, options, task.intent, core.known_intents())
        check_variants(edited, options, task.intent, core.known_intents())
        fitting = for_lifecycle(edited, options, lifecycle)
        changes["options"] = with_steps(fitting, task.intent, core.known_intents())
    fields = (*EDITABLE, "max_budget_usd")
    if not changes and max_budget_usd is None:
        raise Invalid(
            f"Give at least one field to change: {', '.join(fields)}.", field="body", allowed=fields
        )
    budget = None if max_budget_usd is None else budget_from(max_budget_usd)
    return carry_out(core, caller, c.EditTask(task_id, changes, budget, seen))


@operation(Scope.ADMIN, "DELETE", "/api/tasks/{task_id}")
def delete_task(core: Core, caller: Caller, *, task_id: str) -> schemas.Deleted:
    """Delete a task with its data; refused while other work depends on it."""
    core.task(caller, task_id)
    try:
        core.engine.do(c.DeleteTask(task_id), caller.actor)
    except Refused as refusal:
        raise _with_legal_actions(core, caller, task_id, refusal) from None
    return {"id": task_id, "outcome": "deleted"}
