"""The four invariants of a job's stream: each function returns the first violation, or None.

They hold for any log, legal or foreign, so they do not use the lifecycle's table. Event names are
enough; records (which lease, whose retry) and the stored row allow more checks. Pure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from detent.kernel import events as e
from detent.kernel.entities import Job
from detent.kernel.lifecycle import normalise

#: One event of a job's stream: its name in any letter case, or its whole record.
Item = str | e.Record

ENDS = frozenset({"job_completed", "job_failed", "job_cancelled"})
CLAIMS = frozenset({"job_leased", "job_running"})
#: The state events that may follow the event that lets a job wait.
ENDS_OF_WAIT: Mapping[str, frozenset[str]] = {
    "job_waiting": frozenset({"wait_completed", "job_cancelled", "job_parked"}),
    "job_parked": frozenset({"wait_completed", "job_cancelled"}),
}
#: The events that only a running job has, by name, and the state events that they may follow.
DONE_BY_RUNNING: Mapping[str, frozenset[str]] = {
    "job_waiting": CLAIMS,
    "job_parked": CLAIMS | {"job_waiting"},
    "job_retrying": CLAIMS,
    "job_completed": CLAIMS,
    "job_failed": CLAIMS,
}
STATE_EVENTS = frozenset(
    {
        "job_created",
        "job_queued",
        "job_requeued",
        "wait_completed",
        *CLAIMS,
        *DONE_BY_RUNNING,
        *ENDS,
    }
)
#: The last state events that a row in this state may have.
FOLLOWS: Mapping[str, frozenset[str]] = {
    "waiting": frozenset({"job_waiting"}),
    "parked": frozenset({"job_parked"}),
    "running": CLAIMS,
}


class Offence(NamedTuple):
    """A violation: the invariant, the position of the event (from 0), and what is wrong."""

    invariant: int
    position: int
    what: str


class StreamEvent(NamedTuple):
    """An event of a stream with its position and the last state event before it."""

    position: int
    name: str
    item: Item
    last: str | None


Invariant = Callable[[Sequence[Item], Job | None], Offence | None]


def offences(stream: Sequence[Item], row: Job | None = None) -> list[Offence]:
    """Return the first violation of each invariant, by position; empty if all hold."""
    found = [offence for each in INVARIANTS if (offence := each(stream, row)) is not None]
    return sorted(found, key=lambda offence: (offence.position, offence.invariant))


def ended_is_final(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """1: after an end no state event follows, but for a person's job_requeued after job_failed."""
    for found in _stream_events(stream):
        if found.last in ENDS and found.name in STATE_EVENTS and not _retried(found):
            return Offence(1, found.position, f"{found.name} follows {found.last}, which is an end")
    return None


def rest_ends_by_its_wait(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """2: waiting and parked come from their own event, and end by wait_completed or a cancel."""
    for found in _stream_events(stream):
        allowed = ENDS_OF_WAIT.get(found.last or "")
        if allowed is not None and found.name in STATE_EVENTS and found.name not in allowed:
            return Offence(2, found.position, f"{found.name} follows {found.last}")
    return _row_offence(2, stream, row, ("waiting", "parked"))


def running_is_claimed(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """3: a job runs only after its claim, and only a running job waits, retries or ends."""
    for found in _stream_events(stream):
        before = DONE_BY_RUNNING.get(found.name)
        if before is not None and found.last not in before:
            return Offence(
                3, found.position, f"{found.name} follows {found.last}, which is not a claim"
            )
        if _begins_a_run(found) and found.last not in CLAIMS:
            return Offence(3, found.position, f"{found.name} while the last was {found.last}")
    return _row_offence(3, stream, row, ("running",))


def rest_holds_no_lease(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """4: a waiting or parked job holds no lease and is never claimed or reclaimed."""
    live: set[str | None] = set()
    for found in _stream_events(stream):
        if found.last in ENDS_OF_WAIT and _claims_or_reclaims(found):
            return Offence(
                4, found.position, f"{found.name} while the job waits after {found.last}"
            )
        _follow_run(live, found)
        if found.name in ENDS_OF_WAIT and live:
            listed = ", ".join(sorted(map(str, live)))
            return Offence(4, found.position, f"{found.name} while the run {listed} is live")
    if row is not None and row.state in ("waiting", "parked") and (row.worker or row.nonce):
        return Offence(4, _last(stream)[0], f"the row is {row.state} and held by {row.worker}")
    return None


INVARIANTS: tuple[Invariant, ...] = (
    ended_is_final,
    rest_ends_by_its_wait,
    running_is_claimed,
    rest_holds_no_lease,
)


def _stream_events(stream: Sequence[Item]) -> Iterator[StreamEvent]:
    last: str | None = None
    for position, item in enumerate(stream):
        name = normalise(item) if isinstance(item, str) else item.event.name
        yield StreamEvent(position, name, item, last)
        if name in STATE_EVENTS:
            last = name


def _last(stream: Sequence[Item]) -> tuple[int, str | None]:
    """Return the position and name of the last state event; 0 and None if there is none."""
    state_events = [found for found in _stream_events(stream) if found.name in STATE_EVENTS]
    return (state_events[-1].position, state_events[-1].name) if state_events else (0, None)


def _row_offence(
    invariant: int, stream: Sequence[Item], row: Job | None, states: tuple[str, ...]
) -> Offence | None:
    if row is None or row.state not in states:
        return None
    position, last = _last(stream)
    if last in FOLLOWS[row.state]:
        return None
    return Offence(invariant, position, f"the row is {row.state}, its last state event is {last}")


def _retried(found: StreamEvent) -> bool:
    """Whether it is a retry by a person. A name without a record is accepted as one."""
    if found.last != "job_failed" or found.name != "job_requeued":
        return False
    event = None if isinstance(found.item, str) else found.item.event
    return event is None or (isinstance(event, e.JobRequeued) and event.reason == "retried")


def _begins_a_run(found: StreamEvent) -> bool:
    """Whether it begins a run. Only records count: foreign systems may use the name otherwise."""
    return not isinstance(found.item, str) and found.name in ("run_queued", "run_started")


def _claims_or_reclaims(found: StreamEvent) -> bool:
    if found.name in CLAIMS or found.name == "job_requeued" or _begins_a_run(found):
        return True
    event = None if isinstance(found.item, str) else found.item.event
    return isinstance(event, e.RunCancelled) and event.reason == "worker_lost"


def _follow_run(live: set[str | None], found: StreamEvent) -> None:
    """Track live runs: in the log, a lease is a run that began and has not ended."""
    if isinstance(found.item, str):
        return
    if found.name in ("run_queued", "run_started"):
        live.add(found.item.subject)
    elif found.name in ("run_succeeded", "run_failed", "run_timed_out", "run_cancelled"):
        live.discard(found.item.subject)
