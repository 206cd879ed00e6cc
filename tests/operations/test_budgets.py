"""Budgets in operations: limits, task trees, reservations, warnings, raising and costs."""

from typing import Any

import pytest

from detent.engine import Claimed
from detent.errors import Invalid, Refused
from detent.operations.budgets import allowance
from tests.operations.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk({"build": {}, "asks": {"on_budget_exceeded": "ask", "max_budget_usd": 2}})


def by_task(claimed: list[Claimed]) -> dict[str, Claimed]:
    return {each.task.id: each for each in claimed if each.task is not None}


# ---- setting one -----------------------------------------------------------------------------


@pytest.mark.parametrize("given", [0, -1, "0", "-0.5", "much", float("nan"), 10**10])
def test_a_budget_must_be_positive(desk: Desk, given: Any) -> None:
    before = desk.head()
    with pytest.raises(Invalid) as refused:
        desk.submit(max_budget_usd=given)
    assert refused.value.field == "max_budget_usd"
    made = desk.submit(max_budget_usd=1)
    after = desk.head()
    with pytest.raises(Invalid):
        desk.ask("edit_task", task_id=made, max_budget_usd=given)
    assert (before, desk.head()) == (0, after)


def test_an_intent_sets_a_default_budget_and_policy(desk: Desk) -> None:
    task = desk.task(desk.submit(intent="asks"))
    assert (task["budget"], task["options"]) == (2.0, {"on_budget_exceeded": "ask"})
    own = desk.task(
        desk.submit(intent="asks", max_budget_usd=7, options={"on_budget_exceeded": "stop"})
    )
    assert (own["budget"], own["options"]) == (7.0, {"on_budget_exceeded": "stop"})


def test_a_policy_is_stop_or_ask(desk: Desk) -> None:
    with pytest.raises(Invalid, match=r"options\.on_budget_exceeded must be one of stop, ask"):
        desk.submit(options={"on_budget_exceeded": "shrug"})


# ---- spending --------------------------------------------------------------------------------


def test_a_warning_at_eighty_percent_shows_everywhere(desk: Desk) -> None:
    made = desk.submit(max_budget_usd=10)
    held = desk.claim()
    assert desk.charge(held, 7.9) == "ok"
    assert desk.task(made)["usage"]["warned"] is False
    assert "budget_warning" not in desk.reasons(made)
    assert desk.charge(held, 8) == "ok"
    assert desk.task(made)["usage"]["warned"] is True
    assert desk.reasons(made)["budget_warning"]["detail"] == {
        "task": made,
        "budget": 10.0,
        "spent": 8.0,
    }
    assert desk.ask("task_costs", task_id=made)["warned"] is True
    desk.charge(held, 9)
    assert desk.events(made).count("budget_warned") == 1
    log = desk.ask("list_events")["events"]
    assert [each["name"] for each in log].count("budget_warned") == 1


def test_the_warning_of_a_parent_shows_at_its_subtask(desk: Desk) -> None:
    parent = desk.submit(max_budget_usd=10)
    above = desk.claim()
    child = desk.submit(parent_id=parent)
    desk.complete(above)
    desk.charge(desk.claim(), 9)
    assert desk.reasons(child)["budget_warning"]["detail"]["task"] == parent


def test_cost_and_tokens_are_summed_for_task_and_tree(desk: Desk) -> None:
    parent = desk.submit(max_budget_usd=10)
    above = desk.claim()
    desk.charge(above, 1.5, 100)
    child = desk.submit(parent_id=parent, title="below")
    desk.complete(above)
    below = desk.claim()
    desk.charge(below, 0.25, 10)
    desk.suspend("question", below)
    desk.ask("answer_task", task_id=child, answer="yes")
    again = desk.claim()
    desk.charge(again, 0.5, 20)
    usage = desk.task(parent)["usage"]
    assert usage["own"] == {"runs": 1, "cost": 1.5, "tokens_in": 100, "tokens_out": 200}
    assert usage["tree"] == {"runs": 3, "cost": 2.25, "tokens_in": 130, "tokens_out": 260}
    listed = {each["id"]: each["usage"] for each in desk.ask("list_tasks")["items"]}
    assert listed[parent] == usage
    assert listed[child]["own"] == listed[child]["tree"]
    assert listed[child]["own"] == {"runs": 2, "cost": 0.75, "tokens_in": 30, "tokens_out": 60}
    costs = desk.ask("task_costs", task_id=parent)
    assert (costs["budget"], costs["left"], costs["tree"]) == (10.0, 7.75, usage["tree"])
    assert [(each["id"], each["cost"]) for each in costs["tasks"]] == [
        (parent, 2.25),
        (child, 0.75),
    ]
    assert [each["cost"] for each in costs["runs"]] == [1.5, 0.25, 0.5]


