"""Plain jobs as sets on PostgreSQL: the same as on the general path, in few round trips."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from hypothesis import Phase, given, settings

from detent.kernel import commands as c
from detent.kernel.commands.limit_commands import SetLimit
from detent.store.job_sets import MAX_CLAIMED
from detent.store.postgres import PostgresStore
from detent.store.postgres.connection import Connection, Query
from detent.store.postgres.set_rows import PostgresJobSets
from detent.testing.clock import VirtualClock
from tests.engine.job_set_scene import (
    AUDITED,
    ENDED,
    PLAIN,
    TABLES,
    Claim,
    Person,
    log_of,
    note_sets,
    person_at,
    steps,
)
from verification.postgres_server import Cluster

BY_TABLE = """
SELECT column_name::text FROM information_schema.columns
WHERE table_name = %s AND column_name <> ALL (%s) ORDER BY column_name
"""


@contextmanager
def opened(url: str, *, sets: bool = True) -> Iterator[Person]:
    clock = VirtualClock()
    store = PostgresStore(f"{url}&notifier=no" if "?" in url else f"{url}?notifier=no", clock)
    with person_at(store, clock, sets=sets) as person:
        yield person


def everything(person: Person, url: str) -> dict[str, Any]:
    """Rows, events by stream with their digests, and answers."""
    found: dict[str, Any] = {"answers": person.answers}
    with psycopg.connect(url, autocommit=True) as database:
        for table, left_out in TABLES.items():
            names = [name for (name,) in database.execute(BY_TABLE, [table, list(left_out)])]
            rows = database.execute(f"SELECT {', '.join(names)} FROM {table}".encode())
            found[table] = sorted(map(repr, rows))
        found |= log_of(person, lambda: database.execute(AUDITED.encode()).fetchall())
    return found


@pytest.fixture(scope="session")
def new_url(postgres_server: Cluster, postgres_pattern: str) -> Callable[[], str]:
    """Makes databases with the present schema."""
    numbers = iter(range(1_000_000))
    return lambda: postgres_server.create_database(
        f"sets_{next(numbers)}", template=postgres_pattern
    )


@settings(max_examples=20, deadline=None, phases=[Phase.generate])
@given(work=steps)
def test_sets_write_what_the_general_path_writes(new_url: Callable[[], str], work: Any) -> None:
    """Each claim takes all jobs: which of those with the same rank comes first is not defined."""
    work = [each._replace(limit=100) if isinstance(each, Claim) else each for each in work]
    found = []
    for sets in (True, False):
        url = new_url()
        with opened(url, sets=sets) as person:
            for step in work:
                person.do(step)
            found.append(everything(person, url))
    assert found[0] == found[1]


# ---- round trips -----------------------------------------------------------------------------


@pytest.fixture
def person(postgres_url: str) -> Iterator[Person]:
    with opened(postgres_url) as made:
        yield made


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """The statements of each round trip."""
    found: list[list[bytes]] = []
    run = Connection.run

    def noted(self: Connection, queries: Iterable[Query]) -> Any:
        queries = list(queries)
        found.append([query.text for query in queries])
        return run(self, queries)

    monkeypatch.setattr(Connection, "run", noted)
    return found


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The sets that were written or taken: the operation and the number of jobs."""
    found = note_sets(monkeypatch, PostgresJobSets, "insert", "claim", "end")
    take = PostgresJobSets.take

    def note_take(self: PostgresJobSets, *given: Any) -> Any:
        taken = take(self, *given)
        found.append(("take", -1 if taken is None else sum(len(jobs) for jobs, _ in taken.sets)))
        return taken

    monkeypatch.setattr(PostgresJobSets, "take", note_take)
    return found


def live(person: Person, count: int, lifecycle: str = "") -> None:
    person.do([PLAIN._replace(lifecycle=lifecycle)] * count)
    person.do(Claim("w1", "n1", count))
    person.do([ENDED._replace(held=each) for each in range(count)])


@pytest.mark.parametrize("lifecycle", ["", "board", "review"])
def test_submit_claim_and_complete_are_one_round_trip_each(
    person: Person, trips: list[list[bytes]], written: list[tuple[str, int]], lifecycle: str
) -> None:
    live(person, 6, lifecycle)
    trips.clear()
    written.clear()
    live(person, 6, lifecycle)
    assert written == [("insert", 6), ("take", 6), ("end", 6)]
    assert len(trips) == 3
    assert all(trip[0].startswith(b"BEGIN") and b"COMMIT" in trip for trip in trips)


def test_the_largest_claim_is_one_round_trip(
    person: Person, trips: list[list[bytes]], written: list[tuple[str, int]]
) -> None:
    live(person, 6)
    person.do([PLAIN] * (MAX_CLAIMED + 1))
    trips.clear()
    written.clear()
    person.do(Claim("w1", "n1", MAX_CLAIMED))
    assert (written, len(trips)) == ([("take", MAX_CLAIMED)], 1)


def test_a_claim_of_nothing_writes_nothing(person: Person, postgres_url: str) -> None:
    live(person, 6)
    with psycopg.connect(postgres_url, autocommit=True) as database:
        query = "SELECT last_value, pg_snapshot_xmax(pg_current_snapshot())::text FROM commit_ids"
        before = database.execute(query).fetchone()
        person.do(Claim("w1", "n1", 6))
        assert person.answers[-1] == []
        assert database.execute(query).fetchone() == before


MIXED = [
    PLAIN._replace(lifecycle=lifecycle, intent=intent)
    for lifecycle in ("", "board", "review")
    for intent in ("dig", "saw")
]


