"""Best of N: variants as subtasks, the choice of one, and the work that continues with it."""

from typing import Any

import pytest

from detent.kernel import commands as c
from detent.kernel.commands.review_commands import ReviewedDiff
from detent.kernel.variants import CHOSEN, VARIANT, latest_set
from tests.kernel.stories.world import WORKER, Story

OUTCOMES = {"outcomes": True}
ASKED = {"text": "Which variant?", "options": ["1", "2", "3"], "variants": ["A", "B", "C"]}


def variants(lifecycle: str = "review", names: str = "ABC", **options: Any) -> Story:
    """P has created its variants and waits for them."""
    s = Story()
    s.submit(lifecycle, "P", variants=len(names), **options)
    s.claim("P")
    create(s, names, lifecycle)
    needs = tuple(f"task:{name}" for name in names)
    s.suspend("subtasks", "variants", "P", needs=needs, detail=OUTCOMES)
    return s


def create(s: Story, names: str, lifecycle: str = "review", number_of_set: int = 1) -> None:
    for number, name in enumerate(names, 1):
        marked = {"number": number, "job_id": s.job("P").id, "set": number_of_set}
        s.submit(lifecycle, name, parent_id="P", options={VARIANT: marked})


def asked(**options: Any) -> Story:
    """All variants of P have ended well, and P asks a person to choose."""
    s = variants(**options)
    for name in "ABC":
        s.claim(name)
        s.do(c.OpenSession(s.grant(name), f"session-{name}"), WORKER)
        s.succeed(name)
    s.claim("P")
    s.suspend("question", "choice", "P", detail=ASKED)
    return s


def test_a_person_chooses_and_the_next_round_continues_the_chosen_work() -> None:
    s = asked(max_rounds=5)
    assert (s.states("P"), s.task("P").blocked_by) == ("blocked parked", "question")
    assert s.do(c.ChooseVariant("P", "2")) == "P:task_answered(answered) P:wait_completed(answered)"
    assert s.answer == "chosen"
    assert s.fact("variant_chosen").task_id == "B"
    s.claim("P")
    assert s.succeed("P", result="of B").endswith("P:task_ready")
    assert s.task("P").session_id == "session-B"
    s.do(c.RejectTask("P", "shorter", run=True))
    again = s.job("P")
    assert again.options[CHOSEN]["task_id"] == "B"
    assert "variants" not in again.options
    assert again.options["max_rounds"] == 5


def test_the_others_are_cancelled_and_the_task_waits_until_they_have_stopped() -> None:
    s = variants()
    for name in "AB":
        s.claim(name)
    s.succeed("A")
    chosen = s.do(c.ChooseVariant("P", "A"))
    assert chosen == "C:job_cancelled(another variant was chosen) " + (
        "C:task_cancelled(another variant was chosen)"
    )
    assert (s.task("A").state, s.task("C").state) == ("completed", "cancelled")
    assert (s.states("B"), s.states("P")) == ("running running", "running parked")
    assert s.job("B").cancel_reason == "another variant was chosen"
    assert s.stopped("B").endswith("P:wait_completed(signalled)")
    assert s.task("P").open_subtasks == 0
    s.claim("P")
    assert s.succeed("P").endswith("P:task_ready")


def test_a_variant_that_ends_well_although_it_was_to_stop_is_not_a_second_choice() -> None:
    s = variants(names="AB")
    s.claim("A")
    s.claim("B")
    s.succeed("A")
    s.do(c.ChooseVariant("P", "1"))
    s.succeed("B")
    assert s.task("B").state == "completed"
    assert s.refused(c.ChooseVariant("P", "2")).code == "already_chosen"
    assert s.do(c.ChooseVariant("P", "1")) == ""
    assert (s.answer, s.last) == ("repeated", [])


def test_a_choice_just_before_the_question_answers_it() -> None:
    s = variants(names="AB")
    for name in "AB":
        s.claim(name)
        s.succeed(name)
    s.claim("P")
    s.do(c.ChooseVariant("P", "2"))
    s.suspend("question", "choice", "P", detail=ASKED)
    assert s.states("P") == "queued queued"


def test_an_answer_to_the_question_is_a_choice() -> None:
    s = asked()
    s.do(c.AnswerTask("P", 3))
    assert s.task("P").options[CHOSEN]["task_id"] == "C"
    assert s.do(c.AnswerTask("P", "3")) == ""
    assert s.answer == "repeated"


def test_a_failed_variant_does_not_fail_the_task() -> None:
    s = variants(names="AB")
    s.claim("A")
    s.claim("B")
    s.fail(at="A")
    assert s.states("P") == "running parked"
    assert s.succeed("B").endswith("P:wait_completed(signalled)")
    assert s.task("P").settled == ("A",)
    s.claim("P")
    refusal = s.refused(c.ChooseVariant("P", "1"))
    assert (refusal.code, refusal.details["state"]) == ("variant_not_done", "failed")
    s.do(c.ChooseVariant("P", "2"))
    assert s.succeed("P").endswith("P:task_ready")


