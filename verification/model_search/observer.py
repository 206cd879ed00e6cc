"""An independent observer of a search: which worker holds what, and a record of each job.

The records follow from commands and from the names of events, never from rows, so that they show
what a row should contain. Pure.
"""

from collections.abc import Mapping
from typing import NamedTuple

from detent.kernel import commands as c
from detent.kernel import events as e

ENDED = {"job_completed": "completed", "job_failed": "failed", "job_cancelled": "cancelled"}
RESTING = {"job_waiting": "waiting", "job_parked": "parked"}


class Hand(NamedTuple):
    """What a worker believes to hold. After its lease it is stale, but nothing takes it away."""

    grant: c.Grant
    run_id: str


class Witness(NamedTuple):
    """What is known of one job. `same`: the next claim continues the attempt that was counted."""

    holder: c.Grant | None = None
    fence: int = 0
    ended: str | None = None
    resting: str | None = None
    asked: bool = False
    attempt: int = 0
    same: bool = False
    losses: int = 0
    failures: tuple[tuple[str, int], ...] = ()
    #: It has a plan, whose steps have the runs and count their failures themselves.
    planned: bool = False

    def failed(self, error_class: str) -> int:
        return dict(self.failures).get(error_class, 0)


def keep(
    witnesses: Mapping[str, Witness], command: c.Command, records: list[e.Record]
) -> dict[str, Witness]:
    """The witnesses after a command and its events."""
    kept = dict(witnesses)
    for record in records:
        event = record.event
        if event.level in ("job", "checkpoint", "step"):
            kept[record.stream] = _noted(kept.get(record.stream, Witness()), command, record)
    return kept


def _noted(witness: Witness, command: c.Command, record: e.Record) -> Witness:
    event = record.event
    name = event.name
    if isinstance(event, e.JobRunning):
        attempt = witness.attempt if witness.same else witness.attempt + 1
        grant = c.Grant(record.stream, event.fence, event.nonce)
        return witness._replace(holder=grant, fence=event.fence, attempt=attempt, same=False)
    if name in RESTING:
        return witness._replace(holder=None, resting=RESTING[name])
    if name in ENDED:
        return witness._replace(holder=None, resting=None, ended=ENDED[name])
    if name == "wait_completed":
        return witness._replace(holder=None, resting=None, same=True, losses=0)
    if name == "job_cancel_requested":
        return witness._replace(asked=True)
    if name in ("checkpoint_recorded", "step_succeeded"):
        return witness._replace(losses=0)
    if isinstance(event, e.PlanGenerated):
        return witness._replace(planned=True)
    if name in ("job_requeued", "job_retrying"):
        return _going_on(witness, command)
    return witness


def _going_on(witness: Witness, command: c.Command) -> Witness:
    """Back to the queue: counted by what was reported, not by what the event says of it."""
    if witness.ended == "failed":
        return Witness(fence=witness.fence, planned=witness.planned)
    freed = witness._replace(holder=None)
    if witness.holder is None:
        return freed
    if isinstance(command, c.HandBack):
        return freed._replace(same=True)
    if isinstance(command, c.ReclaimJob):
        return freed._replace(losses=witness.losses + 1)
    error_class = class_of(command)
    of_a_step = witness.planned and not isinstance(command, c.FailPlan)
    if error_class == "rate_limit" or of_a_step:
        return freed._replace(same=True)
    counts = {**dict(witness.failures), error_class: witness.failed(error_class) + 1}
    return freed._replace(failures=tuple(sorted(counts.items())))


def class_of(command: c.Command) -> str:
    return command.error_class if isinstance(command, c.FailRun | c.FailPlan) else "timeout"
