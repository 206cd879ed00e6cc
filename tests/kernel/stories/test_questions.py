"""Questions and answers: who may answer, what is kept, and what happens without an answer."""

import pytest

from detent.errors import Invalid, Refused
from detent.kernel import commands as c
from tests.kernel.stories.world import Story, running

ASKED = {"text": "Left or right?", "options": ["left", "right"]}


def test_a_review_task_asks_and_is_answered() -> None:
    s = running("review")
    assert s.suspend("question", "q1", detail=ASKED) == (
        "run_succeeded(suspended) job_parked(question) task_blocked(question)"
    )
    assert s.task().blocked_detail == {**ASKED, "wait": "q1"}
    assert s.do(c.AnswerTask("T", "left")) == "task_answered(answered) wait_completed(answered)"
    assert s.answer == "answered"
    assert s.do(c.AnswerTask("T", "left")) == ""
    assert s.answer == "repeated"
    refusal = s.refused(c.AnswerTask("T", "right"))
    assert (refusal.code, refusal.details["answer"]) == ("already_answered", "left")
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.refused(c.AnswerTask("T", "right")).code == "already_answered"
    assert s.succeed() == "run_succeeded job_completed task_ready"


def test_an_answer_is_bound_to_the_version_that_was_seen() -> None:
    s = running("review")
    s.suspend("question", "q1", detail=ASKED)
    seen = s.world.versions["T"]
    s.do(c.EditTask("T", {"title": "new"}))
    assert s.refused(c.AnswerTask("T", "left", "q1", seen)).code == "version_conflict"
    s.do(c.AnswerTask("T", "left", "q1", seen + 1))
    assert s.answer == "answered"
    s.do(c.AnswerTask("T", "left", "q1", seen + 1))
    assert s.answer == "repeated", "the version has changed by the answer itself"


def test_an_answer_must_be_one_of_the_options() -> None:
    s = running("review")
    s.suspend("question", detail=ASKED)
    refusal = s.refused(c.AnswerTask("T", "up"))
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.legal) == ("not_an_option", ("left", "right"))


@pytest.mark.parametrize("detail", [{"text": "Why?"}, {**ASKED, "other": True}])
def test_an_answer_has_text(detail: dict[str, object]) -> None:
    s = running("review")
    s.suspend("question", detail=detail)
    for blank in ("", " \n"):
        with pytest.raises(Invalid, match="no text"):
            s.do(c.AnswerTask("T", blank))
    s.do(c.AnswerTask("T", "because"))
    assert s.answer == "answered"


def test_an_answer_to_no_question_is_refused() -> None:
    s = running("review")
    assert s.refused(c.AnswerTask("T", "left")).code == "no_question"


def test_a_question_that_expires_within_a_minute_waits() -> None:
    s = running("review")
    assert s.suspend("question", detail=ASKED, seconds=45) == (
        "run_succeeded(suspended) job_waiting(question) task_blocked(question)"
    )
    assert s.do(c.AnswerTask("T", "left")) == "task_answered(answered) wait_completed(answered)"


def test_a_board_task_asks_and_is_answered() -> None:
    s = running("board")
    assert s.suspend("question", detail=ASKED) == (
        "run_succeeded(suspended) job_parked(question) task_blocked(question)"
    )
    assert s.do(c.AnswerTask("T", "left")) == "task_unblocked wait_completed(answered)"
    assert s.do(c.AnswerTask("T", "left")) == ""
    assert s.refused(c.AnswerTask("T", "right")).code == "already_answered"
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert s.succeed() == "run_succeeded job_completed task_completed"


def test_a_job_alone_asks_and_is_answered() -> None:
    s = running("job")
    assert s.suspend("question", "q1", detail=ASKED) == (
        "run_succeeded(suspended) job_parked(question)"
    )
    assert s.refused(c.AnswerJob("J", "up")).code == "not_an_option"
    assert s.do(c.AnswerJob("J", "left")) == "wait_completed(answered)"
    assert s.do(c.AnswerJob("J", "left", "q1")) == ""
    assert s.refused(c.AnswerJob("J", "right", "q1")).code == "already_answered"
    assert s.do(c.AnswerJob("J", "left")) == ""
    refusal = s.refused(c.AnswerJob("J", "right"))
    assert (refusal.code, refusal.details["answer"]) == ("already_answered", "left")
    assert s.claim() == "job_running run_queued(1) run_started"
    assert s.do(c.AnswerJob("J", "left")) == ""
    assert s.succeed() == "run_succeeded job_completed"


