"""Claims on SQLite: what is claimable, by rank, and how few rows are read to find it."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from detent.kernel.entities import Job
from detent.kernel.fair_shares import UNIT, Shares
from detent.kernel.lane import lane_for, suits
from detent.store.sqlite import SqliteStore, claims
from detent.store.sqlite.writer import SqliteWriter
from detent.store.types import Candidate, Changes, ClaimFilter, LeaseRow, NewJob, QueueRow
from detent.testing.clock import START, VirtualClock

INTENTS, PROJECTS = ("dig", "saw", "sow"), ("barn", "field", "yard")
KEYS = ("ladder", "rope", "spade")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "detent.db", VirtualClock())
    yield opened
    opened.close()


class Undone(Exception):
    """Leaves a transaction so that nothing of it stays."""


@contextmanager
def undone(store: SqliteStore) -> Iterator[SqliteWriter]:
    with suppress(Undone), store.write() as tx:
        yield tx
        raise Undone


def queued(rows: list[QueueRow]) -> Changes:
    """New jobs that are in the queue."""
    jobs = [
        Job(
            *(row.job_id, row.project, "queued", 0, row.intent, "P2", row.rank, row.root_id),
            concurrency_key=row.concurrency_key,
        )
        for row in rows
    ]
    versions = {row.job_id: 1 for row in rows}
    return Changes(versions=versions, new_jobs=[NewJob(job, None) for job in jobs], queue=rows)


# ---- the same as reading all rows ------------------------------------------------------------


def some(names: tuple[str, ...], most: int = 2) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(names), unique=True, max_size=most)


works = st.lists(
    st.tuples(
        st.sampled_from(PROJECTS),
        st.sampled_from(INTENTS),
        st.integers(1, 20),
        st.sampled_from([0, START, START + 1]),
        st.none() | st.sampled_from(KEYS),
        st.none() | some((*INTENTS, "fly"), most=2),
    ),
    min_size=10,
    max_size=40,
)
able = st.builds(
    ClaimFilter,
    intents=st.none() | some((*INTENTS, "fly"), most=3),
    projects=st.none() | some(PROJECTS),
    paused_intents=some(INTENTS, most=1),
    paused_projects=some(PROJECTS, most=1),
    full_keys=some(KEYS),
    shares=st.builds(
        Shares,
        now=st.just(5 * UNIT),
        starts=st.dictionaries(st.sampled_from(PROJECTS), st.integers(5, 9).map(UNIT.__mul__)),
        weights=st.dictionaries(st.sampled_from(PROJECTS), st.integers(1, 4)),
    ),
)


def expected(rows: list[QueueRow], claim_filter: ClaimFilter, limit: int) -> list[Candidate]:
    fit = [
        row
        for row in rows
        if row.due_at <= START
        and suits(row.lane, claim_filter.intents)
        and (claim_filter.projects is None or row.project in claim_filter.projects)
        and row.intent not in claim_filter.paused_intents
        and row.project not in claim_filter.paused_projects
        and row.concurrency_key not in claim_filter.full_keys
    ]
    fit.sort(key=lambda row: (row.rank, row.job_id))
    waiting = {name: [row for row in fit if row.project == name] for name in PROJECTS}
    first = {name: rows[0].rank for name, rows in waiting.items() if rows}
    shares, taken = claim_filter.shares, list[QueueRow]()
    at = {name: shares.start(name) for name in first}
    while len(taken) < limit and any(waiting.values()):
        have = [name for name, rows in waiting.items() if rows]
        name = min(have, key=lambda name: (at[name], first[name], name))
        taken.append(waiting[name].pop(0))
        at[name] += shares.cost(name)
    return [Candidate(row.job_id, row.intent, row.project, row.concurrency_key) for row in taken]


@settings(
    max_examples=200,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(works=works, claim_filter=able, limit=st.integers(2, 6), looked_past=st.integers(0, 3))
def test_a_claim_finds_what_a_full_scan_would(
    store: SqliteStore, works: list[Any], claim_filter: ClaimFilter, limit: int, looked_past: int
) -> None:
    rows = [
        QueueRow(f"job-{at:02}", "root", *work)._replace(lane=lane_for(work[1], work[5]))
        if work[5]
        else QueueRow(f"job-{at:02}", "root", *work)._replace(lane=work[1])
        for at, work in enumerate(works)
    ]
    with pytest.MonkeyPatch.context() as patch, undone(store) as tx:
        patch.setattr(claims, "LOOKED_PAST", looked_past)
        tx.save(queued(rows))
        found = [each._replace(plain=None) for each in tx.claimable(claim_filter, limit, START)]
        assert found == expected(rows, claim_filter, limit)


def test_leased_work_is_not_claimable_until_it_is_queued_again(store: SqliteStore) -> None:
    row = QueueRow("job", "root", "barn", "dig", 1, 0, None, "dig")
    with store.write() as tx:
        tx.save(queued([row]))
        tx.save(Changes(leases=[LeaseRow("job", "ann", 1, START + 1)]))
        assert not tx.claimable(ClaimFilter(), 1, START)
        assert not tx.claimable(ClaimFilter(intents=["dig"]), 1, START)
        tx.save(Changes(queue=[row._replace(due_at=START + 1)]))
        assert not tx.claimable(ClaimFilter(), 1, START)
        assert [each.job_id for each in tx.claimable(ClaimFilter(), 1, START + 1)] == ["job"]
        assert tx.due(10, START + 2).leases == []


# ---- however much there is -------------------------------------------------------------------


def steps(
    tx: SqliteWriter, claim_filter: ClaimFilter, *, limit: int = 10, expected: int = 1
) -> int:
    """How many instructions of SQLite's machine a claim takes, in tens."""
    taken = 0

    def count() -> bool:
        nonlocal taken
        taken += 1
        return False

    database = tx._connection._db
    database.set_progress_handler(count, 10)
    try:
        found = tx.claimable(claim_filter, limit, START)
    finally:
        database.set_progress_handler(None)
    assert [each.job_id for each in found if each.project == "barn"] == ["mine"]
    assert len(found) == expected
    return taken


