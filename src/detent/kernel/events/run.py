"""Events of a run: its state changes and its reports."""

from detent.kernel.events.record import Event, event


@event("run")
class RunQueued(Event):
    worker: str
    fence: int
    attempt: int
    step: str | None = None
    resource: str | None = None


@event("run")
class RunStarted(Event):
    pass


@event("run")
class RunSucceeded(Event):
    """`outcome`: done or suspended; a suspended run names its wait."""

    outcome: str = "done"
    exit_code: int | None = None
    wait: str | None = None
    #: Until when a suspended step keeps its resource.
    held_until: int | None = None
    #: What a suspended run waits for: the kind of its wait.
    reason: str | None = None


@event("run")
class RunFailed(Event):
    error_class: str
    error: str
    exit_code: int | None = None
    #: When a stated rate limit is over.
    reset_at: int | None = None


@event("run")
class RunTimedOut(Event):
    """`limit`: run (the whole attempt) or idle (no output for too long)."""

    limit: str
    error: str


@event("run")
class RunCancelled(Event):
    """`reason`: worker_lost, handed_back, or why its job was cancelled."""

    reason: str


@event("run")
class RunJoined(Event):
    """The agent session that the run begins or continues."""

    session_id: str


@event("run")
class RunCharged(Event):
    """The totals of the run so far. `model`: the language model, if the agent has named it."""

    cost: int
    tokens_in: int = 0
    tokens_out: int = 0
    model: str | None = None


@event("run")
class RunReserved(Event):
    """What the run may cost in total; it is reserved until the run ends."""

    amount: int


@event("run")
class RunProgressed(Event):
    progress: float | None = None
    note: str | None = None


@event("run")
class EvidenceAdded(Event):
    file: str
    kind: str
    sha256: str
    size: int
    media_type: str = "application/octet-stream"
