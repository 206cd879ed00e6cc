"""RunInfo: the attributes that Run and AsyncRun have in common."""

from collections.abc import Mapping
from typing import Any

from detent.app.effects import effect_key
from detent.app.journal import Journal


class RunInfo:
    """The attributes of a run. Run and AsyncRun have them."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._client = journal.client

    @property
    def id(self) -> str:
        """The id of this run. A job that waits or is retried has several runs."""
        return self._journal.run.run_id

    @property
    def job_id(self) -> str:
        """The id of the job that this run belongs to."""
        return self._journal.grant.job_id

    @property
    def task_id(self) -> str | None:
        """The id of the task; None for a job that was submitted without one."""
        return self._journal.run.held.job.task_id

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1. A run that continues after a wait has the same."""
        return self._journal.run.attempt

    @property
    def fence(self) -> int:
        """A number that grows with every claim of the job.

        Pass it with writes to another system, and let that system refuse lower numbers: then a
        worker that has lost its lease cannot overwrite what its successor wrote.
        """
        return self._journal.grant.fence

    @property
    def payload(self) -> Any:
        """The payload of the job, as JSON values."""
        return self._journal.run.payload

    @property
    def results(self) -> Mapping[str, Any]:
        """In a plan: the results of the plan steps that this one needs, by name."""
        return self._journal.run.results or {}

    @property
    def resource(self) -> str | None:
        """In a plan: the name of the resource that this plan step holds."""
        return self._journal.run.resource

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of this run, to pass on to other systems; None without one.

        If traces are exported, it names the span of the run, and else the span that has submitted
        the work.
        """
        return self._journal.run.traceparent

    def effect_key(self, key: str) -> str:
        """The idempotency key of an effect: the same in every attempt, and unique to the job."""
        return effect_key(self._journal, key)

    def numbered(self, key: str) -> str:
        """A name for the next of several calls with this key: `key#1`, `key#2`, and so on.

        The names are the same in every execution of the handler if it makes the calls in the same
        order.
        """
        return self._journal.numbered(key)


def number_again(run: RunInfo, name: str, key: str) -> None:
    """Let the next call have this name of `numbered(key)`: the call has recorded nothing."""
    run._journal.number_again(name, key)


def names_are_optional(run: RunInfo, prefix: str) -> None:
    """Do not warn if an execution does not use a recorded name with this prefix again."""
    run._journal.optional.add(prefix)