def test_work_of_several_shapes_is_claimed_and_completed_in_one_round_trip_each(
    person: Person, trips: list[list[bytes]], written: list[tuple[str, int]]
) -> None:
    for _ in range(2):
        trips.clear()
        written.clear()
        person.do(MIXED * 6)
        person.do(Claim("w1", "n1", 36))
        person.do([ENDED._replace(held=each) for each in range(36)])
    assert written == [*[("insert", 6)] * 6, ("take", 36), *[("end", 12)] * 3]
    assert len(trips) == 3
    ranks = [each.job.rank for each in person.answers[-37]]
    assert ranks == sorted(ranks)
    assert [each.value for each in person.answers[-36:]] == ["completed"] * 36
    with person.engine.store.read() as view:
        tasks = list(view.tasks([f"job-{number}" for number in range(37, 73)]))
    assert {(task.lifecycle, task.state) for task, _ in tasks} == {
        ("board", "done"),
        ("review", "ready"),
    }


def test_a_few_completions_like_earlier_ones_are_a_set(
    person: Person, trips: list[list[bytes]], written: list[tuple[str, int]]
) -> None:
    for lifecycle in ("", "review"):
        live(person, 6, lifecycle)
        person.do([PLAIN._replace(lifecycle=lifecycle)] * 4)
        person.do(Claim("w1", "n1", 4))
        person.do([ENDED])  # a form is not derived for a single use
        trips.clear()
        written.clear()
        for held in range(1, 4):
            person.do([ENDED._replace(held=held)])
        assert written == [("end", 1)] * 3
        assert len(trips) == 3


# ---- what happened meanwhile -----------------------------------------------------------------


def test_a_completion_of_a_cancelled_job_takes_the_general_path(
    person: Person, written: list[tuple[str, int]], postgres_url: str
) -> None:
    live(person, 6)
    person.do([PLAIN] * 6)
    person.do(Claim("w1", "n1", 6))
    cancelled = person.held[-3].grant.job_id
    with opened(postgres_url) as other:
        other.engine.do(c.CancelJob(cancelled, "no more"), c.Actor("ann"))
    written.clear()
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("end", 6), ("end", 5)]
    with person.engine.store.read() as view:
        names = [each.name for each in view.events(0, 100, stream=cancelled)]
    assert names[4:] == ["job_cancel_requested", "run_succeeded", "job_completed"]


def test_a_lease_that_was_divided_meanwhile_is_released(
    person: Person, postgres_url: str, written: list[tuple[str, int]]
) -> None:
    live(person, 6)
    person.do([PLAIN] * 6)
    person.do(Claim("w1", "n1", 6))
    some = [(each.grant.job_id, each.grant.fence) for each in person.held[-2:]]
    assert person.engine.renew("w1", some) == set(some)
    written.clear()
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("end", 6)]
    with psycopg.connect(postgres_url) as database:
        assert database.execute("SELECT count(*) FROM leases").fetchone() == (0,)


def test_a_task_with_a_dependent_ends_on_the_general_path(
    person: Person, written: list[tuple[str, int]]
) -> None:
    task = PLAIN._replace(lifecycle="board")
    person.do([task] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([task._replace(parent=0)])
    written.clear()
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("end", 6), ("end", 5)]
    with person.engine.store.read() as view:
        [(waiting, _)] = view.tasks(["job-7"])
    assert waiting.open_dependencies == 0


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_no_task_is_ended_or_changed_if_all_have_dependents(
    person: Person, written: list[tuple[str, int]], lifecycle: str
) -> None:
    task = PLAIN._replace(lifecycle=lifecycle)
    person.do([task] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([task._replace(parent=5)] * 6)
    written.clear()
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("end", 6)]
    with person.engine.store.read() as view:
        versions = [version for _, version in view.tasks([f"job-{n}" for n in range(1, 7)])]
        names = [each.name for each in view.events(0, 100, stream="job-1")]
    assert versions == [4] * 6
    assert len(names) == 4


def test_a_limit_is_seen_by_the_next_claim(person: Person, written: list[tuple[str, int]]) -> None:
    live(person, 6)
    person.do([PLAIN] * 6)
    person.engine.do(SetLimit("intent:dig", running=2), c.Actor("ann"))
    person.do(Claim("w1", "n1", 6))
    assert ("take", -1) in written
    assert len(person.answers[-1]) == 2


def test_a_later_job_with_a_higher_priority_is_taken_first(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN] * 12)
    person.do(Claim("w1", "n1", 6))
    person.do([PLAIN._replace(priority="P0")])
    written.clear()
    person.do(Claim("w1", "n1", 3))
    assert written == [("take", 3)]
    assert person.answers[-1][0].job.id == "job-13"


@pytest.mark.parametrize(
    "other",
    [
        PLAIN._replace(project="yard"),
        PLAIN._replace(lifecycle="board"),
        PLAIN._replace(key="rope"),
        PLAIN._replace(delay=1),
    ],
)
def test_other_work_is_claimed_on_the_general_path(
    person: Person, written: list[tuple[str, int]], other: Any
) -> None:
    live(person, 6)
    person.do([PLAIN] * 5)
    person.do([other])
    person.clock.advance(us=2_000_000)
    written.clear()
    person.do(Claim("w1", "n1", 9))
    assert written[0] == ("take", -1)
    assert sorted(each.job.root_id for each in person.answers[-1]) == sorted(
        f"job-{number}" for number in range(7, 13)
    )
