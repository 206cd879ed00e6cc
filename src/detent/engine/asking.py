"""What callers hand to the engine and what they get back."""

from typing import Any, NamedTuple

from detent.kernel.commands import Actor, Command, Grant
from detent.kernel.state import Job, Task


class Idempotency(NamedTuple):
    """The same key with the same digest gets the first answer; with another digest it is refused."""

    project: str
    key: str
    digest: str


class Ask(NamedTuple):
    """One command, by whom. `fresh`: the id in it was just made, so nothing can stand under it yet."""

    command: Command
    actor: Actor
    key: Idempotency | None = None
    fresh: bool = False


class Answer(NamedTuple):
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
