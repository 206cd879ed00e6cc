"""Money: charges, warnings, the two policies, raising, and budgets over a whole tree."""

import pytest

from detent.kernel import commands as c
from detent.kernel.world import WAITS
from tests.kernel.stories.world import WORKER, Story, plan, running, running_plan


def charge(s: Story, cost: int, at: str = "", step: str | None = None) -> str:
    s.do(c.ChargeRun(s.grant(at), s.run_id(at, step), cost, 10, 20), WORKER)
    return str(s.answer)


def test_charges_are_totals_of_the_run_and_money_stays_spent() -> None:
    s = running("review", budget=100)
    assert charge(s, 50) == "ok"
    assert charge(s, 40) == "ok"  # a decreasing total is ignored
    assert s.facts() == ["run_charged"]
    assert s.task().spent == 50
    assert charge(s, 80) == "ok"
    assert s.facts() == ["run_charged", "task_charged", "budget_warned"]
    assert charge(s, 100) == "ok"  # all of it, and no more
    assert s.facts() == ["run_charged", "task_charged"]
    assert charge(s, 101) == "exceeded"


def test_a_job_alone_has_no_budget() -> None:
    s = running("job")
    assert charge(s, 1_000_000) == "ok"
    assert s.facts() == ["run_charged"]


def test_policy_stop_in_review_is_final() -> None:
    s = running("review", budget=100)
    charge(s, 101)
    assert s.fail("budget") == "run_failed(budget) job_failed(budget) task_budget_exceeded"
    assert s.refused(c.QueueTask("T")).details["legal"] == []
    assert s.refused(c.RetryTask("T")).details["legal"] == []
    assert s.refused(c.RaiseBudget("T", 500)).code == "task_ended"


@pytest.mark.parametrize(
    ("lifecycle", "end"), [("board", "task_completed"), ("review", "task_ready")]
)
def test_policy_ask_blocks_until_the_budget_is_raised(lifecycle: str, end: str) -> None:
    s = running(lifecycle, budget=100)
    charge(s, 101)
    assert s.suspend("budget") == (
        "run_succeeded(suspended) job_parked(budget) task_blocked(budget)"
    )
    assert s.refused(c.RetryTask("T")).code == "budget_spent"
    assert s.refused(c.UnblockTask("T")).code == "budget_spent"
    assert s.refused(c.RaiseBudget("T", 101)).code == "budget_too_small"
    assert s.do(c.RaiseBudget("T", 200)) == "task_unblocked wait_completed(raised)"
    assert s.facts() == ["budget_raised"]
    assert s.claim() == "job_running run_queued(1) run_started task_started"
    assert charge(s, 50) == "ok"  # a new run, whose totals begin again
    assert s.task().spent == 151
    assert s.succeed() == f"run_succeeded job_completed {end}"


def test_policy_stop_on_the_board_waits_for_a_person() -> None:
    s = running("board", budget=100)
    charge(s, 101)
    assert s.fail("budget") == "run_failed(budget) job_failed(budget) task_blocked(budget,0)"
    assert s.look() == ""
    assert s.refused(c.RetryTask("T")).code == "budget_spent"
    assert s.do(c.RaiseBudget("T", 200)) == "task_unblocked job_requeued(retried)"
    assert s.claim() == "job_running run_queued(1) run_started task_started"


def test_a_job_alone_that_stops_or_asks() -> None:
    s = running("job")
    assert s.fail("budget") == "run_failed(budget) job_failed(budget)"
    s = running("job")
    assert s.suspend("budget") == "run_succeeded(suspended) job_parked(budget)"
    assert s.do(c.AnswerJob("J", "go on")) == "wait_completed(answered)"


def test_policy_stop_in_a_plan_stops_the_sibling_too() -> None:
    s = running_plan("review", "A", "B", plan=plan("A", "B"), budget=100)
    assert charge(s, 101, step="A") == "exceeded"
    assert s.fail("budget", step="A") == (
        "A:run_failed(budget) A:step_failed_fatal(budget) A:step_failed(failed)"
    )
    assert charge(s, 0, step="B") == "exceeded"
    assert s.fail("budget", step="B") == (
        "B:run_failed(budget) B:step_failed_fatal(budget) B:step_failed(failed) "
        "job_failed(budget) task_budget_exceeded"
    )


