"""Requests for permission: a run asks a person and keeps running until it has the answer."""

from collections.abc import Callable
from typing import Any

import pytest

from detent.kernel import commands as c
from tests.kernel.stories.world import DAY, WORKER, Story, running, running_plan

DETAIL = {"text": "May I?", "options": ["Allow", "Reject"]}


def request(s: Story, name: str = "may-1", step: str | None = None, **more: Any) -> str:
    return s.do(
        c.RequestPermission(s.grant(), s.run_id(step=step), name, detail=DETAIL, **more), WORKER
    )


@pytest.mark.parametrize("lifecycle", ["board", "review", "job"])
def test_the_answer_reaches_a_run_that_keeps_running(lifecycle: str) -> None:
    s = running(lifecycle)
    work = s.job_id("")
    answer: Callable[[Any], c.Command] = (
        (lambda given: c.AnswerJob("J", given))
        if lifecycle == "job"
        else (lambda given: c.AnswerTask("T", given))
    )
    assert request(s) == ""
    assert (s.facts(), s.job().state) == (["wait_begun"], "running")
    assert s.refused(answer("maybe")).code == "not_an_option"
    again = c.RequestPermission(s.grant(), s.run_id(), "may-1")
    assert s.refused(again, WORKER).code == "name_used_twice"
    assert s.do(answer("Allow")) == ""
    assert (s.facts(), s.answer, s.waits()) == (["wait_ended"], "answered", [])
    assert s.fact("wait_ended").value == "Allow"
    assert s.do(c.AnswerJob(work, "Allow", "may-1")) == ""
    assert s.answer == "repeated"
    assert s.succeed().startswith("run_succeeded job_completed")


ENDS: dict[str, Callable[[Story], str]] = {
    "succeeded": lambda s: s.succeed(),
    "failed": lambda s: s.fail("network"),
    "timed out": lambda s: s.time_out(),
    "suspended": lambda s: s.suspend("timer", seconds=30),
    "handed back": lambda s: s.hand_back(),
    "lost": lambda s: s.reclaim(),
    "cancelled": lambda s: s.cancel() + s.stopped(),
}


@pytest.mark.parametrize("end", ENDS)
def test_a_request_ends_with_its_run(end: str) -> None:
    s = running("review")
    request(s)
    ENDS[end](s)
    assert "may-1" not in s.waits()
    assert s.refused(c.AnswerTask("T", "Allow", "may-1")).code == "no_question"


def test_an_unanswered_request_expires_and_the_run_continues() -> None:
    s = running("review")
    request(s, due_at=s.now + DAY)
    s.later(86_400)
    assert s.wake("may-1") == ""
    assert s.fact("wait_ended").outcome == "expired"
    assert s.succeed() == "run_succeeded job_completed task_ready"


def test_the_end_of_a_step_leaves_the_request_of_another_step() -> None:
    s = running_plan("review", "A", "B", plan={"steps": [{"name": "A"}, {"name": "B"}]})
    request(s, "may-a", "A")
    request(s, "may-b", "B")
    s.succeed(step="A")
    assert s.waits() == ["may-b"]
    assert s.do(c.AnswerTask("T", "Reject")) == ""
    assert s.waits() == []
    assert s.succeed(step="B").endswith("job_completed task_ready")
