"""The shapes of the installation: queue, health, small tables, tokens. Types only."""

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


class Appearance(TypedDict):
    """How a look is shown: a shape by name, its glyph, and ink on paper."""

    shape: str
    glyph: str
    terminal: str
    ink: str
    paper: str


class Lifecycles(TypedDict):
    """The tables, and by look of a state how it appears."""

    lifecycles: list[Lifecycle]
    appearances: dict[str, Appearance]


class MappedState(TypedDict):
    """A state as it looks elsewhere. `failed`: no retry is left."""

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
    """A state where it stands; the one without a name is where creation comes from."""

    state: str
    x: float
    y: float
    width: float
    height: float
    loops: list[str]


class DiagramArrow(TypedDict):
    """Rows with the same ends as one arrow: an SVG path, and the middle of its label."""

    source: str | None
    target: str
    extension: bool
    events: list[str]
    path: str
    x: float
    y: float


class Diagram(TypedDict):
    """A lifecycle drawn, as numbers."""

    name: str
    width: float
    height: float
    boxes: list[DiagramBox]
    arrows: list[DiagramArrow]


class Limit(TypedDict):
    """A pause, how many may run at once under a key, or how many may start in `per_s` seconds."""

    name: str
    paused: bool
    running: int | None
    rate: int | None
    per_s: int | None
    in_file: bool
    #: Of a pause that a person began: who, when and why.
    paused_by: str | None
    paused_at: str | None
    reason: str | None


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


class Session(TypedDict):
    """A browser's session; `token` is the name of the token that it belongs to."""

    id: str
    token: str
    project: str | None
    created_at: str
    expires_at: str


class Sessions(TypedDict):
    items: list[Session]


class EndedSession(TypedDict):
    id: str
    ended: bool


class Me(TypedDict):
    """Who asks, as the server's record of the token says; without a project, all of them."""

    name: str
    scopes: list[str]
    project: str | None


class LoginCode(TypedDict):
    """A single-use code that is exchanged for a cookie."""

    code: str
    expires_at: str