def with_others(
    store: SqliteStore,
    count: int,
    other: QueueRow,
    claim_filter: ClaimFilter,
    key: str | None = None,
    expected: int = 1,
) -> int:
    """The steps of a claim that finds one job behind `count` others."""
    mine = QueueRow("mine", "root", "barn", "dig", 1_000_000, 0, key, "dig")
    others = [other._replace(job_id=f"other-{at:06}", rank=at) for at in range(count)]
    with undone(store) as tx:
        tx.save(queued([mine, *others]))
        return steps(tx, claim_filter, expected=expected)


OTHER = QueueRow("other", "root", "yard", "saw", 0, 0, None, "saw")
#: Shares with which the first job is that of the project `barn`.
BEHIND = Shares(UNIT, {f"p{at:04}": 2 * UNIT for at in range(1_000)})


@pytest.mark.parametrize(
    ("other", "claim_filter"),
    [
        (OTHER, ClaimFilter(intents=["dig", "sow"])),
        (OTHER, ClaimFilter(projects=["barn"])),
        (OTHER, ClaimFilter(paused_intents=["saw"])),
        (OTHER, ClaimFilter(paused_projects=["yard"])),
        (OTHER._replace(concurrency_key="ladder"), ClaimFilter(full_keys=["ladder", "rope"])),
        (
            QueueRow("other", "root", "barn", "dig", 0, 0, "ladder", "dig"),
            ClaimFilter(intents=["dig"], full_keys=["ladder"]),
        ),
        (OTHER._replace(due_at=START + 1), ClaimFilter()),
        (
            OTHER._replace(intent="dig", lane=lane_for("dig", ["saw", "sew"])),
            ClaimFilter(intents=["dig"]),
        ),
    ],
    ids=[
        *("intents", "projects", "paused intent", "paused project", "key", "key in lane"),
        *("asleep", "plans for other workers"),
    ],
)
def test_a_claim_does_not_walk_past_what_it_must_leave(
    store: SqliteStore, other: QueueRow, claim_filter: ClaimFilter
) -> None:
    for key in (None, "spade"):
        few, many = (
            with_others(store, count, other, claim_filter, key) for count in (1_000, 10_000)
        )
        assert many < few * 1.5 + 10


