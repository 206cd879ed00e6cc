"""The four invariants of a job's stream: each names the first position that breaks it, or None.

They hold for any log, legal or foreign, so none of them asks the lifecycle's table. Event names
are enough; records say more (whose lease, whose retry), and so does the row, which is what the
store holds after the last event. Pure.
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
#: By the event that lays a job to rest: the state events that may follow.
RISES: Mapping[str, frozenset[str]] = {
    "job_waiting": frozenset({"wait_completed", "job_cancelled", "job_parked"}),
    "job_parked": frozenset({"wait_completed", "job_cancelled"}),
}
#: What only a running job does; waiting → parked is the one other way into parked.
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
#: By a state that an invariant is about: the last state events that it may follow from.
FOLLOWS: Mapping[str, frozenset[str]] = {
    "waiting": frozenset({"job_waiting"}),
    "parked": frozenset({"job_parked"}),
    "running": CLAIMS,
}


class Offence(NamedTuple):
    """Which invariant is broken, by the event at which position (from 0), and how."""

    invariant: int
    position: int
    what: str


class Place(NamedTuple):
    """An event in its stream: where it stands, and the last state event before it."""

    position: int
    name: str
    item: Item
    last: str | None


Invariant = Callable[[Sequence[Item], Job | None], Offence | None]


def offences(stream: Sequence[Item], row: Job | None = None) -> list[Offence]:
    """The first offence against each invariant, the earliest position first; none when all hold."""
    found = [offence for each in INVARIANTS if (offence := each(stream, row)) is not None]
    return sorted(found, key=lambda offence: (offence.position, offence.invariant))


def ended_is_final(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """1: after an end no state event follows, but for a person's job_requeued after job_failed."""
    for place in _places(stream):
        if place.last in ENDS and place.name in STATE_EVENTS and not _retried(place):
            return Offence(1, place.position, f"{place.name} follows {place.last}, which is an end")
    return None


def rest_ends_by_its_wait(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """2: waiting and parked come from their own event, and end by wait_completed or a cancel."""
    for place in _places(stream):
        allowed = RISES.get(place.last or "")
        if allowed is not None and place.name in STATE_EVENTS and place.name not in allowed:
            return Offence(2, place.position, f"{place.name} follows {place.last}")
    return _row_offence(2, stream, row, ("waiting", "parked"))


def running_is_claimed(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """3: a job runs only right after its claim, and only then does what running jobs do."""
    for place in _places(stream):
        before = DONE_BY_RUNNING.get(place.name)
        if before is not None and place.last not in before:
            return Offence(
                3, place.position, f"{place.name} follows {place.last}, which no claim is"
            )
        if _begins_a_run(place) and place.last not in CLAIMS:
            return Offence(3, place.position, f"{place.name} while the last was {place.last}")
    return _row_offence(3, stream, row, ("running",))


def rest_holds_no_lease(stream: Sequence[Item], row: Job | None = None) -> Offence | None:
    """4: a waiting or parked job holds no lease, and nobody claims or reclaims it."""
    live: set[str | None] = set()
    for place in _places(stream):
        if place.last in RISES and _claims_or_reclaims(place):
            return Offence(4, place.position, f"{place.name} while it rests by {place.last}")
        _follow_run(live, place)
        if place.name in RISES and live:
            listed = ", ".join(sorted(map(str, live)))
            return Offence(4, place.position, f"{place.name} while the run {listed} is live")
    if row is not None and row.state in ("waiting", "parked") and (row.worker or row.nonce):
        return Offence(4, _last(stream)[0], f"the row is {row.state} and held by {row.worker}")
    return None


INVARIANTS: tuple[Invariant, ...] = (
    ended_is_final,
    rest_ends_by_its_wait,
    running_is_claimed,
    rest_holds_no_lease,
)


def _places(stream: Sequence[Item]) -> Iterator[Place]:
    last: str | None = None
    for position, item in enumerate(stream):
        name = normalise(item) if isinstance(item, str) else item.event.name
        yield Place(position, name, item, last)
        if name in STATE_EVENTS:
            last = name


def _last(stream: Sequence[Item]) -> tuple[int, str | None]:
    """Where the last state event stands and which it is; 0 and None in a stream without any."""
    moves = [place for place in _places(stream) if place.name in STATE_EVENTS]
    return (moves[-1].position, moves[-1].name) if moves else (0, None)


def _row_offence(
    invariant: int, stream: Sequence[Item], row: Job | None, states: tuple[str, ...]
) -> Offence | None:
    if row is None or row.state not in states:
        return None
    position, last = _last(stream)
    if last in FOLLOWS[row.state]:
        return None
    return Offence(invariant, position, f"the row is {row.state}, its last state event is {last}")


def _retried(place: Place) -> bool:
    """A person's retry. A bare name cannot say who asked, and is believed."""
    if place.last != "job_failed" or place.name != "job_requeued":
        return False
    event = None if isinstance(place.item, str) else place.item.event
    return event is None or (isinstance(event, e.JobRequeued) and event.reason == "retried")


def _begins_a_run(place: Place) -> bool:
    """Only our own records: what other systems call a run need not be one."""
    return not isinstance(place.item, str) and place.name in ("run_queued", "run_started")


def _claims_or_reclaims(place: Place) -> bool:
    if place.name in CLAIMS or place.name == "job_requeued" or _begins_a_run(place):
        return True
    event = None if isinstance(place.item, str) else place.item.event
    return isinstance(event, e.RunCancelled) and event.reason == "worker_lost"


def _follow_run(live: set[str | None], place: Place) -> None:
    """A lease is seen in the log as a run that began and has not ended."""
    if isinstance(place.item, str):
        return
    if place.name in ("run_queued", "run_started"):
        live.add(place.item.subject)
    elif place.name in ("run_succeeded", "run_failed", "run_timed_out", "run_cancelled"):
        live.discard(place.item.subject)
