"""Decides events that a lifecycle declares, sent by a person or by the keeper at a due time."""

from collections.abc import Callable, Mapping

from detent.errors import Forbidden, Refused
from detent.kernel import commands as c
from detent.kernel import events as e
from detent.kernel.acceptance import action_of
from detent.kernel.decide import control, review
from detent.kernel.decide.guards import not_its_own, not_over_a_question, refusal, same_diff, seen
from detent.kernel.draft import Draft
from detent.kernel.entities import Task
from detent.kernel.lifecycle import Row
from detent.kernel.outcome_rules import declared, round_limit
from detent.kernel.task_events import TASK_EVENTS
from detent.kernel.transitions import cancellation
from detent.quantity import quantity

#: Events that people send by commands of their own, which may do more.
COMMANDS: Mapping[str, Callable[[Draft, c.SendEvent], object]] = {
    "task_queued": lambda draft, sent: control.queue_task(draft, c.QueueTask(sent.task_id)),
    "task_accepted": lambda draft, sent: review.accept_task(
        draft, c.AcceptTask(sent.task_id, sent.comment, sent.seen, sent.diff)
    ),
    "task_accepting": lambda draft, sent: _accept_with_action(draft, sent),
    "task_rejected": lambda draft, sent: review.reject_task(
        draft, c.RejectTask(sent.task_id, sent.comment, sent.seen, diff=sent.diff)
    ),
    "task_retried": lambda draft, sent: control.retry_task(draft, c.RetryTask(sent.task_id)),
    "task_resumed": lambda draft, sent: control.resume_task(draft, c.ResumeTask(sent.task_id)),
    "task_cancelled": lambda draft, sent: control.cancel_task(
        draft, c.CancelTask(sent.task_id, sent.comment or "cancelled")
    ),
}


def send_event(draft: Draft, command: c.SendEvent) -> str:
    """Send an event of the lifecycle; return the state of the task after it."""
    task = draft.task(command.task_id)
    row = _row(draft, task, command.event)
    seen(draft, task, command.seen)
    if command.event in COMMANDS:
        COMMANDS[command.event](draft, command)
    else:
        not_its_own(draft, task, f"send it {command.event}")
        not_over_a_question(task)
        _may_send(draft, task, row)
        _rounds_left(draft, task, command.event)
        diff = same_diff(draft, task, command.diff)
        draft.emit(task.id, declared(command.event, draft, task, command.comment, diff))
    return draft.task(task.id).state


def _accept_with_action(draft: Draft, sent: c.SendEvent) -> None:
    if action_of(draft.task(sent.task_id).options) is None:
        raise Refused(
            f"Task {sent.task_id} declares no action that runs when it is accepted.",
            code="no_action",
            hint=f"Accept it: `detent accept {sent.task_id}`.",
        )
    review.accept_task(draft, c.AcceptTask(sent.task_id, sent.comment, sent.seen, sent.diff))


def _row(draft: Draft, task: Task, event: str) -> Row:
    lifecycle = draft.lifecycle(task)
    for row in lifecycle.rows:
        if (row.source, row.event) == (task.state, event):
            return row
    lifecycle.next(task.state, event)  # an event that the lifecycle does not have is refused here
    raise refusal(draft, task, event)


def _may_send(draft: Draft, task: Task, row: Row) -> None:
    """Refuse an event that no person, or only others, may send."""
    people = row.people
    if row.event in TASK_EVENTS or not people:
        raise Refused(
            f"{row.event} is sent by {row.who} alone, not by people.",
            code="not_for_people",
            details={"event": row.event, "who": row.who.split(", ")},
        )
    named = {each.removeprefix("person:") for each in people}
    if "person" not in people and draft.actor.name.removeprefix("person:") not in named:
        raise Forbidden(
            f"{draft.actor.name} may not send {row.event} to task {task.id}.",
            code="not_the_sender",
            hint=f"Only {', '.join(people)} may.",
        )


def _rounds_left(draft: Draft, task: Task, event: str) -> None:
    lifecycle = draft.lifecycle(task)
    limit = round_limit(lifecycle, task)
    if event in lifecycle.rounds.events and limit is not None and task.rounds >= limit:
        had = quantity(task.rounds, "round")
        raise Refused(f"Task {task.id} has had {had}, which is its limit.", code="rounds_used")


def fire_timer(draft: Draft, command: c.FireTimer) -> bool:
    """Send the event of a timer that is due; return whether one was."""
    task = draft.task(command.task_id)
    due = draft.now - task.state_at
    for timer in draft.lifecycle(task).timers:
        if timer.state == task.state == command.state and timer.after_us <= due:
            if timer.event == e.TaskCancelled.name:
                cancellation.cancel(draft, task, "timer")
            else:
                draft.emit(task.id, declared(timer.event, draft, task))
            return True
    return False
