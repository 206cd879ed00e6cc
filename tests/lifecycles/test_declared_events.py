"""Events of a document's own: dependencies and cancel requests count for them too."""

from dataclasses import replace

import pytest

from detent.errors import Forbidden
from detent.kernel import commands as c
from detent.kernel.world import World
from tests.lifecycles.declared_documents import WORKER, Decisions


def test_a_task_queued_by_its_own_event_waits_for_its_dependency() -> None:
    decisions = Decisions("release")
    decisions.submit("base")
    decisions.submit("task", depends_on=("base",))
    decisions.do(c.SendEvent("task", "task_requested"))
    assert decisions.state("task") == "stopped"
    assert decisions.world.tasks["task"].blocked_by == "dependency"


def test_a_task_queued_by_its_own_event_fails_after_its_dependency() -> None:
    decisions = Decisions("release")
    decisions.submit("base")
    decisions.submit("task", depends_on=("base",))
    decisions.do(c.CancelTask("base", "unwanted"))
    decisions.do(c.SendEvent("task", "task_requested"))
    assert decisions.state("task") == "broken"


def test_an_event_that_follows_the_end_of_the_job_removes_a_late_cancel_request() -> None:
    decisions = Decisions("release")
    decisions.submit("task")
    decisions.do(c.SendEvent("task", "task_requested"))
    grant, run = decisions.claim("task")
    decisions.do(c.CancelTask("task", "unwanted"))
    assert decisions.world.tasks["task"].cancel_reason == "unwanted"
    decisions.do(c.CompleteRun(grant, run), WORKER)
    assert decisions.state("task") == "built"
    assert decisions.world.tasks["task"].cancel_reason is None


def test_a_row_may_name_the_people_who_send_its_event() -> None:
    """`person:NAME` is the caller with that name, as its token has it or with the prefix."""
    decisions = Decisions("release")
    table = decisions.lifecycle
    rows = tuple(
        replace(row, who="person:chief") if row.event == "task_requested" else row
        for row in table.rows
    )
    decisions.world = World(lifecycles={table.id: replace(table, rows=rows)})
    for task_id, name in (("one", "chief"), ("other", "person:chief")):
        decisions.submit(task_id)
        with pytest.raises(Forbidden, match="may not send"):
            decisions.do(c.SendEvent(task_id, "task_requested"), c.Actor("person:ann"))
        decisions.do(c.SendEvent(task_id, "task_requested"), c.Actor(name))
