"""The core of an installation: its store, engine, settings and intents, given to operations."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from detent.engine import Engine
from detent.errors import NotFound
from detent.kernel.entities import Job, Task
from detent.kernel.task_lifecycle import Choices, choices
from detent.operations.registry import Caller
from detent.operations.transcript_positions import TranscriptPositions
from detent.provider_config import Provider
from detent.settings import Settings
from detent.store.port import ReadTransaction, Store
from detent.store.types import Query
from detent.submission.checks import check_choice as check_choice
from detent.submission.context import Context
from detent.submission.payload import ARGUMENTS
from detent.submission.plan_checks import CRITICS
from detent.trace_propagation import current_traceparent


@dataclass(slots=True)
class Core:
    """What every operation is given: the store, the engine, the settings and the configuration."""

    store: Store
    engine: Engine
    settings: Settings = field(default_factory=Settings)
    #: Intents of the configuration file, with their options. Workers register theirs in the store.
    intents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Agent command lines of the configuration file, by name.
    agents: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Limits of the configuration file, by name. `save_limits` writes them to the store.
    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    #: Files of lifecycles of the configuration file, by name. `save_lifecycles` installs them.
    lifecycle_files: Mapping[str, Path] = field(default_factory=dict)
    #: Providers of the configuration file, by name. A worker registers them as resources.
    providers: Mapping[str, Provider] = field(default_factory=dict)
    #: Contexts that the gateway keeps for a second. A worker of this process that registers its
    #: intents removes them.
    contexts: dict[Caller, Context] = field(default_factory=dict)
    #: Where parsing of transcripts can continue.
    transcripts: TranscriptPositions = field(default_factory=TranscriptPositions)

    def known_intents(self) -> dict[str, Mapping[str, Any]]:
        """The intents of the configuration file and those that workers have registered."""
        with self.store.read() as view:
            return self._intents(view)

    def _intents(self, view: ReadTransaction) -> dict[str, Mapping[str, Any]]:
        registered = view.rows("intents")
        own = {
            name: _configured(row, registered.get(name, {})) for name, row in self.intents.items()
        }
        return {**registered, **own}

    def lifecycle_choices(self) -> Choices:
        """The lifecycles that a submission can have."""
        with self.store.read() as view:
            return choices(dict(view.lifecycles()))

    def submission_context(self, caller: Caller) -> Context:
        """The context against which the submissions of a caller are checked."""
        with self.store.read() as view:
            intents, lifecycles = self._intents(view), choices(dict(view.lifecycles()))
        where = (caller.actor, caller.project)
        trace = current_traceparent()
        return Context(self.store, self.settings, intents, *where, lifecycles, trace)

    def task(self, caller: Caller, task_id: str) -> tuple[Task, int]:
        """The task and its version; not found if the caller may not see its project."""
        with self.store.read() as view:
            for task, version in view.tasks([task_id]):
                if caller.may_see(task.project):
                    return task, version
        raise NotFound(f"There is no task {task_id!r}.", code="unknown_task")

    def job(self, caller: Caller, job_id: str) -> tuple[Job, int]:
        """The job and its version, if the caller may see it."""
        with self.store.read() as view:
            for job, version in view.jobs([job_id]):
                if caller.may_see(job.project):
                    return job, version
        raise NotFound(f"There is no job {job_id!r}.", code="unknown_job")

    def run(self, caller: Caller, run_id: str) -> Mapping[str, Any]:
        """The row of a run, if the caller may see its job."""
        with self.store.read() as view:
            for row in view.page(Query("runs", {"id": run_id}, limit=1)):
                for job, _ in view.jobs([row["job_id"]]):
                    if caller.may_see(job.project):
                        return row
        raise NotFound(f"There is no run {run_id!r}.", code="unknown_run")


def _configured(row: Mapping[str, Any], registered: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configured intent, with the arguments and critics that its worker has registered."""
    if "app" in row:
        return {**registered, **row}
    return {
        **row,
        **{name: registered[name] for name in (ARGUMENTS, CRITICS) if name in registered},
    }