def test_policy_ask_in_a_plan_suspends_the_step() -> None:
    s = running_plan("review", "A", plan=plan("A"), budget=100)
    charge(s, 101, step="A")
    assert s.suspend("budget", step="A") == (
        "A:run_succeeded(suspended) job_parked(budget) task_blocked(budget)"
    )
    assert s.do(c.RaiseBudget("T", 200)) == "task_unblocked wait_completed(raised)"
    assert s.claim("T", "A") == "job_running A:run_queued(1) A:run_started task_started"


def test_a_budget_that_is_raised_while_a_sibling_runs() -> None:
    s = running_plan("board", "A", "B", plan=plan("A", "B"), budget=100)
    charge(s, 101, step="A")
    assert s.suspend("budget", step="A") == "A:run_succeeded(suspended)"
    assert s.do(c.RaiseBudget("T", 200)) == ""
    assert s.facts() == ["budget_raised", "wait_ended"]
    assert s.start("A") == "A:run_queued(1) A:run_started"


@pytest.mark.parametrize(
    ("exceeded", "end"), [(True, "task_unblocked wait_completed(raised)"), (False, "")]
)
def test_a_budget_that_is_raised_before_the_run_sleeps(exceeded: bool, end: str) -> None:
    """A run that was stopped by detent goes on; one that stopped by itself would stop again."""
    s = running("review", budget=100)
    charge(s, 101)
    s.do(c.RaiseBudget("T", 200))
    sleeps = c.SuspendRun(s.grant(), s.run_id(), "wait", "budget", detail={"exceeded": exceeded})
    slept = "run_succeeded(suspended) job_parked(budget) task_blocked(budget)"
    assert s.do(sleeps, WORKER) == f"{slept} {end}".strip()
    assert s.answer == ("queued" if exceeded else "parked")


def test_no_step_starts_when_another_has_spent_the_budget() -> None:
    s = running_plan("review", "A", plan=plan("A", "B"), budget=100, on_budget_exceeded="ask")
    assert charge(s, 100, step="A") == "ok"  # all of it, and no more
    assert s.refused(c.StartStep(s.grant(), "B"), WORKER).code == "budget_spent"
    assert s.succeed(step="A") == "A:run_succeeded A:step_succeeded"
    assert s.rest() == "job_parked(funds) task_blocked(budget)"
    assert s.waits() == ["funds:1"]
    assert s.do(c.RaiseBudget("T", 200)) == "task_unblocked wait_completed(raised)"
    assert s.claim("T", "B").endswith("B:run_started task_started")


def test_policy_stop_in_a_plan_starts_no_other_step() -> None:
    s = running_plan("review", "A", plan=plan("A", "B"), budget=100)
    charge(s, 101, step="A")
    s.fail("budget", step="A")
    assert s.refused(c.StartStep(s.grant(), "B"), WORKER).code == "budget_spent"
    assert s.rest() == "job_failed(budget) task_budget_exceeded"


def test_one_raise_ends_the_waits_for_it_once() -> None:
    """A step waits for more money, and so does its job, which found none when it was claimed."""
    s = running_plan("board", "A", plan=plan("A", "B"), budget=100)
    charge(s, 101, step="A")
    s.suspend("budget", step="A")
    s.reclaim()
    assert s.claim() == "job_running job_parked(budget)"
    assert s.do(c.RaiseBudget("T", 200)) == "wait_completed(raised)"
    assert s.facts() == ["budget_raised"]
    assert s.waits() == []


# ---- trees -----------------------------------------------------------------------------------


def tree(lifecycle: str, **budgets: int) -> Story:
    """P waits for its subtask C, which is at work."""
    s = Story()
    s.submit(lifecycle, "P", budget=budgets.get("P"))
    s.claim("P")
    s.submit(lifecycle, "C", parent_id="P", budget=budgets.get("C"))
    s.claim("C")
    return s


