"""Why something is not moving: every reason, who can clear it, when detent looks again. Reads only.

A reason of the queue is looked for where the claim looks: pauses, limits, rates, keys, workers.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from detent.engine.concurrency_limits import RATE_PREFIX
from detent.kernel.budget import is_warned
from detent.kernel.entities import Job, Task, Wait
from detent.kernel.lane import needs_of
from detent.kernel.lifecycles import LIFECYCLES
from detent.kernel.predicates import DONE_TASK, has_failed
from detent.operations.actions import Suggestion, actions_on, actions_on_job, is_spent
from detent.operations.budgets import line
from detent.operations.context import Core
from detent.operations.limits import EVERYTHING, PAUSE
from detent.store.port import Query, Reading
from detent.views import shown, utc

S_US = 1_000_000
#: Neighbours that are named one by one.
MAX_NAMED = 20
AT_ONCE = "at once, when that happens"
NOBODY = "not by itself"


class Reason(NamedTuple):
    """One reason. `again` says in words when detent looks again, `again_at` when that is known."""

    reason: str
    cleared_by: str
    how: str
    again: str
    detail: Mapping[str, Any] = {}
    again_at: int | None = None
    #: What a person can do about it now.
    actions: tuple[Suggestion, ...] = ()

    def told(self) -> dict[str, Any]:
        at = None if self.again_at is None else utc(self.again_at)
        return {
            "reason": self.reason,
            "cleared_by": self.cleared_by,
            "how": self.how,
            "looks_again": self.again if at is None else f"at {at}",
            "looks_again_at": at,
            "detail": shown(self.detail),
            "actions": [each.told() for each in self.actions],
        }


class Look(NamedTuple):
    """What reasons are looked for with: a view, and how often the keeper looks at blocked tasks."""

    view: Reading
    blocked_ms: int
    lease_ms: int

    @property
    def sometimes(self) -> str:
        return f"{AT_ONCE}, and every {self.blocked_ms // 1_000} s"


#: By reason of a block: who can clear it, what happens without anybody, and whether detent goes on
#: by itself.
CLEARED_BY: Mapping[str, tuple[str, str | None, str]] = {
    "question": ("a person", None, AT_ONCE),
    "needs_user": ("a person", None, AT_ONCE),
    "subtasks": ("its subtasks", "wait", AT_ONCE),
    "dependency": ("what it depends on", "wait", AT_ONCE),
    "retry": ("detent", "wait", AT_ONCE),
    "rate_limit": ("detent", "wait for the reset", AT_ONCE),
    "budget": ("a person", None, AT_ONCE),
    "resource": ("a resource that is freed", "wait, or add a resource", AT_ONCE),
    "error": ("a person", None, NOBODY),
}
#: What is suggested of that which is legal, in this order.
SUGGESTED = ("answer", "accept", "reject", "raise", "run", "resume", "retry", "dismiss", "cancel")
#: By kind of a wait: who ends it, and how.
WAITS: Mapping[str, tuple[str, str]] = {
    "timer": ("detent", "wait"),
    "retry": ("detent", "wait"),
    "signal": ("whoever sends the signal", "signal"),
    "subtasks": ("its subtasks", "wait"),
    "question": ("a person", "answer"),
    "confirmation": ("a person", "answer"),
    "budget": ("a person", "raise the budget, or cancel"),
    "funds": ("a person, or a run that spends less than it holds", "raise the budget, or wait"),
    "resource": ("a resource that is freed", "wait, or add a resource"),
}


def look_with(core: Core, view: Reading) -> Look:
    return Look(view, core.settings.keeper_blocked_ms, core.settings.worker_lease_ms)


def why(look: Look, task: Task) -> dict[str, Any]:
    """Every reason that a task is not moving, who can clear it, and what is legal."""
    job = next((job for job, _ in look.view.jobs([task.job_id])), None) if task.job_id else None
    legal = actions_on(look.view, [task])[task.id]
    return {
        "id": task.id,
        "state": task.state,
        "since": utc(task.state_at),
        "reasons": [reason.told() for reason in _reasons(look, task, job, legal)],
        "actions": legal,
    }


def why_job(look: Look, job: Job) -> dict[str, Any]:
    """The same of a job."""
    return {
        "id": job.id,
        "state": job.state,
        "since": utc(job.state_at),
        "reasons": [reason.told() for reason in _job_reasons(look, job)],
        "actions": actions_on_job(job, look.view.waits([job.id])),
    }


# ---- of a task -------------------------------------------------------------------------------


def possible(look: Look, task: Task) -> list[Suggestion]:
    """Everything that a person can do about a task now, there and on the tasks in its way."""
    legal = actions_on(look.view, [task])[task.id]
    found = [each for reason in _reasons(look, task, None, legal) for each in reason.actions]
    return list(dict.fromkeys([*found, *(Suggestion(name, task.id) for name in legal)]))


def _reasons(look: Look, task: Task, job: Job | None, legal: Sequence[str]) -> Iterator[Reason]:
    if LIFECYCLES[task.lifecycle].is_terminal(task.state):
        return
    if task.state == "blocked" and task.blocked_by:
        yield _blocked(look, task, legal)
    elif task.state in ("inbox", "pending"):
        yield _for_a_person("not_queued", task, legal)
    elif task.state == "ready":
        yield _for_a_person("review", task, legal)
    elif task.state in ("failed", "timed_out"):
        yield _for_a_person(task.state, task, legal, _failure(job))
    if task.open_dependencies and task.blocked_by != "dependency":
        yield _dependencies(look, task, legal)
    yield from _failed_subtasks(look.view, task)
    yield from _warnings(look, task)
    if job is not None and (job.state != "retrying" or task.state != "blocked"):
        yield from _job_reasons(look, job, task.blocked_detail.get("wait"))


def _own(task: Task, legal: Sequence[str]) -> tuple[Suggestion, ...]:
    return tuple(Suggestion(each, task.id) for each in SUGGESTED if each in legal)


def _in_words(task: Task, first: str | None, actions: Sequence[Suggestion]) -> str:
    """What helps: nothing but time, or a verb, with the task that it is for if that is another."""
    verbs: dict[str, list[str]] = {}
    for each in actions:
        verbs.setdefault(each.id, []).append(each.action)
    parts = [
        " or ".join(names) if task_id == task.id else f"{' or '.join(names)} {task_id}"
        for task_id, names in verbs.items()
    ]
    return ", or ".join([*([first] if first else []), *parts]) or "delete it when it has ended"


def _for_a_person(
    reason: str, task: Task, legal: Sequence[str], detail: Mapping[str, Any] | None = None
) -> Reason:
    actions = [each for each in _own(task, legal) if each.action != "cancel"]
    if not actions:
        actions = [Suggestion(each, task.id) for each in legal]
    how = _in_words(task, None, actions)
    return Reason(reason, "a person", how, NOBODY, detail or {}, actions=tuple(actions))


def _blocked(look: Look, task: Task, legal: Sequence[str]) -> Reason:
    reason = task.blocked_by or ""
    who, first, again = CLEARED_BY[reason]
    if reason == "dependency":
        return _dependencies(look, task, legal)
    if task.retries_left == 0:
        again = NOBODY
    detail = {**task.blocked_detail, "retries_left": task.retries_left}
    actions = _own(task, legal)
    if reason == "subtasks":
        waiting = _unsettled(look.view, task)
        detail["subtasks"] = _named(waiting)
        first = first if any(not has_failed(each) for each in waiting) else None
        actions = (*_about(look.view, [each for each in waiting if has_failed(each)]), *actions)
    elif reason == "budget":
        actions = (*raises(look.view, task), *actions)
    how = _in_words(task, first, actions)
    again_at = task.blocked_detail.get("due_at")
    return Reason(reason, who, how, again, detail, again_at, actions)


def _dependencies(look: Look, task: Task, legal: Sequence[str]) -> Reason:
    found = [each for each, _ in look.view.tasks(task.depends_on)]
    waiting = [each for each in found if each.state not in DONE_TASK]
    failed = [each for each in waiting if has_failed(each)]
    who = "a person" if failed else "what it depends on"
    actions = (*_about(look.view, failed, ("run", "resume", "retry")), *_own(task, legal))
    how = _in_words(task, None if failed else "wait", actions)
    detail = {"open": task.open_dependencies, "tasks": _named(waiting)}
    return Reason("dependency", who, how, look.sometimes, detail, actions=actions)


def _about(
    view: Reading, others: Sequence[Task], verbs: Sequence[str] = ("resume", "retry", "dismiss")
) -> tuple[Suggestion, ...]:
    """What can be done about other tasks, of which a few are named."""
    legal = actions_on(view, others[:MAX_NAMED])
    return tuple(
        Suggestion(name, task_id)
        for task_id, names in legal.items()
        for name in verbs
        if name in names
    )


def raises(view: Reading, task: Task) -> Iterator[Suggestion]:
    """Budgets of tasks above it that are spent; one of a task that has ended stays spent."""
    for each in line(view, task):
        ended = LIFECYCLES[each.lifecycle].is_terminal(each.state)
        if each.id != task.id and is_spent(each) and not ended:
            yield Suggestion("raise", each.id)


def _unsettled(view: Reading, task: Task) -> list[Task]:
    """The tasks below that it waits for."""
    if task.open_subtasks == 0:
        return []
    below = dict.fromkeys(child for _, child in view.children([task.id]))
    found = (each for each, _ in view.tasks([*below]))
    return [each for each in found if each.state not in DONE_TASK and each.id not in task.settled]


def _failed_subtasks(view: Reading, task: Task) -> Iterator[Reason]:
    """Subtasks that failed and are not settled: it will wait for each of them."""
    failed = [each for each in _unsettled(view, task) if has_failed(each)]
    suggested = _about(view, failed)
    for each in failed[:MAX_NAMED]:
        actions = tuple(one for one in suggested if one.id == each.id)
        how = _in_words(task, None, actions)
        detail = {"task": each.id, "state": each.state}
        yield Reason("failed_subtask", "a person", how, NOBODY, detail, actions=actions)


def _named(tasks: Iterable[Task]) -> list[dict[str, str]]:
    return [{"id": each.id, "state": each.state} for each in tasks][:MAX_NAMED]


def _failure(job: Job | None) -> dict[str, Any]:
    return {} if job is None else {"error_class": job.error_class, "error": job.error}


def _warnings(look: Look, task: Task) -> Iterator[Reason]:
    """Budgets of which most is spent; what is blocked by one says so already."""
    for each in line(look.view, task) if task.blocked_by != "budget" else ():
        if is_warned(each.budget, each.spent):
            detail = {"task": each.id, "budget": each.budget, "spent": each.spent}
            yield Reason("budget_warning", "a person", "raise the budget", NOBODY, detail)


# ---- of a job --------------------------------------------------------------------------------


def _job_reasons(look: Look, job: Job, told: str | None = None) -> Iterator[Reason]:
    """`told` is the wait by which its task is blocked."""
    if job.state == "queued":
        yield from _queued(look, job)
    elif job.state == "retrying":
        detail = {"error_class": job.error_class, "error": job.error}
        yield Reason("retry", "detent", "wait, or retry now", AT_ONCE, detail, job.not_before)
    elif job.state in ("waiting", "parked"):
        waits: list[Wait] = list(look.view.waits([job.id]))
        yield from (_wait(wait) for wait in waits if wait.name != told)
    elif job.state == "running" and job.cancel_reason:
        detail = {"asked": job.cancel_reason, "worker": job.worker}
        yield Reason("cancelling", "the worker that runs it", "wait", AT_ONCE, detail)
    elif job.state == "running":
        detail = {"worker": job.worker, "run": job.run_id}
        yield Reason("in_work", "the worker that runs it", "wait, or cancel", AT_ONCE, detail)


def _wait(wait: Wait) -> Reason:
    who, how = WAITS[wait.kind]
    detail = {**wait.detail, "name": wait.name, "needs": list(wait.needs), "step": wait.step}
    return Reason(f"wait:{wait.kind}", who, how, AT_ONCE, detail, wait.due_at)


def _queued(look: Look, job: Job) -> Iterator[Reason]:
    if job.not_before > look.view.now():
        due: dict[str, Any] = {"not_before": job.not_before}
        yield Reason("not_before", "detent", "wait, or cancel", AT_ONCE, due, job.not_before)
    held = [*_paused(look.view, job), *_full(look.view, job)]
    yield from held
    needs = _needs(look.view, job)
    if not _has_worker(look, needs):
        yield _no_worker(job, needs)
    elif not held:
        ahead = look.view.count_by(
            Query("queue", {"rank": ("<", job.rank), "worker": None}), "worker"
        )
        detail = {"intent": job.intent, "ahead": sum(ahead.values())}
        yield Reason("queued", "a worker that is free", "wait", AT_ONCE, detail)


def _keys(job: Job) -> list[str]:
    keys = [f"intent:{job.intent}", f"project:{job.project}"]
    return keys if job.concurrency_key is None else [*keys, f"key:{job.concurrency_key}"]


def _paused(view: Reading, job: Job) -> Iterator[Reason]:
    limits = view.rows("limits")
    for name in (EVERYTHING, *_keys(job)):
        row = limits.get(name, {})
        if row.get("paused"):
            said = {field: row[field] for field in PAUSE[1:] if row.get(field)}
            yield Reason("paused", "an operator", "resume", AT_ONCE, {"limit": name, **said})


def _full(view: Reading, job: Job) -> Iterator[Reason]:
    """Limits on how many run at once, and on how many start in a time."""
    limits, now = view.rows("limits"), view.now()
    for name in _keys(job):
        row = limits.get(name, {"running": 1} if name.startswith("key:") else {})
        running = _running(view, name) if "running" in row else 0
        if "running" in row and running >= row["running"]:
            detail = {"limit": name, "most": row["running"], "running": running}
            yield Reason("limit", "what runs under it now", "wait", AT_ONCE, detail)
        window = view.rows("system_state").get(RATE_PREFIX + name) if "rate" in row else None
        ends_at = 0 if window is None else window["from"] + row.get("per_s", 1) * S_US
        if window is not None and window["started"] >= row["rate"] and now < ends_at:
            detail = {"limit": name, "most": row["rate"], "per_s": row.get("per_s", 1)}
            yield Reason("rate", "detent", "wait", AT_ONCE, detail, ends_at)


def _running(view: Reading, name: str) -> int:
    kind, _, value = name.partition(":")
    column = "concurrency_key" if kind == "key" else kind
    return sum(view.count_by(Query("queue", {column: value, "worker": (">", "")}), column).values())


def _needs(view: Reading, job: Job) -> frozenset[str]:
    """The intents of which a worker must have one to claim the job, as the queue has them."""
    rows = view.page(Query("queue", {"job_id": job.id}, limit=1))
    return needs_of(rows[0]["lane"] if rows else job.intent)


def _has_worker(look: Look, needs: frozenset[str]) -> bool:
    """A worker that has one of these intents has given a sign of life lately."""
    lately = look.view.now() - 2 * look.lease_ms * 1_000
    return any(
        not needs.isdisjoint(row.get("intents", ())) and row.get("seen_at", 0) >= lately
        for row in look.view.rows("workers").values()
    )


def _no_worker(job: Job, needs: frozenset[str]) -> Reason:
    detail: dict[str, Any] = {"intent": job.intent}
    how = "start a worker for its intent"
    if job.plan_version > 0:
        detail["needs"] = sorted(needs)
        listed = ", ".join(detail["needs"])
        how = f"start a worker that has one of the intents of its next steps: {listed}"
    return Reason("no_worker", "an operator", how, AT_ONCE, detail)
