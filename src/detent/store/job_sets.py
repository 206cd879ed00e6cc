"""Sets of equal jobs, with their tasks: what is written for each of them, once for all.

A store that supports sets writes many jobs with a fixed number of statements. It decides nothing:
the engine derives what is written from decisions of the kernel.

A job is plain if it has no parent, plan, delay, time limit, wait or cancel request, and nothing
happened to it but its creation, at most one claim, and durable steps after it. Its task, if it has
one, has no parent, dependency, dependent, subtask or budget, and was only created, queued and
started.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from detent.store.types import ClaimFilter

#: How many jobs one claim takes at most: it is one round trip, and one body of a commit.
MAX_CLAIMED = 1_000
#: The versions of a plain job's stream: after it was created, and after it was claimed.
CREATED, CLAIMED = 1, 4
#: How many durable steps a plain job has at most: the ids of all its commits are in its row.
MAX_STEPS = 10
#: The versions of a plain task's stream: after it was queued, and after it was started.
QUEUED, STARTED = 2, 3


class At(NamedTuple):
    """A time: this many microseconds after that of the transaction."""

    offset: int


def resolved(columns: Mapping[str, Any], now: int) -> dict[str, Any]:
    """The columns with times for a transaction at this time."""
    return {
        name: now + value.offset if isinstance(value, At) else value
        for name, value in columns.items()
    }


class JobSet(NamedTuple):
    """What is written for each job of a set, and for its task.

    In a text, `commit_body.ID` represents the id of the member: of the task, or of a job without a
    task. The values `VALUE` and `SECOND` represent those of the member, `At` represents a time.
    """

    #: Columns that change, of the task, the job and its run; new rows have all.
    task: Mapping[str, Any]
    job: Mapping[str, Any]
    run: Mapping[str, Any]
    #: The versions of both streams before and after, and the template of the events between.
    task_versions: tuple[int, int]
    job_versions: tuple[int, int]
    template: str
    #: What the id of the job has after that of the member.
    suffix: str
    #: The number of events for each job.
    events: int
    #: Whether the task ends with its job.
    task_ends: bool = False


class Member(NamedTuple):
    """A job of a set: the id of its task or its own, its value as JSON text, the task's title.

    The value is the payload of new work, or the result of ended work.
    """

    id: str
    value: str
    title: str = ""


class PlainRun(NamedTuple):
    """A plain job that is running. `plain`: see `Candidate`."""

    id: str
    project: str
    nonce: str
    plain: str
    #: The number of its checkpoints, all of durable steps.
    steps: int


class NewCheckpoint(NamedTuple):
    """A checkpoint of a durable step of a plain job."""

    #: The job's id, the name, the kind, the plan step, whether it is done, the JSON text.
    row: tuple[str, str, str, str | None, bool, str]
    #: The version of the job's stream before.
    before: int
    #: The group of its event in the body of a commit.
    text: str


class ClaimedRow(NamedTuple):
    """A claimed plain job: the fields that differ between jobs of one set, and the payload."""

    root_id: str
    intent: str
    priority: str
    rank: int
    queued_at: int
    created_at: int
    concurrency_key: str | None
    payload: Any


class StartedRow(NamedTuple):
    """The task of a claimed plain job: the fields that differ between tasks, and the payload."""

    id: str
    intent: str
    source: str
    priority: str
    created_by: str
    created_at: int
    payload: Any


#: The jobs of a set that were claimed, and their tasks.
ClaimedRows = tuple[Sequence[ClaimedRow], Sequence[StartedRow]]


class Shape(NamedTuple):
    """What the jobs of one set have in common. `plain`: see `Candidate`."""

    project: str
    plain: str


class Taken(NamedTuple):
    """Jobs that were chosen and claimed together, by set, with the time of the transaction."""

    sets: Sequence[ClaimedRows]
    now: int


class JobSets(Protocol):
    """The operations of a write transaction on sets of plain jobs."""

    #: Whether each read is a round trip to a server, so that the engine omits those it can.
    remote: bool

    def insert(self, jobs: JobSet, members: Sequence[Member]) -> None:
        """Write new work that can be claimed now. Refused if one of the ids is in use."""

    def claim(self, jobs: JobSet, ids: Sequence[str], lease_us: int) -> ClaimedRows:
        """Write claims of plain jobs that `claimable` returned, under one lease.

        `ids` are those of the members.
        """

    def take(
        self, wanted: Mapping[Shape, JobSet], claim_filter: ClaimFilter, most: int, lease: int
    ) -> Taken | None:
        """Choose up to `most` jobs by rank, claim them, and commit the transaction.

        Nothing may have been read, locked or written before in the transaction.
        None if nothing was claimed and `claimable` may find something: there are limits, or one of
        the jobs is not plain or has a shape that is not wanted.
        """

    def running(self, ids: Sequence[str]) -> Sequence[PlainRun]:
        """The jobs among these that are plain and running. They were locked before."""

    def recorded(self, keys: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        """The keys of checkpoints among these that there are, by job and name."""

    def record(self, checkpoints: Sequence[NewCheckpoint], nonces: Sequence[str]) -> None:
        """Write checkpoints of plain running jobs: one of each job.

        Refused with `version_conflict` if a job has another version, or is not running under its
        first claim with the nonce that is given for it.
        """

    def end(self, jobs: JobSet, members: Sequence[Member], nonces: Sequence[str]) -> None:
        """Write the ends of plain jobs. Refused with `version_conflict` if one is not running.

        A job is not running if something but durable steps happened after its only claim, with
        the nonce that is given for it; or if its task has a dependent.
        """
