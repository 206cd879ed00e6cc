"""Checkpoints of plain jobs are written as sets; every other one is decided by itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from detent.engine import CommandRequest, Engine
from detent.engine.job_forms import Recorded
from detent.errors import DetentError
from detent.kernel import commands as c
from detent.store.job_sets import MAX_STEPS
from detent.store.postgres.set_rows import PostgresJobSets
from detent.store.sqlite.set_rows import SqliteJobSets
from tests.engine.job_set_scene import PLAIN, Claim, Person
from tests.engine.test_job_sets import opened
from tests.engine.test_job_sets_postgres import opened as opened_postgresql

WORKER = c.Actor("worker:w1")


class Workflows:
    """Six claimed jobs, whose checkpoints and ends are written in batches."""

    def __init__(self, person: Person, **fields: Any) -> None:
        self.person, self.engine = person, person.engine
        person.do([PLAIN._replace(**fields)] * 6)
        person.do(Claim("w1", "n1", 6))
        #: The sets that were written: the operation and the number of jobs.
        self.written: list[tuple[str, int]] = []

    def do(self, *commands: c.Command) -> list[Any]:
        """Execute a batch; returns values, and the codes of refusals."""
        results = self.engine.execute([CommandRequest(command, WORKER) for command in commands])
        return [each.code if isinstance(each, DetentError) else each.value for each in results]

    def steps(self, name: str) -> list[Any]:
        return [c.RecordCheckpoint(each.grant, name, {"n": 1}) for each in self.person.held]

    def end(self) -> list[Any]:
        return self.do(
            *(c.CompleteRun(each.grant, f"{each.grant.job_id}-r1", 1) for each in self.person.held)
        )

    def names(self, number: int) -> list[str]:
        """The names of the events of a job."""
        job_id = self.person.held[number].grant.job_id
        with self.engine.store.read() as view:
            return [each.name for each in view.events(0, 100, stream=job_id)]


@contextmanager
def noted(sets: type[SqliteJobSets] | type[PostgresJobSets], made: Workflows) -> Iterator[None]:
    """Notes the sets that are written."""
    record: Any = sets.record
    end: Any = sets.end

    def note_record(self: Any, some: Any, *more: Any) -> None:
        made.written.append(("record", len(some)))
        record(self, some, *more)

    def note_end(self: Any, jobs: Any, some: Any, *more: Any) -> None:
        made.written.append(("end", len(some)))
        end(self, jobs, some, *more)

    with patch.object(sets, "record", note_record), patch.object(sets, "end", note_end):
        yield


@contextmanager
def on_sqlite(request: pytest.FixtureRequest, lifecycle: str) -> Iterator[Workflows]:
    path: Path = request.getfixturevalue("tmp_path")
    with opened(path / "detent.db", sets=True) as person:
        made = Workflows(person, lifecycle=lifecycle)
        with noted(SqliteJobSets, made):
            yield made


@contextmanager
def on_postgresql(request: pytest.FixtureRequest, lifecycle: str) -> Iterator[Workflows]:
    with opened_postgresql(request.getfixturevalue("postgres_url")) as person:
        made = Workflows(person, lifecycle=lifecycle)
        with noted(PostgresJobSets, made):
            yield made


@pytest.fixture(params=["", "board", "review"])
def workflows(request: pytest.FixtureRequest) -> Iterator[Workflows]:
    with on_sqlite(request, request.param) as made:
        yield made


@pytest.fixture(params=[on_sqlite, on_postgresql])
def on_either(request: pytest.FixtureRequest) -> Iterator[Workflows]:
    with request.param(request, "board") as made:
        yield made


def test_workflows_are_written_as_sets(workflows: Workflows) -> None:
    for number in range(5):
        assert workflows.do(*workflows.steps(f"step-{number}")) == [None] * 6
    assert workflows.end() == ["completed"] * 6
    assert workflows.written == [("record", 6)] * 5 + [("end", 6)]
    for number in range(6):
        assert workflows.names(number)[4:] == [
            *["checkpoint_recorded"] * 5,
            *("run_succeeded", "job_completed"),
        ]


def test_checkpoints_of_different_versions_share_a_commit(workflows: Workflows) -> None:
    steps = [workflows.steps(f"step-{number}") for number in range(2)]
    workflows.do(*steps[0][:4])
    with workflows.engine.store.read() as view:
        before = view.head()
    workflows.do(*steps[1][:4], *steps[0][4:])
    assert workflows.written == [("record", 4), ("record", 6)]
    with workflows.engine.store.read() as view:
        assert (view.head(), view.commit_boundary(before + 5)) == (before + 6, before)


def test_a_name_that_was_used_is_refused_alone(workflows: Workflows) -> None:
    first, *others = workflows.steps("step-0")
    workflows.do(first)
    assert workflows.do(first, *others) == ["name_used_twice", *[None] * 5]
    assert workflows.written == [("record", 5)]
    assert workflows.names(0)[4:] == ["checkpoint_recorded"]


def test_a_stale_grant_is_refused_alone(on_either: Workflows) -> None:
    steps = on_either.steps("step-0")
    for number, change in ((1, {"fence": 2}), (3, {"nonce": "of-another-claim"})):
        grant = steps[number].grant._replace(**change)
        steps[number] = c.RecordCheckpoint(grant, "step-0", 1)
    assert on_either.do(*steps) == [None, "stale_fence", None, "stale_fence", None, None]
    assert on_either.written[-1] == ("record", 4)
    assert on_either.names(1)[4:] == on_either.names(3)[4:] == []


def test_jobs_of_another_process_are_read_first(workflows: Workflows) -> None:
    """The engine does not remember jobs that it has not claimed."""
    workflows.engine = Engine(workflows.engine.store)
    first, *others = workflows.steps("step-0")
    workflows.do(first)
    assert workflows.do(first, *others) == ["name_used_twice", *[None] * 5]
    assert workflows.written == [("record", 5)]
    workflows.engine = Engine(workflows.engine.store)
    assert workflows.do(*workflows.steps("step-1")) == [None] * 6
    assert workflows.end() == ["completed"] * 6
    assert workflows.written == [("record", 5), ("record", 6), ("end", 6)]


def test_a_single_checkpoint_is_a_set_if_its_signature_was_used_before(
    workflows: Workflows,
) -> None:
    steps = workflows.steps("step-0")
    for step in steps[:3]:
        assert workflows.do(step) == [None]
    assert workflows.written == [("record", 1)] * 2
    assert workflows.do(workflows.steps("step-1")[2]) == [None]
    assert workflows.do(steps[2]) == ["name_used_twice"]
    assert workflows.names(2)[4:] == ["checkpoint_recorded"] * 2


def test_signatures_of_single_checkpoints_are_forgotten(workflows: Workflows) -> None:
    known = workflows.engine._plain
    with patch("detent.engine.plain_jobs.MAX_FORMS", 2):
        for number in range(3):
            assert not known.was_used(Recorded(f"worker:{number}", "barn", "{}", None))
    assert len(known._used) == 1


def test_two_checkpoints_of_a_job_in_a_batch_keep_their_order(workflows: Workflows) -> None:
    commands = [*workflows.steps("step-0"), workflows.steps("step-1")[0]]
    assert workflows.do(*commands) == [None] * 7
    assert workflows.written == []
    assert workflows.names(0)[4:] == ["checkpoint_recorded"] * 2


@pytest.mark.parametrize("other", ["progress", "effect", "cancel"])
def test_a_job_to_which_something_else_happened_is_not_in_a_set(
    workflows: Workflows, other: str
) -> None:
    grant = workflows.person.held[0].grant
    commands: dict[str, c.Command] = {
        "progress": c.ReportProgress(grant, f"{grant.job_id}-r1", 0.5, "half"),
        "effect": c.BeginEffect(grant, "mail", "ask"),
        "cancel": c.CancelJob(grant.job_id, "no more"),
    }
    workflows.do(*workflows.steps("step-0"))
    workflows.do(commands[other])
    workflows.do(*workflows.steps("step-1"))
    workflows.end()
    assert workflows.written == [("record", 6), ("record", 6), ("record", 5), ("end", 5)]
    recorded = workflows.names(0).count("checkpoint_recorded")
    assert (recorded, workflows.names(5)[4:6]) == (2, ["checkpoint_recorded"] * 2)


def test_a_long_workflow_continues_on_the_general_path(on_either: Workflows) -> None:
    for number in range(MAX_STEPS + 3):
        assert on_either.do(*on_either.steps(f"step-{number}")) == [None] * 6
    assert on_either.end() == ["completed"] * 6
    assert on_either.written == [("record", 6)] * MAX_STEPS
    assert on_either.names(5)[4:-2] == ["checkpoint_recorded"] * (MAX_STEPS + 3)


def test_a_value_that_is_not_json_is_refused_alone(workflows: Workflows) -> None:
    steps = workflows.steps("step-0")
    steps[2] = c.RecordCheckpoint(steps[2].grant, "step-0", object())
    answers = workflows.do(*steps)
    assert [answer for answer in answers if answer is not None] == ["invalid"]
    assert workflows.names(2)[4:] == []
    assert workflows.names(3)[4:] == ["checkpoint_recorded"]
