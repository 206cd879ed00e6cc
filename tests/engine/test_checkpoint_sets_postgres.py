"""Checkpoints of plain jobs as sets on PostgreSQL: in one round trip, checked on locked rows."""

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from detent.kernel import commands as c
from detent.store.postgres.connection import Connection, Query
from tests.engine.test_checkpoint_sets import Workflows, on_postgresql
from tests.engine.test_job_sets_postgres import opened


@pytest.fixture(params=["", "board", "review"])
def workflows(request: pytest.FixtureRequest) -> Iterator[Workflows]:
    with on_postgresql(request, request.param) as made:
        yield made


@pytest.fixture
def trips(workflows: Workflows, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of statements of each round trip."""
    assert workflows.written == []
    found: list[int] = []
    run = Connection.run

    def noted(self: Connection, queries: Iterable[Query]) -> Any:
        queries = list(queries)
        found.append(len(queries))
        return run(self, queries)

    monkeypatch.setattr(Connection, "run", noted)
    return found


def test_each_batch_of_a_workflow_is_one_round_trip(workflows: Workflows, trips: list[int]) -> None:
    for number in range(5):
        assert workflows.do(*workflows.steps(f"step-{number}")) == [None] * 6
    assert workflows.end() == ["completed"] * 6
    assert workflows.written == [("record", 6)] * 5 + [("end", 6)]
    assert len(trips) == 6
    assert workflows.names(3)[4:9] == ["checkpoint_recorded"] * 5


def test_a_single_checkpoint_is_one_round_trip(workflows: Workflows, trips: list[int]) -> None:
    workflows.do(workflows.steps("step-0")[1])  # a form is not derived for a single use
    trips.clear()
    for number in range(3):
        assert workflows.do(workflows.steps(f"step-{number}")[0]) == [None]
    assert workflows.written == [("record", 1)] * 3
    assert len(trips) == 3


def test_a_name_that_was_used_is_refused_alone(workflows: Workflows) -> None:
    first, *others = workflows.steps("step-0")
    workflows.do(first, *others[:3])
    assert workflows.do(first, *others[3:], *workflows.steps("step-1")[1:4]) == [
        *("name_used_twice", *[None] * 5),
    ]
    assert workflows.written == [("record", 4), ("record", 6), ("record", 5)]
    assert workflows.names(0)[4:] == ["checkpoint_recorded"]
    assert workflows.do(*workflows.steps("step-2")) == [None] * 6


def test_what_another_process_changed_is_decided_again(
    workflows: Workflows, postgres_url: str
) -> None:
    """The other process cancels a job that this process remembers as plain."""
    workflows.do(*workflows.steps("step-0"))
    cancelled = workflows.person.held[2].grant.job_id
    with opened(postgres_url) as other:
        other.engine.do(c.CancelJob(cancelled, "no more"), c.Actor("ann"))
    assert workflows.do(*workflows.steps("step-1")) == [None] * 6
    assert workflows.written == [("record", 6), ("record", 6), ("record", 5)]
    assert workflows.names(2)[4:] == [
        *("checkpoint_recorded", "job_cancel_requested", "checkpoint_recorded"),
    ]
