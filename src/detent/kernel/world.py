"""What a decision may look at and what it changes: entities by id, and how an event moves them.

A world lies over a base or over nothing. A draft is a world over what was loaded: it takes a
command's changes and is dropped if the command is refused. The same `apply` folds the log when
rows are rebuilt.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from detent.errors import NotFound
from detent.kernel import events as e
from detent.kernel.entities import NOTHING, Job, Resource, Step, Task
from detent.kernel.evolve import evolve_job, evolve_limits, evolve_run, evolve_step, evolve_task
from detent.kernel.plan import Plan
from detent.kernel.projections import ALSO, CHECKPOINTS, RUNS, SIGNALS, STEPS, WAITS

__all__ = ["CHECKPOINTS", "RUNS", "SIGNALS", "STEPS", "WAITS", "World"]


class World:
    """Entities by id. Parts of a job (its runs, steps, waits, signals, checkpoints) are found by
    kind, job and name.
    """

    def __init__(self, base: "World | None" = None) -> None:
        self.base = base
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        #: (kind, job id) to name to entity; None is a part that was dropped.
        self.parts: dict[tuple[str, str], dict[str, Any]] = {}
        #: The current plan of a job.
        self.plans: dict[str, Plan] = {}
        #: How many steps hold each resource; over a base, how many more.
        self.usage: dict[str, int] = {}
        #: Tasks and jobs that were deleted: nobody finds them any more.
        self.gone: dict[str, None] = {}
        #: Pauses and limits by name; None is one that has ended.
        self.limits: dict[str, Mapping[str, Any] | None] = {}
        if base is None:
            #: How many events each stream has.
            self.versions: dict[str, int] = {}
            #: Tasks that wait for a task; subtasks of a task, and jobs below a job.
            self.dependents: dict[str, tuple[str, ...]] = {}
            self.children: dict[str, tuple[str, ...]] = {}
            self.resources: dict[str, Resource] = {}
        else:
            self.versions = base.versions
            self.dependents = base.dependents
            self.children = base.children
            self.resources = base.resources

    # -- looking -------------------------------------------------------------------------------

    def find_task(self, task_id: str) -> Task | None:
        if task_id in self.gone:
            return None
        task = self.tasks.get(task_id)
        return self.base.find_task(task_id) if task is None and self.base is not None else task

    def find_job(self, job_id: str) -> Job | None:
        if job_id in self.gone:
            return None
        job = self.jobs.get(job_id)
        return self.base.find_job(job_id) if job is None and self.base is not None else job

    def known_tasks(self) -> list[Task]:
        """Every task that was loaded or made."""
        below = {} if self.base is None else self.base.tasks
        found = {**below, **self.tasks}
        return [task for task in found.values() if task.id not in self.gone]

    def task(self, task_id: str) -> Task:
        task = self.find_task(task_id)
        if task is None:
            raise NotFound(f"there is no task {task_id}", code="unknown_task")
        return task

    def job(self, job_id: str) -> Job:
        job = self.find_job(job_id)
        if job is None:
            raise NotFound(f"there is no job {job_id}", code="unknown_job")
        return job

    def ancestors(self, task: Task) -> list[Task]:
        """Its parent, its parent's parent, up to the root."""
        found = []
        parent_id = task.parent_id
        while parent_id is not None:
            parent = self.task(parent_id)
            found.append(parent)
            parent_id = parent.parent_id
        return found

    def part(self, kind: str, job_id: str, name: str) -> Any:
        key = (kind, job_id)
        own = self.parts.get(key)
        if own is not None and name in own:
            return own[name]
        return None if self.base is None else self.base.parts.get(key, NOTHING).get(name)

    def parts_of(self, kind: str, job_id: str) -> dict[str, Any]:
        key = (kind, job_id)
        below = NOTHING if self.base is None else self.base.parts.get(key, NOTHING)
        own = self.parts.get(key, NOTHING)
        if not below and not own:
            return {}
        return {name: part for name, part in {**below, **own}.items() if part is not None}

    def plan(self, job_id: str) -> Plan:
        known = self.plans if job_id in self.plans or self.base is None else self.base.plans
        return known[job_id]

    def in_use(self, resource: str) -> int:
        below = 0 if self.base is None else self.base.usage.get(resource, 0)
        return below + self.usage.get(resource, 0)

    def known_limits(self) -> dict[str, Mapping[str, Any]]:
        """The pauses and limits that hold, by name."""
        below = {} if self.base is None else self.base.limits
        found = {**below, **self.limits}
        return {name: row for name, row in found.items() if row is not None}

    # -- changing ------------------------------------------------------------------------------

    def put_part(self, kind: str, job_id: str, name: str, entity: Any) -> None:
        key = (kind, job_id)
        own = self.parts.get(key)
        if own is None:
            self.parts[key] = {name: entity}
        else:
            own[name] = entity

    def put_step(self, job_id: str, name: str, step: Step | None) -> None:
        """A step takes or frees its resource by changing."""
        before: Step | None = self.part(STEPS, job_id, name)
        for each, change in ((before, -1), (step, 1)):
            if each is not None and each.resource is not None:
                self.usage[each.resource] = self.usage.get(each.resource, 0) + change
        self.put_part(STEPS, job_id, name, step)

    def apply(self, record: e.Record) -> None:
        """Project one event onto the entity of its level and onto what hangs together with it."""
        event = record.event
        level = event.level
        stream, subject = record.stream, record.subject
        if level == "job":
            self.jobs[stream] = evolve_job(self.find_job(stream), record)
        elif level == "task":
            self.tasks[stream] = evolve_task(self.find_task(stream), record)
        elif level == RUNS and subject is not None:
            run = evolve_run(self.part(RUNS, stream, subject), record)
            self.put_part(RUNS, stream, subject, run)
        elif level == STEPS and subject is not None:
            self.put_step(stream, subject, evolve_step(self.part(STEPS, stream, subject), record))
        elif level == "limit":
            self.limits.update(evolve_limits(self.known_limits(), record))
        also = ALSO.get(type(event))
        if also is not None:
            also(self, record, event)

    def merge(self, draft: "World", records: Iterable[e.Record]) -> None:
        """Take over what a draft has decided; the commands after it see its changes."""
        self.tasks.update(draft.tasks)
        self.jobs.update(draft.jobs)
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
        for record in records:
            self.versions[record.stream] = self.versions.get(record.stream, 0) + 1
            self.relate(record)

    def relate(self, record: e.Record) -> None:
        """Note who waits for whom and who belongs to whom, once a new task or job is certain."""
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