def test_choices_that_are_refused_change_nothing() -> None:
    s = asked()
    s.submit("review", "F")
    s.submit("review", "S", parent_id="F")
    for given in ("0", "4", "-1", "x", "", "S", "P"):
        assert s.refused(c.ChooseVariant("P", given)).code == "invalid"
    assert s.refused(c.ChooseVariant("F", "1")).code == "no_variants"
    assert s.refused(c.ChooseVariant("P", "1", seen=1)).code == "version_conflict"
    old = ReviewedDiff("abc", s.job("A").id, 1)
    assert s.refused(c.ChooseVariant("P", "1", diff=old)).code == "diff_changed"
    for actor in (c.Actor("agent", root_id="P"), c.Actor("run:x@P")):
        assert s.refused(c.ChooseVariant("P", "1"), actor).code == "own_work"
    s.cancel("P")
    assert s.refused(c.ChooseVariant("P", "1")).code == "no_variants"


def test_verdicts_wait_for_the_choice() -> None:
    s = asked()
    for verdict in (c.AcceptTask("P"), c.RejectTask("P", run=True)):
        assert s.refused(verdict).code == "open_question"


def test_options_that_are_edited_keep_the_choice() -> None:
    s = asked()
    s.do(c.ChooseVariant("P", "1"))
    s.do(c.EditTask("P", {"options": {"max_rounds": 2, CHOSEN: {"task_id": "B"}}}))
    assert s.task("P").options[CHOSEN]["task_id"] == "A"


def test_variants_share_the_budget_of_the_task_and_stop_with_it() -> None:
    s = Story()
    s.submit("review", "P", variants=2, budget=1_000)
    s.claim("P")
    create(s, "AB")
    s.suspend("subtasks", "variants", "P", needs=("task:A", "task:B"), detail=OUTCOMES)
    s.claim("A")
    s.claim("B")
    s.do(c.ReserveFunds(s.grant("A"), s.run_id("A")), WORKER)
    assert s.answer == 500
    s.do(c.ChargeRun(s.grant("A"), s.run_id("A"), 1_001), WORKER)
    assert (s.answer, s.task("P").spent) == ("exceeded", 1_001)
    s.fail("budget", "A")
    assert s.fail("budget", "B").endswith("P:wait_completed(signalled)")
    # The job itself spends nothing: it is claimed although the budget is spent.
    s.claim("P")
    assert s.fail("budget", "P").endswith("P:task_budget_exceeded")


def test_the_first_variant_that_ends_wakes_a_job_that_waits_for_any() -> None:
    s = Story()
    s.submit("board", "P", variants=2)
    s.claim("P")
    create(s, "AB", "board")
    detail = {**OUTCOMES, "any": True}
    s.suspend("subtasks", "v1", "P", needs=("task:A", "task:B"), detail=detail)
    s.claim("A")
    assert s.succeed("A").endswith("P:wait_completed(signalled)")
    s.claim("P")
    s.suspend("subtasks", "v2", "P", needs=("task:B",), detail=detail)
    assert s.job("P").state == "parked"
    s.do(c.ChooseVariant("P", "1"))
    assert (s.task("B").state, s.job("P").state) == ("cancelled", "queued")
    s.claim("P")
    assert s.succeed("P", result=1).endswith("P:task_completed")


def test_a_retried_task_has_a_new_set_of_variants() -> None:
    s = variants(names="AB")
    for name in "AB":
        s.claim(name)
        s.fail(at=name)
    s.claim("P")
    assert s.fail(at="P").endswith("P:task_failed(error)")
    s.do(c.RetryTask("P"))
    s.claim("P")
    create(s, "DE", number_of_set=2)
    found = latest_set([s.task(name) for name in "ABDE"], s.job("P").id)
    assert [each.id for each in found] == ["D", "E"]
    s.claim("D")
    s.succeed("D")
    s.do(c.ChooseVariant("P", "1"))
    assert s.task("P").options[CHOSEN]["task_id"] == "D"
    assert s.refused(c.ChooseVariant("P", "A")).code == "invalid"


def test_an_intent_of_the_chosen_variant_is_that_of_the_next_job() -> None:
    s = Story()
    s.submit("review", "P", variants=["build", "other"])
    s.claim("P")
    job_id = s.job("P").id
    mark = {"number": 2, "job_id": job_id, "set": 1}
    command = c.SubmitTask(
        "A", "demo", "review", "other", "cli", parent_id="P", options={VARIANT: mark}
    )
    s.do(command, WORKER)
    s.claim("A")
    s.succeed("A")
    s.do(c.ChooseVariant("P", "2"), WORKER)
    s.succeed("P")
    s.do(c.RejectTask("P", run=True))
    assert (s.task("P").intent, s.job("P").intent) == ("build", "other")


@pytest.mark.parametrize("lifecycle", ["review", "board"])
def test_a_cancel_of_the_task_cancels_its_variants(lifecycle: str) -> None:
    s = variants(lifecycle)
    s.cancel("P")
    assert [s.task(name).state for name in "PABC"] == ["cancelled"] * 4
