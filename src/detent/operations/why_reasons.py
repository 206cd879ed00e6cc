"""Explains why a task or job is not running: each reason and who can clear it. Reads only.

The reasons of a queued job are found in what a claim reads: pauses, concurrency limits, rate
limits, concurrency keys and workers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detent.engine.concurrency_limits import RATE_PREFIX
from detent.kernel.acceptance import ACCEPTANCE, is_acceptance
from detent.kernel.budget import is_warned
from detent.kernel.entities import Job, Task, Wait
from detent.kernel.lane import needs_of
from detent.kernel.outcome_rules import round_limit
from detent.kernel.predicates import ENDED_JOB
from detent.kernel.task_lifecycle import Phase
from detent.limit_config import EVERYTHING
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
from detent.operations.context import Core
from detent.operations.limits import FILE, PAUSE_FIELDS
from detent.operations.task_states import has_ended, has_failed, is_done, state_of
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.views import shown, utc

S_US = 1_000_000
#: The maximum number of other tasks that a reason lists.
MAX_NAMED = 20
IMMEDIATELY = "immediately, when that happens"
NEVER = "none"


class Reason(NamedTuple):
    """One reason. `again` says when detent checks it again, `again_at` the time if it is known."""

    reason: str
    cleared_by: str
    how: str
    again: str
    detail: Mapping[str, Any] = {}
    again_at: int | None = None
    #: What a person can do now.
    actions: tuple[Suggestion, ...] = ()

    def to_schema(self) -> dict[str, Any]:
        at = None if self.again_at is None else utc(self.again_at)
        return {
            "reason": self.reason,
            "cleared_by": self.cleared_by,
            "how": self.how,
            "looks_again": self.again if at is None else f"at {at}",
            "looks_again_at": at,
            "detail": shown(self.detail),
            "actions": [each.to_schema() for each in self.actions],
        }


class WhyContext(NamedTuple):
    """What reasons are found with: a view of the store, and the intervals of the settings."""

    view: ReadTransaction
    blocked_ms: int
    lease_ms: int

    @property
    def periodically(self) -> str:
        """When the keeper checks blocked tasks."""
        return f"{IMMEDIATELY}, and every {self.blocked_ms // 1_000} s"


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
SUGGESTED = ("answer", "accept", "reject", "raise", "run", "resume", "retry", "dismiss", "cancel")
#: By kind of wait: who ends it, and how.
WAITS: Mapping[str, tuple[str, str]] = {
    "timer": ("detent", "wait"),
    "retry": ("detent", "wait"),
    "signal": ("the sender of the signal", "send the signal"),
    "subtasks": ("its subtasks", "wait"),
    "question": ("a person", "answer"),
    "confirmation": ("a person", "answer"),
    "budget": ("a person", "raise the budget, or cancel"),
    "funds": ("a person, or a run that ends below its reservation", "raise the budget, or wait"),
    "resource": ("a resource that is freed", "wait, or add a resource"),
}


def why_context(core: Core, view: ReadTransaction) -> WhyContext:
    return WhyContext(view, core.settings.keeper_blocked_ms, core.settings.worker_lease_ms)


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
        "reasons": [reason.to_schema() for reason in _job_reasons(context, job)],
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
        yield from _job_reasons(context, job, task.blocked_detail.get("wait"))


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


def _failure(job: Job | None) -> dict[str, Any]:
    return {} if job is None else {"error_class": job.error_class, "error": job.error}


def _warnings(context: WhyContext, task: Task) -> Iterator[Reason]:
    """Budgets that are mostly spent, unless the task is blocked by its budget."""
    for each in with_ancestors(context.view, task) if task.blocked_by != "budget" else ():
        if is_warned(each.budget, each.spent):
            detail = {"task": each.id, "budget": each.budget, "spent": each.spent}
            yield Reason("budget_warning", "a person", "raise the budget", NEVER, detail)


# ---- reasons of a job ------------------------------------------------------------------------


def _job_reasons(context: WhyContext, job: Job, reported: str | None = None) -> Iterator[Reason]:
    """The reasons of a job, without the wait `reported`, which is a reason of its task."""
    if job.state == "queued":
        yield from _queued(context, job)
    elif job.state == "retrying":
        detail = {"error_class": job.error_class, "error": job.error}
        yield Reason("retry", "detent", "wait, or retry now", IMMEDIATELY, detail, job.not_before)
    elif job.state in ("waiting", "parked"):
        waits: list[Wait] = list(context.view.waits([job.id]))
        yield from (_wait(wait) for wait in waits if wait.name != reported)
    elif job.state == "running" and job.cancel_reason:
        detail = {"asked": job.cancel_reason, "worker": job.worker}
        yield Reason("cancelling", "the worker that runs it", "wait", IMMEDIATELY, detail)
    elif job.state == "running":
        detail = {"worker": job.worker, "run": job.run_id}
        yield Reason("in_work", "the worker that runs it", "wait, or cancel", IMMEDIATELY, detail)


def _wait(wait: Wait) -> Reason:
    who, how = WAITS[wait.kind]
    detail = {**wait.detail, "name": wait.name, "needs": list(wait.needs), "step": wait.step}
    return Reason(f"wait:{wait.kind}", who, how, IMMEDIATELY, detail, wait.due_at)


def _queued(context: WhyContext, job: Job) -> Iterator[Reason]:
    if job.not_before > context.view.now():
        due: dict[str, Any] = {"not_before": job.not_before}
        yield Reason("not_before", "detent", "wait, or cancel", IMMEDIATELY, due, job.not_before)
    held = [*_paused(context.view, job), *_full(context.view, job)]
    yield from held
    needs = _needs(context.view, job)
    if not _has_worker(context, needs):
        yield _no_worker(job, needs)
    elif not held:
        ahead = context.view.count_by(
            Query("queue", {"rank": ("<", job.rank), "worker": None}), "worker"
        )
        detail = {"intent": job.intent, "ahead": sum(ahead.values())}
        yield Reason("queued", "a free worker", "wait", IMMEDIATELY, detail)


def _keys(job: Job) -> list[str]:
    keys = [f"intent:{job.intent}", f"project:{job.project}"]
    return keys if job.concurrency_key is None else [*keys, f"key:{job.concurrency_key}"]


def _paused(view: ReadTransaction, job: Job) -> Iterator[Reason]:
    limits = view.rows("limits")
    for name in (EVERYTHING, *_keys(job)):
        row = limits.get(name, {})
        if row.get("paused"):
            pause = {field: row[field] for field in PAUSE_FIELDS if row.get(field)}
            by = row.get("paused_by") or FILE.name
            detail = {"limit": name, "paused_by": by, **pause}
            until = row.get("paused_until")
            yield Reason("paused", "an operator", "end the pause", IMMEDIATELY, detail, until)


def _full(view: ReadTransaction, job: Job) -> Iterator[Reason]:
    """Concurrency limits and rate limits that are reached."""
    limits, now = view.rows("limits"), view.now()
    for name in _keys(job):
        row = limits.get(name, {"running": 1} if name.startswith("key:") else {})
        running = _running(view, name) if "running" in row else 0
        if "running" in row and running >= row["running"]:
            detail = {"limit": name, "most": row["running"], "running": running}
            yield Reason("limit", "the jobs that run under it", "wait", IMMEDIATELY, detail)
        window = view.rows("system_state").get(RATE_PREFIX + name) if "rate" in row else None
        ends_at = 0 if window is None else window["from"] + row.get("per_s", 1) * S_US
        if window is not None and window["started"] >= row["rate"] and now < ends_at:
            detail = {"limit": name, "most": row["rate"], "per_s": row.get("per_s", 1)}
            yield Reason("rate", "detent", "wait", IMMEDIATELY, detail, ends_at)


def _running(view: ReadTransaction, name: str) -> int:
    kind, _, value = name.partition(":")
    column = "concurrency_key" if kind == "key" else kind
    return sum(view.count_by(Query("queue", {column: value, "worker": (">", "")}), column).values())


def _needs(view: ReadTransaction, job: Job) -> frozenset[str]:
    """The intents of which a worker must have one to claim the job, from its row in the queue."""
    rows = view.page(Query("queue", {"job_id": job.id}, limit=1))
    return needs_of(rows[0]["lane"] if rows else job.intent)


def _has_worker(context: WhyContext, needs: frozenset[str]) -> bool:
    """Whether a live worker has one of these intents."""
    alive_since = context.view.now() - 2 * context.lease_ms * 1_000
    return any(
        not needs.isdisjoint(row.get("intents", ())) and row.get("seen_at", 0) >= alive_since
        for row in context.view.rows("workers").values()
    )


def _no_worker(job: Job, needs: frozenset[str]) -> Reason:
    detail: dict[str, Any] = {"intent": job.intent}
    how = f"start a worker for the intent {job.intent}"
    if job.plan_version > 0:
        detail["needs"] = sorted(needs)
        listed = ", ".join(detail["needs"])
        how = f"start a worker for one of the intents of its next steps: {listed}"
    return Reason("no_worker", "an operator", how, IMMEDIATELY, detail)
