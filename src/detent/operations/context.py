"""What operations work with: a store, the engine on it, the settings, and the known intents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from detent.engine import Engine
from detent.errors import NotFound
from detent.kernel.entities import Job, Task
from detent.operations.registry import Caller
from detent.settings import Settings
from detent.store.port import Store
from detent.store.types import Query
from detent.submission.checks import known as known
from detent.submission.context import Context
from detent.submission.payload import ARGUMENTS
from detent.submission.plan_steps import CRITICS


@dataclass(slots=True)
class Core:
    """One installation, as the operations see it."""

    store: Store
    engine: Engine
    settings: Settings = field(default_factory=Settings)
    #: Intents of the configuration, with their options. Workers register theirs in the store.
    intents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Agent command lines of the configuration, by name.
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Limits of the configuration, by name; they are kept in the store.
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def known_intents(self) -> dict[str, Mapping[str, Any]]:
        """Configured intents and those that a worker has ever registered."""
        with self.store.read() as view:
            registered = view.rows("intents")
        own = {
            name: _configured(row, registered.get(name, {})) for name, row in self.intents.items()
        }
        return {**registered, **own}

    def submissions(self, caller: Caller) -> Context:
        """What the submissions of a caller are checked against."""
        intents = self.known_intents()
        return Context(self.store, self.settings, intents, caller.actor, caller.project)

    def task(self, caller: Caller, task_id: str) -> tuple[Task, int]:
        """A task that the caller may see, with its version; a foreign one looks like none."""
        with self.store.read() as view:
            for task, version in view.tasks([task_id]):
                if caller.project in (None, task.project):
                    return task, version
        raise NotFound(f"There is no task {task_id!r}.", code="unknown_task")

    def job(self, caller: Caller, job_id: str) -> tuple[Job, int]:
        with self.store.read() as view:
            for job, version in view.jobs([job_id]):
                if caller.project in (None, job.project):
                    return job, version
        raise NotFound(f"There is no job {job_id!r}.", code="unknown_job")

    def run(self, caller: Caller, run_id: str) -> Mapping[str, Any]:
        """A run's row; whoever may see its job may see it."""
        with self.store.read() as view:
            for row in view.page(Query("runs", {"id": run_id}, limit=1)):
                for job, _ in view.jobs([row["job_id"]]):
                    if caller.project in (None, job.project):
                        return row
        raise NotFound(f"There is no run {run_id!r}.", code="unknown_run")


def _configured(row: Mapping[str, Any], registered: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configured intent, with what only the worker that has its code knows."""
    if "app" in row:
        return {**registered, **row}
    return {
        **row,
        **{name: registered[name] for name in (ARGUMENTS, CRITICS) if name in registered},
    }
