"""Sets of equal jobs: what is written for each of them, once for all.

A store that supports sets writes many jobs with a fixed number of statements. It decides nothing:
the engine derives what is written from decisions of the kernel. A job is plain if it has no task,
parent, plan, delay, time limit, wait or cancel request, and nothing happened to it but its creation
and at most one claim.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

#: The versions of a plain job's stream: after it was created, and after it was claimed.
CREATED, CLAIMED = 1, 4


class JobSet(NamedTuple):
    """What is written for each job of a set.

    In a text, `commit_body.ID` represents the id of the job. The value `commit_body.VALUE`
    represents the value of the member: the payload of a new job, the result of an ended one.
    """

    #: Columns of the job that change, and of its run; a new job has all, with `lane` and `due_at`.
    job: Mapping[str, Any]
    run: Mapping[str, Any]
    #: The version of the stream before and after, and the template of the events between.
    before: int
    version: int
    template: str


class Member(NamedTuple):
    """A job of a set: its id and its value as JSON text."""

    id: str
    value: str


class PlainRun(NamedTuple):
    """A plain job that is running."""

    id: str
    project: str
    nonce: str
    #: The options as JSON text.
    options: str


class ClaimedRow(NamedTuple):
    """A claimed plain job: the fields that differ between jobs of one set, and the payload."""

    id: str
    intent: str
    priority: str
    rank: int
    queued_at: int
    created_at: int
    concurrency_key: str | None
    payload: Any


class JobSets(Protocol):
    """The operations of a write transaction on sets of plain jobs."""

    def insert(self, jobs: JobSet, members: Sequence[Member]) -> None:
        """Write new jobs that can be claimed now. Refused if one of the ids is in use."""

    def claim(self, jobs: JobSet, ids: Sequence[str], until: int) -> Sequence[ClaimedRow]:
        """Write claims of plain jobs that `claimable` returned, under one lease."""

    def running(self, ids: Sequence[str]) -> Sequence[PlainRun]:
        """The jobs among these that are plain and running."""

    def end(self, jobs: JobSet, members: Sequence[Member]) -> None:
        """Write the ends of jobs that `running` returned."""
