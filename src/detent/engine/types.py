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


class PendingResults:
    """The results of commands that the engine executes in its next batch.

    A thread that wants them calls `Engine.serve` first: until then there is nothing to wait for.
    So this needs no lock of its own, which a `concurrent.futures.Future` has.
    """

    __slots__ = ("_done", "_error", "_results")

    def __init__(self) -> None:
        self._done = False
        self._error: BaseException | None = None
        self._results: list[Any] = []

    def done(self) -> bool:
        """Whether the commands were executed, or could not be."""
        return self._done

    def result(self) -> list[Any]:
        """A CommandResult or an error for each command; raises if the batch failed."""
        assert self._done, "the engine has not executed these commands yet: call serve first"
        if self._error is not None:
            raise self._error
        return self._results

    def set_result(self, results: list[Any]) -> None:
        self._results = results
        self._done = True

    def set_exception(self, error: BaseException) -> None:
        self._error = error
        self._done = True


class Claimed(NamedTuple):
    """A job that a worker has claimed."""

    grant: Grant
    job: Job
    task: Task | None
    payload: Any
    lease_until: int
