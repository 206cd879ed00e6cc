"""The reasons why a job is not running.

Those of a queued job are found in what a claim reads: pauses, concurrency limits, rate limits,
concurrency keys and workers.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from detent.engine.concurrency_limits import RATE_PREFIX
from detent.engine.project_usage import COST, DAY_US, cost_of
from detent.engine.project_usage import TABLE as USAGE
from detent.kernel.budget import MICRO_USD
from detent.kernel.entities import Job, Wait
from detent.kernel.lane import needs_of
from detent.kernel.wait_kinds import PERMISSION
from detent.limit_config import EVERYTHING
from detent.operations.limits import FILE, PAUSE_FIELDS
from detent.operations.providers import providers_of
from detent.operations.why_reason import IMMEDIATELY, Reason, WhyContext
from detent.store.port import ReadTransaction
from detent.store.types import Query

S_US = 1_000_000
#: By kind of wait: who ends it, and how.
WAITS: Mapping[str, tuple[str, str]] = {
    "timer": ("detent", "wait"),
    "retry": ("detent", "wait"),
    "signal": ("the sender of the signal", "send the signal"),
    "subtasks": ("its subtasks", "wait"),
    "question": ("a person", "answer"),
    "confirmation": ("a person", "answer"),
    "permission": ("a person", "answer"),
    "budget": ("a person", "raise the budget, or cancel"),
    "funds": ("a person, or a run that ends below its reservation", "raise the budget, or wait"),
    "resource": ("a resource that is freed", "wait, or add a resource"),
}


def job_reasons(context: WhyContext, job: Job, reported: str | None = None) -> Iterator[Reason]:
    """The reasons of a job, without the wait `reported`, which is a reason of its task."""
    if job.state == "queued":
        yield from _queued(context, job)
    elif job.state == "retrying":
        found = providers_of(context.view, job.id)
        detail = {"error_class": job.error_class, "error": job.error, **found}
        how = how_providers(found, None) or "wait, or retry now"
        yield Reason("retry", "detent", how, IMMEDIATELY, detail, job.not_before)
    elif job.state in ("waiting", "parked"):
        waits: list[Wait] = list(context.view.waits([job.id]))
        yield from (_wait(context.view, wait) for wait in waits if wait.name != reported)
    elif job.state == "running" and job.cancel_reason:
        detail = {"asked": job.cancel_reason, "worker": job.worker}
        yield Reason("cancelling", "the worker that runs it", "wait", IMMEDIATELY, detail)
    elif job.state == "running":
        waits = list(context.view.waits([job.id])) if job.waited else []
        yield from (_wait(context.view, wait) for wait in waits if wait.kind == PERMISSION)
        noted = next((run.note for run in context.view.live_runs([job.id]) if run.note), None)
        note = {} if noted is None else {"note": noted}
        detail = {"worker": job.worker, "run": job.run_id, **note}
        yield Reason("in_work", "the worker that runs it", "wait, or cancel", IMMEDIATELY, detail)


def _wait(view: ReadTransaction, wait: Wait) -> Reason:
    who, how = WAITS[wait.kind]
    found = providers_of(view, wait.job_id) if wait.kind == "resource" else {}
    how = how_providers(found, None) or how
    shown_of_wait = {"name": own_name(wait), "needs": list(wait.needs), "step": wait.step}
    detail = {**wait.detail, **shown_of_wait, **found}
    return Reason(f"wait:{wait.kind}", who, how, IMMEDIATELY, detail, wait.due_at)


def own_name(wait: Wait) -> str:
    """The name of a wait as the handler wrote it: a plan step puts its own name before it."""
    prefix, slash, own = wait.name.partition("/")
    return own if slash and prefix.partition("~")[0] == wait.step else wait.name


def _queued(context: WhyContext, job: Job) -> Iterator[Reason]:
    if job.not_before > context.view.now():
        due: dict[str, Any] = {"not_before": job.not_before}
        yield Reason("not_before", "detent", "wait, or cancel", IMMEDIATELY, due, job.not_before)
    held = [*_paused(context.view, job), *_full(context.view, job)]
    yield from held
    needs = _needs(context.view, job)
    workers = _workers(context, needs)
    if not workers:
        yield _no_worker(job, needs)
    elif not held and all(map(_is_lowered, workers.values())):
        lowered = {"intent": job.intent, "workers": sorted(workers)}
        how = "wait, or start a worker on another machine"
        yield Reason("memory_short", "the workers' machines", how, IMMEDIATELY, lowered)
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
            detail = {"limit": name, "max": row["running"], "running": running}
            yield Reason("limit", "the jobs that run under it", "wait", IMMEDIATELY, detail)
        window = view.rows("system_state").get(RATE_PREFIX + name) if "rate" in row else None
        ends_at = 0 if window is None else window["from"] + row.get("per_s", 1) * S_US
        if window is not None and window["started"] >= row["rate"] and now < ends_at:
            detail = {"limit": name, "max": row["rate"], "per_s": row.get("per_s", 1)}
            yield Reason("rate", "detent", "wait", IMMEDIATELY, detail, ends_at)
    yield from _spent(view, limits.get(f"project:{job.project}", {}), job.project)


def _spent(view: ReadTransaction, limit: Mapping[str, Any], project: str) -> Iterator[Reason]:
    """The cost per day of the project, if it is reached."""
    today = view.now() // DAY_US
    spent = cost_of(view.rows_under(USAGE, COST), project, today)
    most = limit.get("cost_per_day")
    if most is not None and spent >= most:
        usd = {"max_usd": most / MICRO_USD, "spent_usd": spent / MICRO_USD}
        detail = {"limit": f"project:{project}", **usd}
        how = "wait until midnight UTC, or raise the quota"
        tomorrow = (today + 1) * DAY_US
        yield Reason("cost_quota", "an operator", how, IMMEDIATELY, detail, tomorrow)


def _running(view: ReadTransaction, name: str) -> int:
    kind, _, value = name.partition(":")
    column = "concurrency_key" if kind == "key" else kind
    return sum(view.count_by(Query("queue", {column: value, "worker": (">", "")}), column).values())


def _needs(view: ReadTransaction, job: Job) -> frozenset[str]:
    """The intents of which a worker must have one to claim the job, from its row in the queue."""
    rows = view.page(Query("queue", {"job_id": job.id}, limit=1))
    return needs_of(rows[0]["lane"] if rows else job.intent)


def _workers(context: WhyContext, needs: frozenset[str]) -> dict[str, Mapping[str, Any]]:
    """The live workers that have one of these intents."""
    alive_since = context.view.now() - 2 * context.lease_ms * 1_000
    return {
        name: row
        for name, row in context.view.rows("workers").items()
        if not needs.isdisjoint(row.get("intents", ())) and row.get("seen_at", 0) >= alive_since
    }


def _is_lowered(worker: Mapping[str, Any]) -> bool:
    """Whether a worker uses fewer slots than it has, because its machine is short of memory."""
    size = worker.get("concurrency") or 0
    return bool(worker.get("slots", size) < size)


def _no_worker(job: Job, needs: frozenset[str]) -> Reason:
    detail: dict[str, Any] = {"intent": job.intent}
    how = f"start a worker for the intent {job.intent}"
    if job.plan_version > 0:
        detail["needs"] = sorted(needs)
        listed = ", ".join(detail["needs"])
        how = f"start a worker for one of the intents of its next steps: {listed}"
    return Reason("no_worker", "an operator", how, IMMEDIATELY, detail)


def how_providers(found: Mapping[str, Any], otherwise: str | None) -> str | None:
    """What clears the reason, if providers that cannot be used are a part of it."""
    names = [each["name"] for each in found.get("providers", ()) if "until" in each]
    return f"wait, or run `detent resources reset {names[0]}`" if names else otherwise
