"""The types of the engine's interface: requests, results, claimed jobs."""

from typing import Any, NamedTuple

from detent.kernel.commands import Actor, Command, Grant
from detent.kernel.entities import Job, Task


class Idempotency(NamedTuple):
    """An idempotency key: a repeated key returns the first result, if the digest is the same."""

    project: str
    key: str
    digest: str


class CommandRequest(NamedTuple):
    """A command and its actor.

    `fresh`: the id in the command was just generated, so nothing is loaded for it. With a `grant`
    the command is refused if the grant is not of the latest claim, as a worker's reports are.
    """

    command: Command
    actor: Actor
    key: Idempotency | None = None
    fresh: bool = False
    grant: Grant | None = None


class CommandResult(NamedTuple):
    """The durable result of a command. `repeated`: of an earlier command with the same key."""

    value: Any
    repeated: bool = False


class Claimed(NamedTuple):
    """A job that a worker has claimed."""

    grant: Grant
    job: Job
    task: Task | None
    payload: Any
    lease_until: int

    @property
    def project(self) -> str:
        return self.job.project
