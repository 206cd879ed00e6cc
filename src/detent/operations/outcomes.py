"""The outcome of a task in one response, and the intents that are offered to other agents.

MCP tasks and A2A tasks are made from them.
"""

from typing import Any, cast

from detent import thresholds, views
from detent.errors import NotFound
from detent.kernel.entities import Wait
from detent.kernel.retention import DAY_US, Ending
from detent.kernel.wait_kinds import QUESTIONS
from detent.operations import schemas
from detent.operations.context import Core
from detent.operations.costs import shown_tasks
from detent.operations.registry import Caller, Scope, operation
from detent.operations.runs import task_evidence
from detent.settings import Settings
from detent.store.port import ReadTransaction
from detent.store.types import Query
from detent.submission.offered_intents import offered_intents

#: The fields of a task that its outcome has too.
SHARED = (
    *("id", "project", "intent", "state", "blocked_by", "root_id", "payload", "created_by"),
    *("created_at", "state_at", "ending", "tags", "elsewhere", "version"),
)


@operation(Scope.READ, "GET", "/api/tasks/{task_id}/outcome")
def task_outcome(core: Core, caller: Caller, *, task_id: str, own: bool = False) -> schemas.Outcome:
    """Show the state, progress, open questions, result or error, and evidence of a task."""
    found, _ = core.task(caller, task_id)
    with core.store.read() as view:
        row = view.page(Query("tasks", {"id": task_id}))[0]
        if own and row["created_by"] != caller.actor.name:
            raise NotFound(f"There is no task {task_id!r} of {caller.name}.", code="unknown_task")
        task = shown_tasks(view, [row])[0]
        job = _job(view, found.job_id)
        run = _run(view, found.job_id)
        waits = () if found.job_id is None else view.waits([found.job_id])
        questions = [_question(each) for each in waits if each.kind in QUESTIONS]
    done = task["ending"] == Ending.DONE
    return cast(
        schemas.Outcome,
        {
            **{name: cast(dict[str, Any], task)[name] for name in SHARED},
            "kept_until": _kept_until(core.settings, task["ending"], row["state_at"]),
            "progress": run.get("progress"),
            "note": run.get("note"),
            "questions": sorted(questions, key=lambda each: (each["asked_at"], each["name"])),
            "result": job.get("result") if done else None,
            "error_class": job.get("error_class"),
            "error": job.get("error"),
            "evidence": task_evidence(core, caller, task_id=task_id)["items"],
        },
    )


@operation(Scope.SUBMIT, "GET", "/api/offered-intents")
def list_offered_intents(core: Core, caller: Caller) -> schemas.OfferedIntents:
    """List the intents that are offered to other agents, with the arguments of each."""
    found = offered_intents(core.known_intents())
    items = [{**each._asdict(), "tasks": each.tasks.value} for each in found]
    return {"items": cast(list[schemas.OfferedIntent], items)}


def _job(view: ReadTransaction, job_id: str | None) -> dict[str, Any]:
    rows = () if job_id is None else view.page(Query("jobs", {"id": job_id}, limit=1))
    return dict(rows[0]) if rows else {}


def _run(view: ReadTransaction, job_id: str | None) -> dict[str, Any]:
    """The newest run of a job."""
    query = Query("runs", {"job_id": job_id}, "queued_at", descending=True, limit=1)
    rows = () if job_id is None else view.page(query)
    return dict(rows[0]) if rows else {}


def _question(wait: Wait) -> schemas.OpenQuestion:
    return {
        "key": f"{wait.name}@{wait.begun_at}",
        "name": wait.name,
        "text": str(wait.detail.get("text") or wait.name),
        "options": list(wait.detail.get("options") or ()),
        "other": bool(wait.detail.get("other")),
        "asked_at": views.utc(wait.begun_at),
        "due_at": None if wait.due_at is None else views.utc(wait.due_at),
    }


def _kept_until(settings: Settings, ending: str | None, ended_at: int) -> str | None:
    if ending is None:
        return None
    days = thresholds.retention(settings).days(Ending(ending))
    return views.utc(ended_at + days * DAY_US)
