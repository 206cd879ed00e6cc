"""A task with its pull request: what the log says about it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from detent.integrations.forges.issue_tasks import Place, find_task
from detent.integrations.forges.request_events import Pushed
from detent.kernel.acceptance import ACCEPTANCE
from detent.kernel.entities import Task
from detent.kernel.task_lifecycle import Phase
from detent.operations.context import Core
from detent.store.port import ReadTransaction
from detent.store.types import Query

LIFECYCLE = "pull_request"
MAX_JOBS = 200
#: The branch of a task has its id after this.
BRANCH = "detent/"


class ForgeTask(NamedTuple):
    """A live task of a forge."""

    task: Task
    version: int
    title: str
    place: Place
    phase: Phase
    #: The last push that succeeded; None before the first.
    pushed: Pushed | None
    #: The last run of the agent, and when it was queued.
    run_id: str | None
    run_at: int

    @property
    def state(self) -> str:
        return self.task.state


def read_task(core: Core, forge: str, task_id: str) -> ForgeTask | None:
    """The task, if it is of this forge and has not ended."""
    with core.store.read() as view:
        found = find_task(view, forge, task_id)
        if found is None or found.task.lifecycle != LIFECYCLE:
            return None
        jobs = view.page(
            Query("jobs", {"task_id": task_id}, "created_at", descending=True, limit=MAX_JOBS)
        )
        return ForgeTask(*found, _pushed(jobs), *_agent_run(view, jobs))


def _pushed(jobs: Sequence[Mapping[str, Any]]) -> Pushed | None:
    for job in jobs:
        result = job["result"] if job["state"] == "completed" else None
        push = result.get("push") if isinstance(result, Mapping) else None
        if ACCEPTANCE in job["options"] and isinstance(push, Mapping):
            return Pushed(str(push["branch"]), str(push["commit"]))
    return None


def _agent_run(view: ReadTransaction, jobs: Sequence[Mapping[str, Any]]) -> tuple[str | None, int]:
    agents = [job["id"] for job in jobs if ACCEPTANCE not in job["options"]]
    query = Query("runs", {"job_id": agents[:1]}, "queued_at", descending=True, limit=1)
    rows = view.page(query) if agents else ()
    return (str(rows[0]["id"]), int(rows[0]["queued_at"])) if rows else (None, 0)
