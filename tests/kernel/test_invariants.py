"""The four invariants of a job's stream: legal streams keep them, broken ones name a position."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from detent.errors import Refused
from detent.kernel import events as e
from detent.kernel.entities import Job
from detent.kernel.invariants import (
    INVARIANTS,
    STATE_EVENTS,
    Item,
    Offence,
    ended_is_final,
    offences,
    rest_ends_by_its_wait,
    rest_holds_no_lease,
    running_is_claimed,
)
from detent.kernel.lifecycles import LIFECYCLES

JOB = LIFECYCLES["job"]
FOREIGN = ("plan_generated", "node_started", "tool_invocation_started", "")
CLAIMED = ["job_created", "job_running"]
WAITING = [*CLAIMED, "job_waiting"]
PARKED = [*CLAIMED, "job_parked"]


def row(state: str, worker: str | None = None) -> Job:
    """What a store might hold after a stream."""
    return Job("j", "p", state, 0, "build", "P2", 0, "j", worker=worker, nonce=worker)


def record(event: e.Event, subject: str | None = None) -> e.Record:
    return e.Record("j", subject, event, 0, "test")


@st.composite
def legal_streams(draw: st.DrawFn) -> tuple[list[Item], str]:
    """A walk along the rows of the job's table with foreign events between, and where it ends."""
    events: list[Item] = []
    state: str | None = None
    for _ in range(draw(st.integers(0, 30))):
        events += draw(st.lists(st.sampled_from(FOREIGN), max_size=2))
        ways = [each for each in JOB.rows if each.source == state]
        if not ways:
            break
        way = draw(st.sampled_from(ways))
        events.append(draw(st.sampled_from([way.event, way.event.upper()])))
        state = way.target
    return events, state or JOB.initial


@given(legal_streams())
def test_every_legal_stream_keeps_all_four(walk: tuple[list[Item], str]) -> None:
    events, state = walk
    assert offences(events) == []
    assert offences(events, row(state)) == []


@given(st.lists(st.sampled_from([*JOB.events, *FOREIGN]), max_size=12))
def test_no_event_of_a_legal_beginning_is_accused(events: list[str]) -> None:
    try:
        JOB.fold(events)
    except Refused as refused:
        first = refused.details["position"]
        assert isinstance(first, int)
        assert all(offence.position >= first for offence in offences(events))
    else:
        assert offences(events) == []


def test_the_invariants_know_every_event_of_the_table() -> None:
    assert set(JOB.events) == STATE_EVENTS


# Each broken by one event: which invariants, at which position.
BROKEN: list[tuple[list[Item], list[tuple[int, int]]]] = [
    ([*CLAIMED, "job_completed", "job_cancelled"], [(1, 3)]),
    ([*CLAIMED, "job_completed", "plan_generated", "job_requeued"], [(1, 4)]),
    ([*CLAIMED, "job_cancelled", "JOB_REQUEUED"], [(1, 3)]),
    ([*CLAIMED, "job_failed", "job_running"], [(1, 3)]),
    ([*CLAIMED, "job_failed", "job_requeued", "job_running", "job_failed", "job_queued"], [(1, 6)]),
    ([*CLAIMED, "job_failed", record(e.JobRequeued("due"))], [(1, 3)]),
    ([*CLAIMED, "job_completed", "job_completed"], [(1, 3), (3, 3)]),
    ([*WAITING, "job_queued"], [(2, 3)]),
    ([*PARKED, "node_started", "job_created"], [(2, 4)]),
    ([*PARKED, "job_waiting"], [(2, 3), (3, 3)]),
    ([*WAITING, "job_completed"], [(2, 3), (3, 3)]),
    (["job_created", "job_completed"], [(3, 1)]),
    (["job_created", "job_running", "job_requeued", "job_failed"], [(3, 3)]),
    (["job_created", "job_parked"], [(3, 1)]),
    (["job_retrying"], [(3, 0)]),
    (["job_created", record(e.RunStarted(), "r1")], [(3, 1)]),
    ([*WAITING, "job_running"], [(2, 3), (4, 3)]),
    ([*WAITING, "job_parked", "job_leased"], [(2, 4), (4, 4)]),
    ([*PARKED, "job_requeued"], [(2, 3), (4, 3)]),
    ([*PARKED, record(e.RunCancelled("worker_lost"), "r1")], [(4, 3)]),
    ([*WAITING, record(e.RunQueued("w", 2, 1), "r2")], [(3, 3), (4, 3)]),
    ([*CLAIMED, record(e.RunQueued("w", 1, 1), "r1"), "job_waiting"], [(4, 3)]),
]


@pytest.mark.parametrize(("stream", "expected"), BROKEN)
def test_a_broken_stream_names_its_invariant_and_position(
    stream: list[Item], expected: list[tuple[int, int]]
) -> None:
    assert [offence[:2] for offence in offences(stream)] == expected


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_each_invariant_has_broken_examples(number: int) -> None:
    assert sum(number == broken for _, expected in BROKEN for broken, _ in expected) >= 3
    offence = next(
        found for stream, _ in BROKEN if (found := INVARIANTS[number - 1](stream, None)) is not None
    )
    assert offence.invariant == number


def test_a_run_that_ended_is_no_lease() -> None:
    begun = record(e.RunQueued("w", 1, 1), "r1")
    ended = record(e.RunSucceeded("suspended"), "r1")
    assert rest_holds_no_lease([*CLAIMED, begun, ended, "job_waiting"]) is None


def test_a_persons_retry_of_a_failed_job_is_no_offence() -> None:
    assert ended_is_final([*CLAIMED, "job_failed", "job_requeued"]) is None
    assert ended_is_final([*CLAIMED, "job_failed", record(e.JobRequeued("retried"))]) is None


# ---- what the row claims ---------------------------------------------------------------------


def test_a_row_rests_only_by_the_event_of_its_state() -> None:
    assert rest_ends_by_its_wait(WAITING, row("waiting")) is None
    broken = rest_ends_by_its_wait([*WAITING, "wait_completed"], row("waiting"))
    assert broken == Offence(2, 3, "the row is waiting, its last state event is wait_completed")
    mixed_up = rest_ends_by_its_wait(PARKED, row("waiting"))
    assert mixed_up is not None
    assert mixed_up.position == 2


def test_a_row_runs_only_by_a_claim() -> None:
    assert running_is_claimed(["job_created", "job_leased"], row("running", "w")) is None
    broken = running_is_claimed(["job_created", "node_started"], row("running", "w"))
    assert broken == Offence(3, 0, "the row is running, its last state event is job_created")


def test_a_row_that_rests_is_held_by_no_worker() -> None:
    assert rest_holds_no_lease(PARKED, row("parked")) is None
    broken = rest_holds_no_lease(PARKED, row("parked", "w"))
    assert broken == Offence(4, 2, "the row is parked and held by w")


def test_a_row_without_any_event_breaks_at_the_beginning() -> None:
    assert offences([], row("running")) == [
        Offence(3, 0, "the row is running, its last state event is None")
    ]


def test_the_earliest_offence_comes_first() -> None:
    stream = ["job_created", "job_completed", "job_queued", "job_waiting"]
    assert [offence[:2] for offence in offences(stream)] == [(3, 1), (1, 2)]
