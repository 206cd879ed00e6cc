"""Commands about plain jobs as sets write what the general path writes, and answer the same."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import apsw
import pytest
from hypothesis import given, settings

from detent.store.sqlite import SqliteStore
from detent.store.sqlite.set_rows import SqliteJobSets
from detent.testing.clock import VirtualClock
from tests.altered_database import readable
from tests.engine.job_set_scene import (
    AUDITED,
    ENDED,
    PLAIN,
    TABLES,
    Claim,
    Person,
    Report,
    log_of,
    note_sets,
    person_at,
    steps,
)

# ---- comparison ------------------------------------------------------------------------------


@contextmanager
def opened(path: Path, *, sets: bool) -> Iterator[Person]:
    clock = VirtualClock()
    with person_at(SqliteStore(path, clock), clock, sets=sets) as person:
        yield person


def everything(person: Person, path: Path) -> dict[str, Any]:
    """Rows, events by stream with their digests, and answers."""
    database = readable(apsw.Connection(str(path)))
    found: dict[str, Any] = {"answers": person.answers}
    for table, left_out in TABLES.items():
        names = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
        names = [name for name in names if name not in left_out]
        found[table] = sorted(
            map(repr, database.execute(f"SELECT {', '.join(names)} FROM {table}"))
        )
    found |= log_of(person, lambda: database.execute(AUDITED).fetchall())
    database.close()
    return found


def both_ways(work: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    found = []
    with tempfile.TemporaryDirectory() as place:
        for name, sets in (("sets.db", True), ("each.db", False)):
            path = Path(place) / name
            with opened(path, sets=sets) as person:
                for step in work:
                    person.do(step)
                found.append(everything(person, path))
    return found[0], found[1]


@settings(max_examples=80, deadline=None)
@given(steps)
def test_sets_write_what_the_general_path_writes(work: list[Any]) -> None:
    by_sets, one_by_one = both_ways(work)
    assert by_sets == one_by_one


# ---- single cases ----------------------------------------------------------------------------


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    with opened(tmp_path / "detent.db", sets=True) as made:
        yield made


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    return note_sets(monkeypatch, SqliteJobSets, "insert", "claim", "record", "end")


def test_plain_jobs_are_written_as_sets(person: Person, written: list[tuple[str, int]]) -> None:
    person.do([PLAIN] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("insert", 6), ("claim", 6), ("end", 6)]
    assert [each.payload for each in person.held] == [{"n": 1}] * 6


@pytest.mark.parametrize(("lifecycle", "state"), [("board", "done"), ("review", "ready")])
def test_plain_tasks_are_written_as_sets(
    person: Person, written: list[tuple[str, int]], lifecycle: str, state: str
) -> None:
    person.do([PLAIN._replace(lifecycle=lifecycle)] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written == [("insert", 6), ("claim", 6), ("end", 6)]
    assert [each.payload for each in person.held] == [{"n": 1}] * 6
    with person.engine.store.read() as view:
        tasks = list(view.tasks([f"job-{number}" for number in range(1, 7)]))
    assert [(task.state, version) for task, version in tasks] == [(state, 4)] * 6


@pytest.mark.parametrize("lifecycle", ["", "board"])
def test_a_single_submission_is_a_set_if_its_signature_was_used_before(
    person: Person, written: list[tuple[str, int]], lifecycle: str
) -> None:
    submission = PLAIN._replace(lifecycle=lifecycle)
    person.do([submission])
    assert written == []
    person.do([submission._replace(payload="another")])
    person.do([submission._replace(priority="P0")])
    person.do([submission] * 2)
    assert written == [("insert", 1), ("insert", 2)]


def test_a_batch_of_different_submissions_is_one_commit(
    person: Person, written: list[tuple[str, int]]
) -> None:
    different = [PLAIN, PLAIN._replace(intent="saw"), PLAIN._replace(priority="P0")]
    for submission in different:
        person.do([submission])
    with person.engine.store.read() as view:
        before = view.head()
    person.do(different)
    assert written == []
    with person.engine.store.read() as view:
        assert view.commit_boundary(before + 1) == before


def test_signatures_that_are_used_once_are_forgotten(person: Person) -> None:
    with patch("detent.engine.plain_submissions.MAX_FORMS", 2):
        for number in range(3):
            person.do([PLAIN._replace(intent=f"dig-{number}")])
    assert len(person.engine._submissions._used) == 1


def test_a_task_with_a_dependent_ends_on_the_general_path(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN._replace(lifecycle="board")] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([PLAIN._replace(lifecycle="board", parent=0)])
    person.do([ENDED._replace(held=each) for each in range(6)])
    assert written[-1] == ("end", 5)
    with person.engine.store.read() as view:
        [(waiting, _)] = view.tasks(["job-7"])
    assert waiting.open_dependencies == 0


def test_a_refused_completion_is_not_in_the_log(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN] * 6)
    person.do(Claim("w1", "n1", 6))
    person.do([ENDED._replace(held=each, stale=each == 3) for each in range(6)])
    assert written[-1] == ("end", 5)
    assert [each for each in person.answers if isinstance(each, tuple) and each[0] == "stale_fence"]
    with person.engine.store.read() as view:
        refused = view.events(0, 100, stream=person.held[-4].grant.job_id)
    assert refused[-1].name == "run_started"


def test_a_job_that_another_command_names_takes_the_general_path(
    person: Person, written: list[tuple[str, int]]
) -> None:
    person.do([PLAIN] * 5)
    person.do(Claim("w1", "n1", 5))
    person.do(
        [Report("progress", 2, None, None, 0, 0), *(ENDED._replace(held=n) for n in range(5))]
    )
    assert [name for name, _ in written] == ["insert", "claim"]
    with person.engine.store.read() as view:
        names = [each.name for each in view.events(0, 100, stream=person.held[-3].grant.job_id)]
    assert names[-3:] == ["run_progressed", "run_succeeded", "job_completed"]


def test_a_long_set_has_several_commits(person: Person, written: list[tuple[str, int]]) -> None:
    person.do([PLAIN._replace(payload="x" * 30_000)] * 10)
    person.do(Claim("w1", "n1", 10))
    person.do([ENDED._replace(held=each, value="y" * 30_000) for each in range(10)])
    assert written == [("insert", 10), ("claim", 10), ("end", 10)]
    with person.engine.store.read() as view:
        assert len({view.commit_boundary(each) for each in range(1, 60)}) > 8
        names = [each.name for each in view.events(0, 100, stream=person.held[9].grant.job_id)]
    assert len(names) == 6
