"""What all commands share: the actor, the grant of a claim, and the base classes."""

from typing import NamedTuple


class Actor(NamedTuple):
    """Who issues a command. For an agent, `root_id` is the root of the tree of its run."""

    name: str
    root_id: str | None = None


def run_subject(run_id: str, root_id: str) -> str:
    """Return the actor name of a run. Ids contain no `@`, so the root id can be parsed from it."""
    return f"run:{run_id}@{root_id}"


class Grant(NamedTuple):
    """The result of a claim: the right to report about one job until its next claim."""

    job_id: str
    fence: int
    nonce: str


class Command:
    """The base class of all commands."""

    __slots__ = ()


class TaskCommand(Command):
    """A command about one task."""

    __slots__ = ()
    task_id: str


class JobCommand(Command):
    """A command about one job."""

    __slots__ = ()
    job_id: str


class Report(Command):
    """A report of a worker. It is refused if its grant is not of the latest claim."""

    __slots__ = ()
    grant: Grant
