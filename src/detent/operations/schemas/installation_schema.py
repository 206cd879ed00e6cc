"""Types of the installation: queue, health, lifecycles, limits, tokens and sessions."""

from typing import Any, Literal

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
    limit: int | None
    within: bool


class HealthGroup(TypedDict):
    """Figures that belong together. The verdict is that of the worst of them."""

    verdict: str
    reasons: list[HealthReason]


class Health(TypedDict):
    """The health. The verdict is that of the worst reason.

    `system` has the figures of gateway, store, keeper, workers and queue; `work` has those of the
    work that people gave it.
    """

    verdict: str
    reasons: list[HealthReason]
    shown: list[HealthFigure]
    waiting_for_people: int
    system: HealthGroup
    work: HealthGroup


class LifecycleRow(TypedDict):
    source: str | None
    event: str
    target: str
    who: str
    why: str
    extension: bool
    reopens: bool


class LifecycleRule(TypedDict):
    """The events that a task gets after something happens to its job.

    `states` is empty if the rule applies in all states. The first rule that applies is followed.
    """

    when: str
    states: list[str]
    given: list[str]
    then: list[str]


class LifecycleTimer(TypedDict):
    """The event that a task gets after a time in a state."""

    state: str
    after_s: int
    event: str


class LifecycleRounds(TypedDict):
    """The events that count a round, and the number after which they are refused."""

    events: list[str]
    limit: int | None


class Lifecycle(TypedDict):
    """A table of transitions. What follows `looks` is empty unless it is a lifecycle of tasks."""

    #: What a task's `lifecycle` is: the name, or `name@version` after the first version.
    id: str
    kind: Literal["task", "job", "step", "run"]
    name: str
    version: int
    #: Whether it is a part of detent.
    shipped: bool
    title: str
    states: list[str]
    initial: str
    terminal: list[str]
    rows: list[LifecycleRow]
    meanings: dict[str, str]
    looks: dict[str, str]
    #: By state, what the task's job does.
    phases: dict[str, str]
    #: By state, how the work ended; live states are missing.
    endings: dict[str, str]
    #: By state, the title of its column on the board, if it has one of its own.
    columns: dict[str, str]
    waits_for_person: list[str]
    #: The events that create a job.
    queues: list[str]
    rules: list[LifecycleRule]
    timers: list[LifecycleTimer]
    rounds: LifecycleRounds
    default_for: list[str]


class Appearance(TypedDict):
    """The appearance of a kind of state: its shape, its glyph and its two colours."""

    shape: str
    glyph: str
    terminal: str
    ink: str
    paper: str


class Lifecycles(TypedDict):
    """The lifecycles, and by kind of state its appearance."""

    lifecycles: list[Lifecycle]
    #: By entry point (`add`, `submit`, `schedule`), the id of the lifecycle that it uses.
    defaults: dict[str, str]
    #: By id, the number of tasks, if it was asked for.
    tasks: dict[str, int] | None
    appearances: dict[str, Appearance]


class LifecycleSearch(TypedDict):
    """A search of the states that tasks can reach; `exhausted`: all of them were visited."""

    states: int
    max_states: int
    depth: int
    exhausted: bool


class LifecycleDocument(TypedDict):
    """The document of a lifecycle of tasks, with the fields of its TOML file."""

    id: str
    document: dict[str, Any]


class InstalledLifecycle(TypedDict):
    """An installed lifecycle. `changed` is false if the same document was installed before."""

    id: str
    name: str
    version: int
    changed: bool
    search: LifecycleSearch | None


class RemovedLifecycle(TypedDict):
    """The ids of all versions that were removed."""

    name: str
    removed: list[str]


class StrandedTask(TypedDict):
    """A task whose state the newest version has not, and which stays on its version."""

    id: str
    state: str
    lifecycle: str


class Migrated(TypedDict):
    """How many tasks continue under the newest version; `next` is null after the last ones."""

    lifecycle: str
    dry_run: bool
    migrated: int
    stranded: list[StrandedTask]
    next: str | None


class MappedState(TypedDict):
    """A state and its equivalents in other protocols. `failed`: no retry is left."""

    lifecycle: str
    state: str
    reason: str | None
    failed: bool
    other: str | None
    mcp: str
    a2a: str


class Mapping(TypedDict):
    items: list[MappedState]


class DiagramBox(TypedDict):
    """A state in the diagram; the one without a name is the start."""

    state: str
    x: float
    y: float
    width: float
    height: float
    loops: list[str]


class DiagramArrow(TypedDict):
    """The transitions between two states as one arrow: an SVG path, and the centre of its label."""

    source: str | None
    target: str
    extension: bool
    events: list[str]
    path: str
    x: float
    y: float


class Diagram(TypedDict):
    """The diagram of a lifecycle, in coordinates."""

    id: str
    name: str
    width: float
    height: float
    boxes: list[DiagramBox]
    arrows: list[DiagramArrow]


class Limit(TypedDict):
    """A pause, a concurrency limit (`running`), or a rate limit (`rate` in `per_s` seconds).

    Of a project also its weight and its quotas.
    """

    name: str
    paused: bool
    running: int | None
    rate: int | None
    per_s: int | None
    weight: int | None
    submit_rate: int | None
    submit_per_s: int | None
    stored_bytes: int | None
    cost_per_day_usd: float | None
    in_file: bool
    #: For a pause that a person began: who, when and why.
    paused_by: str | None
    paused_at: str | None
    paused_until: str | None
    reason: str | None


class Limits(TypedDict):
    items: list[Limit]


class Token(TypedDict):
    """A token without its secret."""

    name: str
    scopes: list[str]
    project: str | None
    created_at: str
    expires_at: str | None


class Tokens(TypedDict):
    items: list[Token]


class NewToken(TypedDict):
    """A new token. The secret is shown only here."""

    token: str
    name: str
    scopes: list[str]
    project: str | None
    expires_at: str | None


class Revoked(TypedDict):
    name: str
    revoked: int


class Session(TypedDict):
    """A browser session; `token` is the name of the token that it belongs to.

    `current` is true for the session that makes the request.
    """

    id: str
    token: str
    project: str | None
    created_at: str
    expires_at: str
    current: bool


class Sessions(TypedDict):
    items: list[Session]


class EndedSession(TypedDict):
    id: str
    ended: bool


class Me(TypedDict):
    """The caller, from the server's record of its token; a null project means all projects.

    `projects` are those in which the session of a person can continue, null for all together; a
    token has none. `version` is the release of detent that the gateway runs.
    """

    name: str
    scopes: list[str]
    project: str | None
    projects: list[str | None]
    version: str


class User(TypedDict):
    """A person who has signed in through the provider, with the roles that the settings give."""

    name: str
    groups: list[str]
    roles: list[str]
    sessions: int
    created_at: str
    signed_in_at: str


class Users(TypedDict):
    items: list[User]


class RemovedUser(TypedDict):
    name: str
    ended_sessions: int


class SignInMethods(TypedDict):
    """How people can sign in: `oidc` is the label of the provider, or null if there is none."""

    oidc: str | None


class Login(TypedDict):
    """The token of a person's command line. The response is the only copy."""

    token: str
    name: str
    project: str | None
    expires_at: str


class LoginCode(TypedDict):
    """A single-use code that is exchanged for a session cookie."""

    code: str
    expires_at: str
