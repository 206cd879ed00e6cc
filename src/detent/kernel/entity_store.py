"""Entities by id in memory: loaded tasks and jobs, and the parts of jobs."""

from collections.abc import Mapping
from typing import Any

from detent.errors import NotFound
from detent.kernel.entities import NOTHING, Health, Job, Resource, Step, Task
from detent.kernel.plan import Plan
from detent.kernel.task_lifecycle import TaskLifecycle, TaskLifecycles, known

#: The kinds of parts of a job, by the level of the events that change them.
RUNS, STEPS, WAITS, SIGNALS, CHECKPOINTS = "run", "step", "wait", "signal", "checkpoint"
#: The kind of the comments of a task, which are its only parts.
COMMENTS = "comment"


NO_LIFECYCLES: TaskLifecycles = {}


class EntityStore:
    """Tasks and jobs by id, and the parts of jobs by kind, job id and name.

    Parts are runs, steps, waits, signals and checkpoints. Comments are parts of a task.
    """

    def __init__(
        self, base: "EntityStore | None" = None, lifecycles: TaskLifecycles = NO_LIFECYCLES
    ) -> None:
        self.base = base
        #: The lifecycles of tasks, by the id that a task has.
        self.lifecycles: TaskLifecycles = lifecycles if base is None else base.lifecycles
        #: Rows of installed lifecycles, by id.
        self.installed: dict[str, Mapping[str, Any]] = {}
        #: Lifecycles that were looked up. What an id means never changes.
        self._used: dict[str, TaskLifecycle] = {} if base is None else base._used
        self.tasks: dict[str, Task] = {}
        self.jobs: dict[str, Job] = {}
        #: Entities by (kind, job or task id) and name; None is a part that was removed.
        self.parts: dict[tuple[str, str], dict[str, Any]] = {}
        #: The current plan of a job.
        self.plans: dict[str, Plan] = {}
        #: How many steps hold each resource; with a base, how many more.
        self.usage: dict[str, int] = {}
        #: The changed health of providers. It is not part of the log.
        self.health: dict[str, Health] = {}
        #: Tasks and jobs that were deleted: lookups do not find them.
        self.gone: dict[str, None] = {}
        #: Pauses and limits by name; None is one that has ended.
        self.limits: dict[str, Mapping[str, Any] | None] = {}
        if base is None:
            #: How many events each stream has.
            self.versions: dict[str, int] = {}
            #: Dependents of a task; subtasks of a task and child jobs of a job.
            self.dependents: dict[str, tuple[str, ...]] = {}
            self.children: dict[str, tuple[str, ...]] = {}
            self.resources: dict[str, Resource] = {}
            #: How many tasks have a lifecycle, by id.
            self.tasks_of_lifecycles: Mapping[str, int] = {}
        else:
            self.versions = base.versions
            self.dependents = base.dependents
            self.children = base.children
            self.resources = base.resources
            self.tasks_of_lifecycles = base.tasks_of_lifecycles

    # -- lookups -------------------------------------------------------------------------------

    def find_task(self, task_id: str) -> Task | None:
        if task_id in self.gone:
            return None
        task = self.tasks.get(task_id)
        return self.base.find_task(task_id) if task is None and self.base is not None else task

    def find_job(self, job_id: str) -> Job | None:
        if self.gone and job_id in self.gone:
            return None
        job = self.jobs.get(job_id)
        return self.base.find_job(job_id) if job is None and self.base is not None else job

    def known_tasks(self) -> list[Task]:
        """Return every task that was loaded or created."""
        below = {} if self.base is None else self.base.tasks
        found = {**below, **self.tasks}
        return [task for task in found.values() if task.id not in self.gone]

    def installed_row(self, lifecycle_id: str) -> Mapping[str, Any]:
        row = self.installed.get(lifecycle_id)
        if row is None and self.base is not None:
            return self.base.installed_row(lifecycle_id)
        return {} if row is None else row

    def lifecycle(self, task: Task) -> TaskLifecycle:
        """Return the lifecycle of a task, in the version that it follows."""
        return self._used.get(task.lifecycle) or self.lifecycle_of(task.lifecycle)

    def lifecycle_of(self, lifecycle_id: str) -> TaskLifecycle:
        found = self._used[lifecycle_id] = known(self.lifecycles, lifecycle_id)
        return found

    def known_limits(self) -> dict[str, Mapping[str, Any]]:
        """Return the pauses and limits that hold, by name."""
        below = {} if self.base is None else self.base.limits
        found = {**below, **self.limits}
        return {name: row for name, row in found.items() if row is not None}

    def task(self, task_id: str) -> Task:
        task = self.find_task(task_id)
        if task is None:
            raise NotFound(f"There is no task {task_id}.", code="unknown_task")
        return task

    def job(self, job_id: str) -> Job:
        job = self.find_job(job_id)
        if job is None:
            raise NotFound(f"There is no job {job_id}.", code="unknown_job")
        return job

    def ancestors(self, task: Task) -> list[Task]:
        """Return its parent, its parent's parent, up to the root."""
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

    def known_resources(self) -> list[Resource]:
        """Return every resource with its present health."""
        if not self.health:
            return list(self.resources.values())
        return [
            each._replace(health=self.health.get(each.id, each.health))
            for each in self.resources.values()
        ]

    def users_of(self, service: str | None) -> int:
        """Return how many steps hold a provider of the service."""
        known = self.resources.values()
        return sum(self.in_use(each.id) for each in known if each.service == service)

    # -- changes -------------------------------------------------------------------------------

    def put_part(self, kind: str, job_id: str, name: str, entity: Any) -> None:
        key = (kind, job_id)
        own = self.parts.get(key)
        if own is None:
            self.parts[key] = {name: entity}
        else:
            own[name] = entity

    def put_step(self, job_id: str, name: str, step: Step | None) -> None:
        """Store a step, and count the resource that it holds."""
        before: Step | None = self.part(STEPS, job_id, name)
        for each, change in ((before, -1), (step, 1)):
            if each is not None and each.resource is not None:
                self.usage[each.resource] = self.usage.get(each.resource, 0) + change
        self.put_part(STEPS, job_id, name, step)
