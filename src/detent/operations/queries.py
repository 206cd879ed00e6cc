"""Queries: pages of tasks and jobs, one task or job, its history, and why it is not running."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

from detent import views
from detent.kernel.acceptance import is_acceptance
from detent.kernel.derived_ids import jobs_of_task
from detent.kernel.plan import by_dependencies
from detent.kernel.priority import priority_from
from detent.operations import schemas, why_reasons
from detent.operations.actions import events_on
from detent.operations.context import Core
from detent.operations.costs import shown_tasks
from detent.operations.cursor_pages import (
    MAX_ROWS,
    listed,
    of_project,
    page,
    states_from,
    task_states,
    versions_of,
)
from detent.operations.registry import Caller, Scope, operation
from detent.operations.why_reason import why_context
from detent.store.log_walk import next_events
from detent.store.stale_reads import read_stale
from detent.store.types import Query

#: Events of one history in one response; the cursor continues it.
MAX_EVENTS = 10_000

# ---- tasks -----------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/tasks")
def list_tasks(
    core: Core,
    caller: Caller,
    *,
    state: str | None = None,
    lifecycle: str | None = None,
    project: str | None = None,
    intent: str | None = None,
    source: str | None = None,
    priority: str | None = None,
    tag: str | None = None,
    parent_id: str | None = None,
    active: bool = False,
    own: bool = False,
    search: str = "",
    sort: str = "-created_at",
    cursor: str | None = None,
    limit: int = 100,
) -> schemas.TaskPage:
    """List tasks, filtered and sorted, one page at a time."""
    where = _present(intent=intent, source=source, parent_id=parent_id)
    if own:
        where["created_by"] = caller.actor.name
    if lifecycle is not None:
        where["lifecycle"] = versions_of(core, lifecycle)
    if priority is not None:
        where["priority"] = priority_from(priority).value
    if tag is not None:
        where["tags"] = tag
    if state is not None:
        where["state"] = states_from(core, state, "tasks")
    elif active:
        where["state"] = task_states(core, lambda each: each.ending is None)
    within = of_project(caller, where, project)
    rows, after = page(core, "tasks", within, sort, cursor, limit, search)
    return {"items": tasks_from(core, rows), "cursor": after}


@operation(Scope.READ, "GET", "/api/tasks/{task_id}")
def show_task(core: Core, caller: Caller, *, task_id: str) -> schemas.Task:
    """Show a task with its payload and state."""
    core.task(caller, task_id)
    with core.store.read() as view:
        return shown_tasks(view, view.page(Query("tasks", {"id": task_id})))[0]


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/events")
def task_events(core: Core, caller: Caller, *, task_id: str, after: int = 0) -> schemas.Log:
    """List the events of a task and of its jobs in order, at most 10,000 at a time."""
    task, _ = core.task(caller, task_id)
    return _events(core, [task_id, *jobs_of_task(task_id, task.jobs)], after)


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/jobs")
def task_jobs(core: Core, caller: Caller, *, task_id: str) -> schemas.Jobs:
    """List the jobs of a task, oldest first."""
    core.task(caller, task_id)
    return {"items": listed(core, Query("jobs", {"task_id": task_id}, "created_at"))}


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/steps")
def task_steps(core: Core, caller: Caller, *, task_id: str) -> schemas.Steps:
    """List the plan steps of a task's jobs, those of each job in the order of its plan."""
    return {"items": _steps(core, jobs_of(core, caller, task_id))}


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/subtasks")
def subtasks(core: Core, caller: Caller, *, task_id: str) -> schemas.Tasks:
    """List the direct subtasks of a task, oldest first."""
    core.task(caller, task_id)
    return {"items": _tasks(core, Query("tasks", {"parent_id": task_id}, "created_at"))}


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/why")
def why(core: Core, caller: Caller, *, task_id: str) -> schemas.Why:
    """Explain why a task is not running: each reason, who can clear it, and the legal actions."""
    task, _ = core.task(caller, task_id)
    with core.store.read() as view:
        found = why_reasons.why(why_context(core, view), task)
        found["events"] = events_on(view, [task], caller.actor)[task.id]
        return cast(schemas.Why, found)


# ---- jobs ------------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/jobs")
def list_jobs(
    core: Core,
    caller: Caller,
    *,
    state: str | None = None,
    project: str | None = None,
    intent: str | None = None,
    task_id: str | None = None,
    search: str = "",
    sort: str = "-created_at",
    cursor: str | None = None,
    limit: int = 100,
) -> schemas.JobPage:
    """List jobs, filtered and sorted, one page at a time."""
    where = _present(intent=intent, task_id=task_id)
    if state is not None:
        where["state"] = states_from(core, state, "jobs")
    within = of_project(caller, where, project)
    rows, after = page(core, "jobs", within, sort, cursor, limit, search)
    titles = titles_of(core, {row["task_id"] for row in rows})
    items: list[schemas.ListedJob] = [
        {**job_from(row), "title": titles.get(row["task_id"], "")} for row in rows
    ]
    return {"items": items, "cursor": after}


