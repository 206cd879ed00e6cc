"""Types of the installation: queue, health, lifecycles, limits, tokens and sessions."""

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
    """The health. The verdict is that of the worst reason."""

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
    appearances: dict[str, Appearance]


class MappedState(TypedDict):
    """A state and its equivalents in other protocols. `failed`: no retry is left."""

    lifecycle: str
    state: str
    reason: str | None
    failed: bool
    other: str
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

    name: str
    width: float
    height: float
    boxes: list[DiagramBox]
    arrows: list[DiagramArrow]


class Limit(TypedDict):
    """A pause, a concurrency limit (`running`), or a rate limit (`rate` in `per_s` seconds)."""

    name: str
    paused: bool
    running: int | None
    rate: int | None
    per_s: int | None
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
    """The caller, from the server's record of its token; a null project means all projects."""

    name: str
    scopes: list[str]
    project: str | None


class LoginCode(TypedDict):
    """A single-use code that is exchanged for a session cookie."""

    code: str
    expires_at: str