def test_a_subtask_spends_its_parents_budget() -> None:
    s = tree("review", P=100)
    s.succeed("P")
    assert charge(s, 90, "C") == "ok"
    assert (s.task("P").spent, s.task("C").spent) == (90, 90)
    assert charge(s, 101, "C") == "exceeded"
    assert s.fail("budget", "C") == (
        "C:run_failed(budget) C:job_failed(budget) C:task_budget_exceeded"
    )
    assert (s.task("P").state, s.task("P").failed_subtask) == ("blocked", "C")


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_raising_the_parents_budget_lets_the_subtask_go_on(lifecycle: str) -> None:
    s = tree(lifecycle, P=100)
    charge(s, 101, "C")
    assert s.suspend("budget", at="C") == (
        "C:run_succeeded(suspended) C:job_parked(budget) C:task_blocked(budget)"
    )
    assert s.do(c.RaiseBudget("C", 500)) == ""  # it is not its own budget that is spent
    assert s.do(c.RaiseBudget("P", 200)) == "C:task_unblocked C:wait_completed(raised)"
    assert s.claim("C") == "C:job_running C:run_queued(1) C:run_started C:task_started"


def test_two_budgets_that_are_spent_must_both_be_raised() -> None:
    s = tree("board", P=100, C=50)
    charge(s, 101, "C")
    s.suspend("budget", at="C")
    assert s.do(c.RaiseBudget("P", 200)) == ""
    assert s.do(c.RaiseBudget("C", 200)) == "C:task_unblocked C:wait_completed(raised)"


def test_raising_the_parents_budget_takes_up_a_subtask_that_was_stopped() -> None:
    s = tree("board", P=100)
    charge(s, 101, "C")
    assert s.fail("budget", "C") == (
        "C:run_failed(budget) C:job_failed(budget) C:task_blocked(budget,0)"
    )
    assert s.do(c.RaiseBudget("P", 200)) == "C:task_unblocked C:job_requeued(retried)"


def test_raising_a_budget_moves_nothing_that_waits_for_something_else() -> None:
    s = tree("review", P=100)
    s.suspend("question", at="C")
    assert s.do(c.RaiseBudget("P", 200)) == ""
    assert s.task("C").state == "blocked"


# ---- before a start --------------------------------------------------------------------------


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_claim_without_money_ends_before_it_has_begun(lifecycle: str) -> None:
    s = running(lifecycle, budget=100)
    charge(s, 100)
    s.suspend("question")
    s.do(c.AnswerTask("T", "yes"))
    assert s.claim() == (
        "job_running run_queued(1) run_started task_started "
        "run_succeeded(suspended) job_parked(funds) task_blocked(budget)"
    )
    assert s.answer is None  # no worker holds it
    assert s.refused(c.RetryTask("T")).code == "budget_spent"
    assert s.do(c.RaiseBudget("T", 200)) == "task_unblocked wait_completed(raised)"
    assert s.claim() == "job_running run_queued(1) run_started task_started"


def test_money_that_a_sibling_holds_comes_back_when_it_ends() -> None:
    s = tree("review", P=100, C=80)
    s.submit("review", "D", parent_id="P", budget=50)
    charge(s, 10, "C")
    s.claim("D")
    assert s.task("D").state == "running"  # a hundred, less ten spent, less seventy held
    s.submit("review", "E", parent_id="P", budget=50)
    assert s.claim("E") == (
        "E:job_running E:run_queued(1) E:run_started E:task_started "
        "E:run_succeeded(suspended) E:job_waiting(funds) E:task_blocked(budget)"
    )
    assert s.later(5).wake("funds:1", "E") == ""  # it looks again, later
    s.succeed("C")
    assert s.later(5).wake("funds:1", "E") == "E:task_unblocked E:wait_completed(available)"


def test_money_that_a_sibling_has_spent_must_be_raised() -> None:
    s = tree("review", P=100, C=100)
    s.submit("review", "E", parent_id="P", budget=50)
    assert s.claim("E").endswith("E:job_waiting(funds) E:task_blocked(budget)")
    charge(s, 100, "C")
    s.succeed("C")
    assert s.later(10).wake("funds:1", "E") == "E:job_parked(funds)"
    (wait,) = s.world.parts_of(WAITS, "E-j1").values()
    assert wait.due_at is None  # nothing checks again in vain
    assert "E:wait_completed(raised)" in s.do(c.RaiseBudget("P", 200))


def test_a_task_below_draws_on_what_its_own_parent_holds() -> None:
    s = Story()
    s.submit("review", "P", budget=100)
    s.submit("review", "C", parent_id="P", budget=100)
    s.claim("C")
    s.submit("review", "D", parent_id="C")
    assert s.claim("D").endswith("D:task_started")
    s.submit("review", "E", parent_id="P")
    assert s.claim("E").endswith("E:task_blocked(budget)")
