"""The world of a decision: the loaded entities by id, and how an event changes them.

A world may have a base, whose entities it overrides. A draft is a world on top of what was loaded:
it holds the changes of a command and is dropped if the command is refused. The same `apply` folds
the log when rows are rebuilt.
"""

from collections.abc import Iterable
from dataclasses import replace

from detent.errors import Broken
from detent.kernel import events as e
from detent.kernel import lifecycle_document
from detent.kernel.entity_store import (
    CHECKPOINTS,
    COMMENTS,
    RUNS,
    SIGNALS,
    STEPS,
    WAITS,
    EntityStore,
)
from detent.kernel.evolve import (
    evolve_job,
    evolve_limits,
    evolve_run,
    evolve_step,
    evolve_task,
    task_created,
)
from detent.kernel.projections import PROJECTIONS

__all__ = ["CHECKPOINTS", "COMMENTS", "RUNS", "SIGNALS", "STEPS", "WAITS", "World"]


class World(EntityStore):
    """Entities, and the events that change them."""

    def apply(self, record: e.Record) -> None:
        """Apply one event to the entity of its level and to the parts that change with it."""
        event = record.event
        level = event.level
        stream, subject = record.stream, record.subject
        if level == "job":
            self.jobs[stream] = evolve_job(self.find_job(stream), record)
        elif level == "task":
            self._apply_to_task(record)
        elif level == RUNS and subject is not None:
            run = evolve_run(self.part(RUNS, stream, subject), record)
            self.put_part(RUNS, stream, subject, run)
        elif level == STEPS and subject is not None:
            self.put_step(stream, subject, evolve_step(self.part(STEPS, stream, subject), record))
        elif level == "lifecycle":
            self._install(record)
        elif level == "limit":
            self.limits.update(evolve_limits(self.known_limits(), record))
        project = PROJECTIONS.get(type(event))
        if project is not None:
            project(self, record, event)

    def _apply_to_task(self, record: e.Record) -> None:
        task, event = self.find_task(record.stream), record.event
        if task is not None:
            self.tasks[record.stream] = evolve_task(self.lifecycle(task), task, record)
        elif isinstance(event, e.TaskCreated):
            lifecycle = self.lifecycle_of(event.lifecycle)
            self.tasks[record.stream] = task_created(lifecycle, record, event)
        else:
            raise Broken(
                f"the stream of task {record.stream} begins with {event.name}, not with "
                "task_created"
            )

    def _install(self, record: e.Record) -> None:
        """Add or remove a lifecycle."""
        name, event = record.subject or "", record.event
        known = dict(self.lifecycles)
        if isinstance(event, e.LifecycleInstalled):
            known[name] = lifecycle_document.read(event.document)
            self.installed[name] = {"document": event.document, "at": record.at}
        else:
            known[name] = replace(known[name], removed=True)
            self.installed[name] = {**self.installed_row(name), "removed": True}
        self.lifecycles = known

    def merge(self, draft: "World", records: Iterable[e.Record]) -> None:
        """Take over the changes of a draft; later commands see them."""
        if draft.tasks:
            self.tasks.update(draft.tasks)
        if draft.jobs:
            self.jobs.update(draft.jobs)
        if draft.installed:
            self.installed.update(draft.installed)
            self.lifecycles = draft.lifecycles
        if draft.plans or draft.gone or draft.limits:
            self.plans.update(draft.plans)
            self.gone.update(draft.gone)
            self.limits.update(draft.limits)
        for key, changes in draft.parts.items():
            own = self.parts.get(key)
            merged = changes if own is None else {**own, **changes}
            if None in merged.values():
                merged = {name: part for name, part in merged.items() if part is not None}
            self.parts[key] = merged
        for resource, change in draft.usage.items():
            self.usage[resource] = self.usage.get(resource, 0) + change
        for name, health in draft.health.items():
            self.resources[name] = self.resources[name]._replace(health=health)
        for record in records:
            self.versions[record.stream] = self.versions.get(record.stream, 0) + 1
            self.relate(record)

    def relate(self, record: e.Record) -> None:
        """Record the parent and the dependencies of a new task or job."""
        event = record.event
        if isinstance(event, e.TaskCreated):
            for dependency in event.depends_on:
                _add(self.dependents, dependency, record.stream)
            _add(self.children, event.parent_id, record.stream)
        elif isinstance(event, e.JobCreated):
            _add(self.children, event.parent_job_id, record.stream)


def _add(related: dict[str, tuple[str, ...]], to: str | None, new: str) -> None:
    if to is not None:
        related[to] = (*related.get(to, ()), new)