# ---- before a start --------------------------------------------------------------------------


def test_a_spent_budget_blocks_the_start_until_it_is_raised(desk: Desk) -> None:
    made = desk.submit(max_budget_usd=1)
    held = desk.claim()
    desk.charge(held, 1)
    desk.complete(held)
    desk.ask("reject_task", task_id=made, run=True)
    assert desk.claims() == []
    assert (desk.task(made)["state"], desk.task(made)["blocked_by"]) == ("blocked", "budget")
    reason = desk.reasons(made)["budget"]
    assert (reason["cleared_by"], reason["detail"]["spent"]) == ("a person", 1.0)
    with pytest.raises(Refused) as refused:
        desk.ask("retry_task", task_id=made)
    assert refused.value.code == "budget_spent"
    with pytest.raises(Refused) as small:
        desk.ask("edit_task", task_id=made, max_budget_usd=1)
    assert small.value.code == "budget_too_small"
    assert desk.ask("edit_task", task_id=made, max_budget_usd=2)["state"] == "queued"
    again = desk.claim()
    assert again.job.attempt == 1
    desk.complete(again)
    assert desk.state(made) == "ready"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_spent_budget_blocks_all_queued_tasks_of_the_tree(desk: Desk, lifecycle: str) -> None:
    parent = desk.submit(lifecycle=lifecycle, max_budget_usd=1)
    above = desk.claim()
    first, second = (desk.submit(lifecycle=lifecycle, parent_id=parent) for _ in range(2))
    desk.charge(above, 1)
    desk.complete(above)
    assert desk.claims() == []
    for child in (first, second):
        assert (desk.state(child), desk.task(child)["blocked_by"]) == ("blocked", "budget")
        assert desk.reasons(child)["budget"]["detail"]["task"] == parent
    desk.ask("edit_task", task_id=parent, max_budget_usd=3)
    assert by_task(desk.claims()).keys() == {first, second}


def test_a_subtask_with_a_budget_reserves_it_from_its_parent(desk: Desk) -> None:
    parent = desk.submit(max_budget_usd=5)
    above = desk.claim()
    children = [desk.submit(parent_id=parent, max_budget_usd=2) for _ in range(2)]
    desk.complete(above)
    held = by_task(desk.claims())
    assert held.keys() == set(children)
    free = desk.submit(parent_id=parent)
    held |= by_task(desk.claims())
    with desk.core.store.read() as view:
        lefts = {name: allowance(view, each.task) for name, each in held.items() if each.task}
    # Each of the two may spend its own two dollars; a task without a budget, the unreserved one.
    assert lefts == {children[0]: 2_000_000, children[1]: 2_000_000, free: 1_000_000}
    desk.charge(held[free], 1)
    third = desk.submit(parent_id=parent, max_budget_usd=2)
    assert desk.claims() == []
    assert desk.task(third)["blocked_by"] == "budget"
    assert desk.reasons(third)["budget"]["looks_again_at"] is not None
    desk.later(10)
    assert (desk.claims(), desk.state(third)) == ([], "blocked")
    desk.complete(held[children[0]])
    desk.later(15)
    assert by_task(desk.claims()).keys() == {third}


def test_subtasks_without_budgets_share_the_remaining_budget(desk: Desk) -> None:
    parent = desk.submit(max_budget_usd=7)
    above = desk.claim()
    desk.charge(above, 1)
    first, second, third = (desk.submit(parent_id=parent) for _ in range(3))
    desk.complete(above)

    def shares(**held: Claimed) -> dict[str, int | None]:
        with desk.core.store.read() as view:
            return {name: allowance(view, each.task) for name, each in held.items() if each.task}

    one = desk.claim()  # before the others have begun
    assert shares(one=one) == {"one": 2_000_000}
    two, three = desk.claims()
    assert shares(one=one, two=two, three=three) == dict.fromkeys(
        ("one", "two", "three"), 2_000_000
    )
    desk.charge(one, 0.5)
    desk.complete(one)  # the others may use what it has not spent
    assert shares(two=two, three=three) == {"two": 2_750_000, "three": 2_750_000}
    own = desk.submit(parent_id=parent, max_budget_usd=2)
    (four,) = desk.claims()
    assert shares(two=two, own=four) == {"two": 1_750_000, "own": 2_000_000}
    assert {each.task.id for each in (one, two, three) if each.task} == {first, second, third}
    assert four.task is not None
    assert four.task.id == own


