"""The shapes of the installation: queue, health, small tables, tokens. Types only."""

from typing import Any

from typing_extensions import TypedDict


class Queue(TypedDict):
    queueLength: int
    byPriority: dict[str, int]


class HealthReason(TypedDict):
    figure: str
    verdict: str
    text: str


class HealthFigure(TypedDict):
    figure: str
    value: int | None
    limit: int
    within: bool


class Health(TypedDict):
    """The verdict is the worst of its reasons."""

    verdict: str
    reasons: list[HealthReason]
    shown: list[HealthFigure]
    waiting_for_people: int


class LifecycleRow(TypedDict):
    source: str | None
    event: str
    target: str
    who: str
    why: str
    extension: bool
    reopens: bool


class Lifecycle(TypedDict):
    name: str
    title: str
    states: list[str]
    initial: str
    terminal: list[str]
    rows: list[LifecycleRow]
    meanings: dict[str, str]
    looks: dict[str, str]


class Lifecycles(TypedDict):
    lifecycles: list[Lifecycle]


class Resource(TypedDict):
    id: str
    capabilities: list[str]
    labels: dict[str, str]
    capacity: int
    healthy: bool
    in_use: int


class Resources(TypedDict):
    items: list[Resource]


class Worker(TypedDict):
    """A worker as it last registered itself."""

    name: str
    detail: dict[str, Any]


class Workers(TypedDict):
    items: list[Worker]


class Schedule(TypedDict):
    name: str
    detail: dict[str, Any]


class Schedules(TypedDict):
    items: list[Schedule]


class Project(TypedDict):
    """A project with how many tasks it has."""

    name: str
    tasks: int


class Projects(TypedDict):
    items: list[Project]


class Limit(TypedDict):
    """A pause, or how many may run at once under a key."""

    name: str
    paused: bool
    running: int | None


class Limits(TypedDict):
    items: list[Limit]


class Token(TypedDict):
    """What the server knows of a token; never the token itself."""

    name: str
    scopes: list[str]
    project: str | None
    created_at: str
    expires_at: str | None


class Tokens(TypedDict):
    items: list[Token]


class NewToken(TypedDict):
    """The only time that the token is shown."""

    token: str
    name: str
    scopes: list[str]
    project: str | None
    expires_at: str | None


class Revoked(TypedDict):
    name: str
    revoked: int


class LoginCode(TypedDict):
    """A single-use code that is exchanged for a cookie."""

    code: str
    expires_at: str
