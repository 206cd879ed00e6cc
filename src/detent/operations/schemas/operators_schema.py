"""The shapes of what operators keep: resources, workers, schedules, figures. Types only.

Times are UTC texts, durations seconds, money dollars.
"""

from typing import Any

from typing_extensions import TypedDict


class Holder(TypedDict):
    """A step that holds a resource."""

    job_id: str
    step: str
    since: str


class Resource(TypedDict):
    """What steps hold while they run. A drained one is given to nobody any more."""

    id: str
    capabilities: list[str]
    labels: dict[str, str]
    capacity: int
    healthy: bool
    drained: bool
    built_in: bool
    in_use: int
    holders: list[Holder]


class Resources(TypedDict):
    items: list[Resource]


class Removed(TypedDict):
    """What was removed, by its name."""

    name: str
    removed: bool


class Held(TypedDict):
    """A job in a worker's hands."""

    job_id: str
    task_id: str | None
    intent: str
    since: str


class Worker(TypedDict):
    """A worker: what it can do, what it holds, and when it was last heard of."""

    name: str
    host: str | None
    pid: int | None
    seen_at: str | None
    alive: bool
    draining: bool
    concurrency: int | None
    intents: list[str]
    running: list[Held]


class Workers(TypedDict):
    items: list[Worker]


class Drained(TypedDict):
    """Whether a worker is kept from claiming."""

    name: str
    draining: bool


class Schedule(TypedDict):
    """What is submitted, and when. Exactly one of `cron` and `every_s` is given."""

    name: str
    intent: str
    cron: str | None
    timezone: str
    every_s: int | None
    overlap: str
    missed: str
    paused: bool
    lifecycle: str
    project: str | None
    priority: str
    payload: Any
    options: dict[str, Any]
    not_before: str | None
    next_at: str | None
    last_at: str | None
    last_task: str | None


class Schedules(TypedDict):
    items: list[Schedule]


class Triggered(TypedDict):
    """The task that a schedule made out of its turn."""

    name: str
    task_id: str


class Times(TypedDict):
    """The next times of a schedule."""

    name: str
    times: list[str]


class Project(TypedDict):
    """A project with how many tasks it has."""

    name: str
    tasks: int


class Projects(TypedDict):
    items: list[Project]


class ProjectCounts(TypedDict):
    """A project with its tasks and jobs, counted by state."""

    name: str
    paused: bool
    tasks: dict[str, int]
    jobs: dict[str, int]


class KnownIntent(TypedDict):
    """An intent, how it is carried out, and whence it is known: configuration, worker."""

    name: str
    kind: str
    origins: list[str]
    paused: bool
    workers: int


class KnownIntents(TypedDict):
    items: list[KnownIntent]


class DayCost(TypedDict):
    day: str
    cost: float
    runs: int


class Durations(TypedDict):
    """Seconds, over the runs that were looked at; null without any."""

    p50_s: float | None
    p95_s: float | None
    mean_s: float | None


class Stats(TypedDict):
    """Figures over a window. `partial`: there were more runs than are looked at."""

    hours: int
    ended: int
    per_hour: float
    by_state: dict[str, int]
    success_rate: float | None
    durations: Durations
    cost_per_day: list[DayCost]
    queued: int
    oldest_queued_s: float | None
    looked_at: int
    partial: bool


class StateValues(TypedDict):
    """The rows of `system_state` by name."""

    values: dict[str, Any]


class BegunRun(TypedDict):
    """A run that a person began by hand, and until when it is theirs."""

    id: str
    job_id: str
    task_id: str | None
    held_until: str
