"""What callers hand to the engine and what they get back."""

from typing import Any, NamedTuple

from detent.kernel.commands import Actor, Command, Grant
from detent.kernel.entities import Job, Task


class Idempotency(NamedTuple):
    """The same key and digest get the first answer; another digest is refused."""

    project: str
    key: str
    digest: str


class CommandRequest(NamedTuple):
    """One command, by whom. `fresh`: its id was just made, so nothing stands under it yet.

    With a `grant` it counts only while that grant holds, as a worker's own reports do.
    """

    command: Command
    actor: Actor
    key: Idempotency | None = None
    fresh: bool = False
    grant: Grant | None = None


class CommandResult(NamedTuple):
    """A command that was decided and is durable. `repeated`: an earlier one with this key was."""

    value: Any
    repeated: bool = False


class Claimed(NamedTuple):
    """A job in a worker's hands."""

    grant: Grant
    job: Job
    task: Task | None
    payload: Any
    lease_until: int