def test_a_subtask_that_is_added_while_others_run_gets_only_what_is_not_reserved(
    desk: Desk,
) -> None:
    parent = desk.submit(max_budget_usd=10)
    above = desk.claim()
    first, second = (desk.submit(parent_id=parent) for _ in range(2))
    desk.complete(above)
    one = desk.claim()
    assert desk.reserve(one) == 5_000_000
    assert desk.task(first)["state"] == "running"
    added = [desk.submit(parent_id=parent) for _ in range(3)]
    held = by_task(desk.claims())
    assert held.keys() == {second, *added}
    parts = {name: desk.reserve(each) for name, each in held.items()}
    assert parts == dict.fromkeys((second, *added), 1_250_000)
    desk.charge(one, 3)
    late = desk.submit(parent_id=parent)
    assert desk.claims() == [], "everything is spent or reserved"
    assert desk.task(late)["blocked_by"] == "budget"
    desk.complete(one)  # it leaves two of its five dollars
    desk.later(10)
    assert desk.reserve(by_task(desk.claims())[late]) == 2_000_000


def test_a_run_without_a_budget_above_it_reserves_nothing(desk: Desk) -> None:
    made = desk.submit()
    assert desk.reserve(desk.claim()) is None
    assert "run_reserved" not in desk.events(made)


def test_a_share_of_a_budget_is_never_zero(desk: Desk) -> None:
    parent = desk.submit(max_budget_usd=0.000001)
    above = desk.claim()
    children = {desk.submit(parent_id=parent) for _ in range(3)}
    desk.complete(above)
    assert by_task(desk.claims()).keys() == children


def test_a_plan_waits_for_a_budget_too(desk: Desk) -> None:
    plan = {"steps": [{"name": "a", "intent": "build"}]}
    parent = desk.submit(max_budget_usd=1)
    above = desk.claim()
    child = desk.submit(parent_id=parent, options={"plan": plan})
    desk.charge(above, 1)
    desk.complete(above)
    assert desk.claims() == []
    assert desk.reasons(child)["wait:funds"]["detail"]["task"] == parent
    desk.ask("edit_task", task_id=parent, max_budget_usd=2)
    assert desk.claim().job.task_id == child


def test_without_a_budget_nothing_is_reserved(desk: Desk) -> None:
    made = desk.submit()
    held = desk.claim()
    assert desk.charge(held, 1_000) == "ok"
    desk.complete(held)
    assert desk.state(made) == "ready"


# ---- raising ---------------------------------------------------------------------------------


def test_an_edit_is_one_transaction(desk: Desk) -> None:
    made = desk.submit(max_budget_usd=5, priority="P2")
    desk.charge(desk.claim(), 4)
    before = desk.head()
    with pytest.raises(Refused):
        desk.ask("edit_task", task_id=made, title="new", priority="P0", max_budget_usd=3)
    task = desk.task(made)
    assert (task["title"], task["priority"], desk.head()) == ("", "P2", before)
    desk.ask("edit_task", task_id=made, title="new", priority="high", max_budget_usd=6)
    task = desk.task(made)
    assert (task["title"], task["priority"], task["budget"]) == ("new", "P0", 6.0)
    assert desk.events(made)[-3:] == ["task_edited", "job_reprioritised", "budget_raised"]


def test_the_policy_ask_blocks_until_the_budget_is_raised(desk: Desk) -> None:
    made = desk.submit(intent="asks")
    held = desk.claim()
    assert desk.charge(held, 2.5) == "exceeded"
    desk.suspend("budget", held, detail={})
    assert desk.why(made)["actions"] == ["cancel", "raise"]
    assert [each["id"] for each in desk.ask("inbox")["items"]] == [made]
    desk.ask("edit_task", task_id=made, max_budget_usd="5")
    assert desk.state(made) == "queued"
    assert desk.claim().task is not None