def test_a_job_alone_that_asked_twice_knows_both_answers() -> None:
    s = running("job")
    assert s.refused(c.AnswerJob("J", "left")).code == "no_question"
    s.suspend("question", "q1", detail=ASKED)
    s.do(c.AnswerJob("J", "left"))
    s.claim()
    s.suspend("timer", "nap", seconds=5)
    s.wake("nap")
    s.claim()
    s.suspend("question", "q2", detail=ASKED)
    assert s.do(c.AnswerJob("J", "right")) == "wait_completed(answered)"
    assert [s.do(c.AnswerJob("J", answer)) for answer in ("left", "right")] == ["", ""]
    assert s.refused(c.AnswerJob("J", "up")).code == "already_answered"


def test_an_answer_to_the_job_of_a_task_is_an_answer_to_the_task() -> None:
    s = running("review")
    s.suspend("question", detail=ASKED)
    assert s.do(c.AnswerJob("T-j1", "left")) == "task_answered(answered) wait_completed(answered)"


@pytest.mark.parametrize(
    ("lifecycle", "events"),
    [
        ("board", "task_unblocked wait_completed({})"),
        ("review", "task_answered({0}) wait_completed({0})"),
        ("job", "wait_completed({})"),
    ],
)
@pytest.mark.parametrize(
    ("detail", "outcome"), [(ASKED, "expired"), ({**ASKED, "default": "left"}, "default")]
)
def test_a_question_without_an_answer(
    lifecycle: str, events: str, detail: dict[str, object], outcome: str
) -> None:
    s = running(lifecycle)
    s.suspend("question", detail=detail, seconds=3600)
    assert s.refused(c.WakeJob(s.job_id(""), "wait")).code == "not_due"
    assert s.wake() == events.format(outcome)
    assert s.claim().startswith("job_running run_queued(1) run_started")


def test_an_answer_that_comes_after_the_default() -> None:
    s = running("review")
    s.suspend("question", detail={**ASKED, "default": "left"}, seconds=45)
    s.wake()
    refusal = s.refused(c.AnswerTask("T", "right"))
    assert (refusal.code, refusal.details["answer"]) == ("already_answered", "left")


def test_an_answer_that_comes_after_the_question_has_expired() -> None:
    s = running("review")
    s.suspend("question", detail=ASKED, seconds=45)
    s.wake()
    assert s.refused(c.AnswerTask("T", "left")).code == "no_question"


@pytest.mark.parametrize("verb", [c.UnblockTask("T"), c.RetryTask("T")])
@pytest.mark.parametrize("kind", ["question", "confirmation"])
def test_an_open_question_is_not_passed_over(kind: str, verb: c.Command) -> None:
    s = running("board")
    s.suspend(kind, detail=ASKED)
    assert s.refused(verb).code == "open_question"


def test_cancelling_clears_the_question() -> None:
    s = running("review")
    s.suspend("question", detail=ASKED)
    assert s.cancel() == "job_cancelled task_cancelled"
    assert s.task().blocked_detail == {}
    assert s.waits() == []
    assert s.refused(c.AnswerTask("T", "left")).code == "no_question"


def test_a_second_question_of_the_same_task() -> None:
    s = running("review")
    s.suspend("question", "q1", detail=ASKED)
    s.do(c.AnswerTask("T", "left"))
    s.claim()
    s.suspend("question", "q2", detail=ASKED)
    assert s.do(c.AnswerTask("T", "left", "q1")) == ""  # a late repetition hits the first one
    assert s.do(c.AnswerTask("T", "right")) == "task_answered(answered) wait_completed(answered)"
    assert s.job().attempt == 1


def test_a_parent_with_an_open_question_is_not_ready() -> None:
    s = Story()
    s.submit("review", "P")
    s.claim("P")
    s.submit("review", "C", parent_id="P")
    s.claim("C")
    assert s.suspend("question", at="P") == (
        "P:run_succeeded(suspended) P:job_parked(question) P:task_blocked(question)"
    )
    assert s.succeed("C") == "C:run_succeeded C:job_completed C:task_completed"
    events = s.do(c.AnswerTask("P", "yes"))
    assert events == "P:task_answered(answered) P:wait_completed(answered)"
    assert s.claim("P") == "P:job_running P:run_queued(1) P:run_started P:task_started"
    assert s.succeed("P") == (
        "P:run_succeeded P:job_completed P:task_blocked(subtasks) P:task_ready"
    )
