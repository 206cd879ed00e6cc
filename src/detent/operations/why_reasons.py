"""Explains why a task or job is not running: each reason and who can clear it. Reads only."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from detent.kernel.acceptance import ACCEPTANCE, is_acceptance
from detent.kernel.budget import is_warned
from detent.kernel.entities import Job, Task
from detent.kernel.outcome_rules import round_limit
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.retention import Ending
from detent.kernel.retry import FailureClass
from detent.kernel.task_lifecycle import Phase
from detent.operations.acceptances import acceptance, problem
from detent.operations.actions import (
    PERSON,
    VERBS,
    Suggestion,
    actions_on,
    actions_on_job,
    events_on,
    is_spent,
)
from detent.operations.budgets import with_ancestors
from detent.operations.providers import providers_of
from detent.operations.task_states import ending_of, has_ended, has_failed, is_done, state_of
from detent.operations.why_job import how_providers, job_reasons
from detent.operations.why_reason import IMMEDIATELY, NEVER, Reason, WhyContext
from detent.store.port import ReadTransaction
from detent.views import utc

#: The maximum number of other tasks that a reason lists.
MAX_NAMED = 20


#: By reason of a block: who can clear it, what happens without a person, and when detent checks
#: again.
CLEARED_BY: Mapping[str, tuple[str, str | None, str]] = {
    "question": ("a person", None, IMMEDIATELY),
    "needs_user": ("a person", None, IMMEDIATELY),
    "subtasks": ("its subtasks", "wait", IMMEDIATELY),
    "dependency": ("the tasks that it depends on", "wait", IMMEDIATELY),
    "retry": ("detent", "wait", IMMEDIATELY),
    "rate_limit": ("detent", "wait for the reset", IMMEDIATELY),
    "budget": ("a person", None, IMMEDIATELY),
    "resource": ("a resource that is freed", "wait, or add a resource", IMMEDIATELY),
    "error": ("a person", None, NEVER),
}
#: The legal actions that are suggested, in this order.
SUGGESTED = (
    *("answer", "choose", "accept", "reject", "raise", "run", "resume", "retry", "dismiss"),
    "cancel",
)


def why(context: WhyContext, task: Task) -> dict[str, Any]:
    """Every reason why a task is not running, who can clear it, and the legal actions."""
    job = next((job for job, _ in context.view.jobs([task.job_id])), None) if task.job_id else None
    legal = actions_on(context.view, [task])[task.id]
    possible = [*legal, *events_on(context.view, [task], PERSON)[task.id]]
    return {
        "id": task.id,
        "state": task.state,
        "since": utc(task.state_at),
        "reasons": [reason.to_schema() for reason in _reasons(context, task, job, possible)],
        "actions": legal,
    }


def why_job(context: WhyContext, job: Job) -> dict[str, Any]:
    """The same of a job."""
    return {
        "id": job.id,
        "state": job.state,
        "since": utc(job.state_at),
        "reasons": [reason.to_schema() for reason in job_reasons(context, job)],
        "actions": actions_on_job(job, context.view.waits([job.id])),
        "events": [],
    }


# ---- reasons of a task -----------------------------------------------------------------------


def legal_actions(context: WhyContext, task: Task) -> list[Suggestion]:
    """The actions that a person can take now, on the task and on the tasks that it waits for."""
    legal = actions_on(context.view, [task])[task.id]
    legal += events_on(context.view, [task], PERSON)[task.id]
    found = [each for reason in _reasons(context, task, None, legal) for each in reason.actions]
    return list(dict.fromkeys([*found, *(Suggestion(name, task.id) for name in legal)]))


def _reasons(
    context: WhyContext, task: Task, job: Job | None, legal: Sequence[str]
) -> Iterator[Reason]:
    if has_ended(context.view, task):
        yield from _final_failure(context.view, task, job)
        return
    state = state_of(context.view, task)
    if state.phase is Phase.BLOCKED and task.blocked_by:
        yield _blocked(context, task, legal)
    elif state.under_review:
        yield _person_reason("review", task, legal, _not_accepted(job))
    elif state.ending is not None:
        yield _person_reason(task.state, task, legal, _failure(job))
    elif state.phase is Phase.IDLE:
        yield _person_reason("not_queued", task, legal)
    if job is not None and is_acceptance(job) and job.state not in ENDED_JOB:
        found = acceptance(job)
        detail = {"action": found["action"], "by": found["by"]}
        yield Reason("accepting", "a worker", "wait, or cancel", IMMEDIATELY, detail)
    if task.open_dependencies and task.blocked_by != "dependency":
        yield _dependencies(context, task, legal)
    yield from _due_timers(context.view, task)
    yield from _used_rounds(context.view, task)
    yield from _failed_subtasks(context.view, task)
    yield from _warnings(context, task)
    if job is not None and (job.state != "retrying" or state.phase is not Phase.BLOCKED):
        yield from job_reasons(context, job, task.blocked_detail.get("wait"))


def _suggested(task: Task, legal: Sequence[str]) -> tuple[Suggestion, ...]:
    events = (each for each in legal if each not in VERBS)
    return tuple(Suggestion(each, task.id) for each in (*events, *SUGGESTED) if each in legal)


def _how_text(task: Task, first: str | None, actions: Sequence[Suggestion]) -> str:
    """The suggested actions as text: waiting, or actions with the ids of other tasks."""
    verbs: dict[str, list[str]] = {}
    for each in actions:
        verbs.setdefault(each.id, []).append(each.action)
    parts = [
        " or ".join(names) if task_id == task.id else f"{' or '.join(names)} {task_id}"
        for task_id, names in verbs.items()
    ]
    return ", or ".join([*([first] if first else []), *parts]) or "delete it after it has ended"


def _person_reason(
    reason: str, task: Task, legal: Sequence[str], detail: Mapping[str, Any] | None = None
) -> Reason:
    actions = [each for each in _suggested(task, legal) if each.action != "cancel"]
    if not actions:
        actions = [Suggestion(each, task.id) for each in legal]
    how = _how_text(task, None, actions)
    return Reason(reason, "a person", how, NEVER, detail or {}, actions=tuple(actions))


def _blocked(context: WhyContext, task: Task, legal: Sequence[str]) -> Reason:
    reason = task.blocked_by or ""
    who, first, again = CLEARED_BY[reason]
    if reason == "dependency":
        return _dependencies(context, task, legal)
    if task.retries_left == 0:
        again = NEVER
    detail = {**task.blocked_detail, "retries_left": task.retries_left}
    actions = _suggested(task, legal)
    if reason == "subtasks":
        waiting = _unsettled(context.view, task)
        detail["subtasks"] = _named(waiting)
        failed = [each for each in waiting if has_failed(context.view, each)]
        first = first if len(failed) < len(waiting) else None
        actions = (*_actions_on_others(context.view, failed), *actions)
    elif reason == "budget":
        actions = (*budget_raises(context.view, task), *actions)
    elif reason in ("rate_limit", "resource") and task.job_id is not None:
        found = providers_of(context.view, task.job_id)
        first, detail = how_providers(found, first), {**detail, **found}
    how = _how_text(task, first, actions)
    again_at = task.blocked_detail.get("due_at")
    return Reason(reason, who, how, again, detail, again_at, actions)


def _dependencies(context: WhyContext, task: Task, legal: Sequence[str]) -> Reason:
    found = [each for each, _ in context.view.tasks(task.depends_on)]
    waiting = [each for each in found if not is_done(context.view, each)]
    failed = [each for each in waiting if has_failed(context.view, each)]
    who = "a person" if failed else "the tasks that it depends on"
    actions = (
        *_actions_on_others(context.view, failed, ("run", "resume", "retry")),
        *_suggested(task, legal),
    )
    how = _how_text(task, None if failed else "wait", actions)
    detail = {"open": task.open_dependencies, "tasks": _named(waiting)}
    return Reason("dependency", who, how, context.periodically, detail, actions=actions)


def _actions_on_others(
    view: ReadTransaction,
    others: Sequence[Task],
    verbs: Sequence[str] = ("resume", "retry", "dismiss"),
) -> tuple[Suggestion, ...]:
    """The legal ones of some actions on other tasks, at most `MAX_NAMED` of them."""
    legal = actions_on(view, others[:MAX_NAMED])
    return tuple(
        Suggestion(name, task_id)
        for task_id, names in legal.items()
        for name in verbs
        if name in names
    )


def budget_raises(view: ReadTransaction, task: Task) -> Iterator[Suggestion]:
    """Suggestions to raise the spent budgets of the tasks above, unless those have ended."""
    for each in with_ancestors(view, task):
        if each.id != task.id and is_spent(each) and not has_ended(view, each):
            yield Suggestion("raise", each.id)


def _unsettled(view: ReadTransaction, task: Task) -> list[Task]:
    """The subtasks that the task waits for."""
    if task.open_subtasks == 0:
        return []
    below = dict.fromkeys(child for _, child in view.children([task.id]))
    found = (each for each, _ in view.tasks([*below]))
    return [each for each in found if not is_done(view, each) and each.id not in task.settled]


def _failed_subtasks(view: ReadTransaction, task: Task) -> Iterator[Reason]:
    """The failed subtasks that the task still waits for."""
    failed = [each for each in _unsettled(view, task) if has_failed(view, each)]
    suggested = _actions_on_others(view, failed)
    for each in failed[:MAX_NAMED]:
        actions = tuple(one for one in suggested if one.id == each.id)
        how = _how_text(task, None, actions)
        detail = {"task": each.id, "state": each.state}
        yield Reason("failed_subtask", "a person", how, NEVER, detail, actions=actions)


def _due_timers(view: ReadTransaction, task: Task) -> Iterator[Reason]:
    """The timers of the lifecycle that will send the task an event if it stays in its state."""
    for timer in view.lifecycles()[task.lifecycle].timers:
        if timer.state == task.state:
            due_at = task.state_at + timer.after_us
            detail = {"event": timer.event}
            yield Reason("timer", "detent", f"wait for {timer.event}", IMMEDIATELY, detail, due_at)


def _used_rounds(view: ReadTransaction, task: Task) -> Iterator[Reason]:
    """The limit of rounds, if the task has reached it and the lifecycle would count one more."""
    lifecycle = view.lifecycles()[task.lifecycle]
    limit = round_limit(lifecycle, task)
    events = [each for each in lifecycle.rounds.events if (task.state, each) in lifecycle.move]
    if events and limit is not None and task.rounds >= limit:
        detail = {"rounds": task.rounds, "limit": limit, "events": events}
        yield Reason("rounds_used", "a person", "choose another action", NEVER, detail)


def _named(tasks: Iterable[Task]) -> list[dict[str, str]]:
    return [{"id": each.id, "state": each.state} for each in tasks][:MAX_NAMED]


def _not_accepted(job: Job | None) -> dict[str, Any]:
    """Why the action of the last acceptance was not carried out, if there was one."""
    found = problem(job)
    if job is None or found is None:
        return {}
    return {"action": job.options[ACCEPTANCE]["action"], "problem": found}


def _final_failure(view: ReadTransaction, task: Task, job: Job | None) -> Iterator[Reason]:
    """The error of a task that has failed for good."""
    if job is not None and job.error and ending_of(view, task) is Ending.FAILED:
        spent = job.error_class == FailureClass.BUDGET
        how = "submit it again with a higher budget" if spent else "submit it again"
        detail = {
            **_failure(job),
            **({"budget": task.budget, "spent": task.spent} if spent else {}),
        }
        yield Reason(task.state, "a person", how, NEVER, detail)


def _failure(job: Job | None) -> dict[str, Any]:
    return {} if job is None else {"error_class": job.error_class, "error": job.error}


def _warnings(context: WhyContext, task: Task) -> Iterator[Reason]:
    """Budgets that are mostly spent, unless the task is blocked by its budget."""
    for each in with_ancestors(context.view, task) if task.blocked_by != "budget" else ():
        if is_warned(each.budget, each.spent):
            detail = {"task": each.id, "budget": each.budget, "spent": each.spent}
            yield Reason("budget_warning", "a person", "raise the budget", NEVER, detail)
