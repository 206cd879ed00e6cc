"""Types of what operators manage: resources, workers, schedules, projects and statistics.

Times are UTC strings, durations are in seconds, money is in dollars.
"""

from typing import Any

from typing_extensions import TypedDict

from detent.operations.schemas.installation_schema import Limit


class Holder(TypedDict):
    """A step that holds a resource."""

    job_id: str
    step: str
    since: str


class Breaker(TypedDict):
    """The circuit breaker of a service: `closed`, `open` or `half_open`."""

    state: str
    #: Failures in a row.
    failures: int
    open_until: str | None


class ProviderUsage(TypedDict):
    """Runs that ended today (UTC), with their tokens and cost."""

    runs: int
    rate_limits: int
    tokens_in: int
    tokens_out: int
    cost_usd: float


class Provider(TypedDict):
    """What is known about a provider. `state`: available, limited, open, half_open, unhealthy."""

    service: str
    personal: bool
    state: str
    limited_until: str | None
    #: Whether the provider stated the end of its rate limit.
    reset_stated: bool
    breaker: Breaker
    error: str | None
    failed_at: str | None
    today: ProviderUsage


class Resource(TypedDict):
    """A resource, which steps hold while they run. A drained one is given to no further step."""

    id: str
    capabilities: list[str]
    labels: dict[str, str]
    capacity: int
    healthy: bool
    drained: bool
    built_in: bool
    in_use: int
    holders: list[Holder]
    #: Null if the resource has no service.
    provider: Provider | None


class Resources(TypedDict):
    items: list[Resource]


class Ids(TypedDict):
    """The ids that match a text; `more`: there are others."""

    items: list[str]
    more: bool


class Removed(TypedDict):
    """The name of what was deleted."""

    name: str
    removed: bool


class Held(TypedDict):
    """A job that a worker holds."""

    job_id: str
    task_id: str | None
    intent: str
    since: str


class Worker(TypedDict):
    """A worker: its intents, the jobs that it holds, and the time of its last heartbeat."""

    name: str
    host: str | None
    pid: int | None
    seen_at: str | None
    alive: bool
    draining: bool
    concurrency: int | None
    #: The slots that it uses now: fewer than `concurrency` while its machine is short of memory.
    slots: int | None
    intents: list[str]
    running: list[Held]


class Workers(TypedDict):
    items: list[Worker]


class Drained(TypedDict):
    """Whether a worker is draining."""

    name: str
    draining: bool


class Schedule(TypedDict):
    """A schedule. It has exactly one of `cron` and `every_s`."""

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
    anchor_at: str | None
    next_at: str | None
    last_at: str | None
    last_task: str | None


class Schedules(TypedDict):
    items: list[Schedule]


class Triggered(TypedDict):
    """The task that a schedule submitted when it was triggered."""

    name: str
    task_id: str


class Times(TypedDict):
    """The next times of a schedule."""

    name: str
    times: list[str]


class Project(TypedDict):
    """A project with its number of tasks and its weight among projects."""

    name: str
    tasks: int
    weight: int


class Projects(TypedDict):
    items: list[Project]


class ProjectUsage(TypedDict):
    """What a project has used of its quotas; None where nothing is counted without a quota."""

    #: The cost of its runs since midnight UTC.
    cost_today_usd: float
    #: Submissions in the present window of time.
    submissions: int | None
    stored_bytes: int | None


class ProjectCounts(TypedDict):
    """A project with its tasks and jobs counted by state, its limits, and what it has used."""

    name: str
    paused: bool
    tasks: dict[str, int]
    jobs: dict[str, int]
    limits: Limit
    used: ProjectUsage


class KnownIntent(TypedDict):
    """An intent, its kind, and where it is defined: configuration, worker."""

    name: str
    kind: str
    origins: list[str]
    paused: bool
    workers: int
    #: The JSON Schema of its payload; null if its handler declares no arguments.
    arguments: dict[str, Any] | None


class KnownIntents(TypedDict):
    items: list[KnownIntent]


class DayCost(TypedDict):
    day: str
    cost: float
    runs: int


class Durations(TypedDict):
    """Durations of the runs that were read, in seconds; null without runs."""

    p50_s: float | None
    p95_s: float | None
    mean_s: float | None


class Stats(TypedDict):
    """Statistics over a window. `partial`: there were more runs than were read."""

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
    """A manual run, and until when the caller holds it."""

    id: str
    job_id: str
    task_id: str | None
    held_until: str