def test_a_claim_reads_as_much_beside_a_large_project(store: SqliteStore) -> None:
    """The shares of both projects, however many jobs the other has."""
    few, many = (
        with_others(store, count, OTHER, ClaimFilter(), expected=10) for count in (1_000, 10_000)
    )
    assert many < few * 1.2 + 10


def test_a_claim_among_many_projects_reads_few_of_their_jobs(store: SqliteStore) -> None:
    """One step for each project, and as many jobs as are claimed."""
    taken = []
    for jobs in (1, 20):
        rows = [
            QueueRow(f"{at:04}-{number}", "root", f"p{at:04}", "dig", at, 0, None, "dig")
            for at in range(1_000)
            for number in range(jobs)
        ]
        mine = QueueRow("mine", "root", "barn", "dig", 1_000_000, 0, None, "dig")
        with undone(store) as tx:
            tx.save(queued([mine, *rows]))
            taken.append(steps(tx, ClaimFilter(shares=BEHIND), limit=1))
    few, many = taken
    assert many < few * 1.2 + 10


def test_a_great_many_that_come_due_together_are_woken_in_parts(store: SqliteStore) -> None:
    rows = [
        QueueRow(f"job-{at:05}", "r", "barn", "dig", at, START + 1, None, "dig")
        for at in range(6_000)
    ]
    with store.write() as tx:
        tx.save(queued(rows))
        for awake in (5_000, 6_000):
            tx.claimable(ClaimFilter(), 1, START + 1)
            assert tx._all("SELECT count(*) FROM active_jobs WHERE asleep = 0") == [(awake,)]


# ---- leases ----------------------------------------------------------------------------------


def leased(store: SqliteStore) -> list[tuple[int, int]]:
    """The time of each lease, and how many jobs it holds."""
    with store.read() as view:
        return [(until, held) for until, held in view.raw("SELECT until, held FROM leases")]


def held_by_one_lease(store: SqliteStore, count: int) -> list[tuple[str, int]]:
    rows = [
        QueueRow(f"job-{at}", f"job-{at}", "barn", "dig", at, 0, None, "dig") for at in range(count)
    ]
    with store.write() as tx:
        tx.save(queued(rows))
        for job, _ in tx.jobs([row.job_id for row in rows]):
            claimed = job._replace(state="running", worker="ann", fence=1)
            tx.save(Changes(versions={job.id: 2}, jobs=[claimed]))
        tx.save(Changes(leases=[LeaseRow(row.job_id, "ann", 1, START + 10) for row in rows]))
    return [(row.job_id, 1) for row in rows]


def test_jobs_that_are_claimed_together_have_one_lease(store: SqliteStore) -> None:
    grants = held_by_one_lease(store, 3)
    assert leased(store) == [(START + 10, 3)]
    with store.write() as tx:
        assert tx.renew("ann", grants, START + 20) == set(grants)
    assert leased(store) == [(START + 20, 3)]
    with store.write() as tx:
        assert tx.lease_counts(["intent:dig", "project:yard"]) == {
            "intent:dig": 3,
            "project:yard": 0,
        }
        assert set(tx.due(10, START + 20).leases) == set(grants)
        assert tx.due(10, START + 19).leases == []


def test_a_job_that_is_not_renewed_keeps_its_time(store: SqliteStore) -> None:
    grants = held_by_one_lease(store, 3)
    with store.write() as tx:
        assert tx.renew("ann", [grants[0], grants[2], ("job-1", 7)], START + 20) == {
            grants[0],
            grants[2],
        }
        assert tx.due(10, START + 10).leases == [grants[1]]
    assert sorted(leased(store)) == [(START + 10, 1), (START + 20, 2)]
    with store.write() as tx:
        assert tx.renew("ben", grants, START + 30) == set()


def test_a_lease_without_jobs_is_deleted(store: SqliteStore) -> None:
    held_by_one_lease(store, 3)
    with store.write() as tx:
        tx.save(Changes(unqueued=["job-0"]))
    assert leased(store) == [(START + 10, 2)]
    with store.write() as tx:
        tx.save(Changes(queue=[QueueRow("job-1", "job-1", "barn", "dig", 1, 0, None, "dig")]))
        [(job, version)] = tx.jobs(["job-2"])
        done = job._replace(state="completed")
        tx.save(Changes(versions={job.id: version + 1}, jobs=[done], ended=[job.id]))
    assert leased(store) == []