@operation(Scope.READ, "GET", "/api/jobs/{job_id}")
def show_job(core: Core, caller: Caller, *, job_id: str) -> schemas.Job:
    """Show a job with its result or error."""
    core.job(caller, job_id)
    with core.store.read() as view:
        return job_from(view.page(Query("jobs", {"id": job_id}))[0])


@operation(Scope.READ, "GET", "/api/jobs/{job_id}/events")
def job_events(core: Core, caller: Caller, *, job_id: str, after: int = 0) -> schemas.Log:
    """List the events of a job in order, at most 10,000 at a time."""
    core.job(caller, job_id)
    return _events(core, [job_id], after)


@operation(Scope.READ, "GET", "/api/jobs/{job_id}/steps")
def job_steps(core: Core, caller: Caller, *, job_id: str) -> schemas.Steps:
    """List the plan steps of a job in the order of its plan."""
    core.job(caller, job_id)
    return {"items": _steps(core, [job_id])}


@operation(Scope.READ, "GET", "/api/jobs/{job_id}/why")
def job_why(core: Core, caller: Caller, *, job_id: str) -> schemas.Why:
    """Explain why a job is not running: each reason, who can clear it, and the legal actions."""
    job, _ = core.job(caller, job_id)
    with core.store.read() as view:
        return cast(schemas.Why, why_reasons.why_job(why_context(core, view), job))


# ---- the log ---------------------------------------------------------------------------------


@operation(Scope.READ, "GET", "/api/log")
def list_events(
    core: Core, caller: Caller, *, after: int = 0, limit: int = MAX_ROWS
) -> schemas.Log:
    """List the log from any position, in order; `cursor` is the next `after`.

    There can be fewer events than `limit` before the end of the log, for example if they are large.
    At the end, `cursor` is equal to `after`.
    """
    with core.store.read() as view:
        found = next_events(view, after, limit)
    seen = [each for each in found if caller.may_see(each.project)]
    return {
        "events": [cast(schemas.Event, views.event(each)) for each in seen],
        "cursor": found[-1].position if found else after,
    }


def _events(core: Core, streams: Sequence[str], after: int) -> schemas.Log:
    with core.store.read() as view:
        found = [each for one in streams for each in view.events(after, MAX_EVENTS, stream=one)]
    shown = sorted(found)[:MAX_EVENTS]
    return {
        "events": [cast(schemas.Event, views.event(each)) for each in shown],
        "cursor": shown[-1].position if shown else after,
    }


# ---- parts -----------------------------------------------------------------------------------


def jobs_of(core: Core, caller: Caller, task_id: str) -> list[str]:
    """The ids of a task's jobs, oldest first."""
    return [row["id"] for row in task_jobs(core, caller, task_id=task_id)["items"]]


def _steps(core: Core, job_ids: Sequence[str]) -> list[Any]:
    """The steps of jobs, by job and in the order of its plan; those of older plans are last."""
    if not job_ids:
        return []
    with core.store.read() as view:
        plans = view.plans(job_ids)
    named = [
        (job_id, name)
        for job_id in job_ids
        if job_id in plans
        for name in by_dependencies(plans[job_id])
    ]
    place = {step: index for index, step in enumerate(named)}
    rows = listed(core, Query("steps", {"job_id": list(job_ids)}, "name"))
    return sorted(rows, key=lambda row: place.get((row["job_id"], row["name"]), len(place)))


def result_of(core: Core, caller: Caller, task_id: str) -> Any:
    """The result of a task's last job, None while there is none. An acceptance has no result."""
    task, _ = core.task(caller, task_id)
    for job_id in reversed(jobs_of_task(task.id, task.jobs)):
        job, _ = core.job(caller, job_id)
        if not is_acceptance(job):
            return job.result
    return None


def tasks_from(core: Core, rows: Sequence[Mapping[str, Any]]) -> list[schemas.Task]:
    with read_stale(core.store) as view:
        return shown_tasks(view, rows)


def _tasks(core: Core, query: Query) -> list[schemas.Task]:
    with core.store.read() as view:
        return shown_tasks(view, view.page(query._replace(limit=MAX_ROWS)))


def titles_of(core: Core, task_ids: Collection[str | None]) -> dict[str | None, str]:
    """By task id, the titles of tasks."""
    ids = sorted(filter(None, task_ids))
    with read_stale(core.store) as view:
        found = view.page(Query("tasks", {"id": ids}, limit=len(ids))) if ids else ()
    return {row["id"]: row["title"] for row in found}


def job_from(row: Mapping[str, Any]) -> schemas.Job:
    return cast(schemas.Job, views.shown(row))


def _present(**filters: Any) -> dict[str, Any]:
    """The filters that were given."""
    return {name: value for name, value in filters.items() if value is not None}
