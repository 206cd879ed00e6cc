"""Budgets in operations: limits, task trees, reservations, warnings, raising and costs."""

from typing import Any

import pytest

from detent.engine import Claimed
from detent.errors import Invalid, Refused
from detent.operations.budgets import allowance
from tests.operations.operations_client import OperationsClient


@pytest.fixture
def client() -> OperationsClient:
    return OperationsClient(
        {"build": {}, "asks": {"on_budget_exceeded": "ask", "max_budget_usd": 2}}
    )


def by_task(claimed: list[Claimed]) -> dict[str, Claimed]:
    return {each.task.id: each for each in claimed if each.task is not None}


# ---- setting one -----------------------------------------------------------------------------


@pytest.mark.parametrize("given", [0, -1, "0", "-0.5", "much", float("nan"), 10**10])
def test_a_budget_must_be_positive(client: OperationsClient, given: Any) -> None:
    before = client.head()
    with pytest.raises(Invalid) as refused:
        client.submit(max_budget_usd=given)
    assert refused.value.field == "max_budget_usd"
    made = client.submit(max_budget_usd=1)
    after = client.head()
    with pytest.raises(Invalid):
        client.call("edit_task", task_id=made, max_budget_usd=given)
    assert (before, client.head()) == (0, after)


def test_an_intent_sets_a_default_budget_and_policy(client: OperationsClient) -> None:
    task = client.task(client.submit(intent="asks"))
    assert (task["budget"], task["options"]) == (2.0, {"on_budget_exceeded": "ask"})
    own = client.task(
        client.submit(intent="asks", max_budget_usd=7, options={"on_budget_exceeded": "stop"})
    )
    assert (own["budget"], own["options"]) == (7.0, {"on_budget_exceeded": "stop"})


def test_a_policy_is_stop_or_ask(client: OperationsClient) -> None:
    with pytest.raises(Invalid, match=r"options\.on_budget_exceeded must be one of stop, ask"):
        client.submit(options={"on_budget_exceeded": "shrug"})


# ---- spending --------------------------------------------------------------------------------


def test_a_warning_at_eighty_percent_shows_everywhere(client: OperationsClient) -> None:
    made = client.submit(max_budget_usd=10)
    held = client.claim()
    assert client.charge(held, 7.9) == "ok"
    assert client.task(made)["usage"]["warned"] is False
    assert "budget_warning" not in client.reasons(made)
    assert client.charge(held, 8) == "ok"
    assert client.task(made)["usage"]["warned"] is True
    assert client.reasons(made)["budget_warning"]["detail"] == {
        "task": made,
        "budget": 10.0,
        "spent": 8.0,
    }
    assert client.call("task_costs", task_id=made)["warned"] is True
    client.charge(held, 9)
    assert client.events(made).count("budget_warned") == 1
    log = client.call("list_events")["events"]
    assert [each["name"] for each in log].count("budget_warned") == 1


def test_the_warning_of_a_parent_shows_at_its_subtask(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=10)
    above = client.claim()
    child = client.submit(parent_id=parent)
    client.complete(above)
    client.charge(client.claim(), 9)
    assert client.reasons(child)["budget_warning"]["detail"]["task"] == parent


def test_cost_and_tokens_are_summed_for_task_and_tree(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=10)
    above = client.claim()
    client.charge(above, 1.5, 100)
    child = client.submit(parent_id=parent, title="below")
    client.complete(above)
    below = client.claim()
    client.charge(below, 0.25, 10)
    client.suspend("question", below)
    client.call("answer_task", task_id=child, answer="yes")
    again = client.claim()
    client.charge(again, 0.5, 20)
    usage = client.task(parent)["usage"]
    assert usage["own"] == {"runs": 1, "cost": 1.5, "tokens_in": 100, "tokens_out": 200}
    assert usage["tree"] == {"runs": 3, "cost": 2.25, "tokens_in": 130, "tokens_out": 260}
    listed = {each["id"]: each["usage"] for each in client.call("list_tasks")["items"]}
    assert listed[parent] == usage
    assert listed[child]["own"] == listed[child]["tree"]
    assert listed[child]["own"] == {"runs": 2, "cost": 0.75, "tokens_in": 30, "tokens_out": 60}
    costs = client.call("task_costs", task_id=parent)
    assert (costs["budget"], costs["left"], costs["tree"]) == (10.0, 7.75, usage["tree"])
    assert [(each["id"], each["cost"]) for each in costs["tasks"]] == [
        (parent, 2.25),
        (child, 0.75),
    ]
    assert [(each["cost"], each["outcome"]) for each in costs["runs"]] == [
        (1.5, "done"),
        (0.25, "suspended"),
        (0.5, None),
    ]


# ---- before a start --------------------------------------------------------------------------


def test_a_spent_budget_blocks_the_start_until_it_is_raised(client: OperationsClient) -> None:
    made = client.submit(max_budget_usd=1)
    held = client.claim()
    client.charge(held, 1)
    client.complete(held)
    client.call("reject_task", task_id=made, run=True)
    assert client.claims() == []
    assert (client.task(made)["state"], client.task(made)["blocked_by"]) == ("blocked", "budget")
    reason = client.reasons(made)["budget"]
    assert (reason["cleared_by"], reason["detail"]["spent"]) == ("a person", 1.0)
    with pytest.raises(Refused) as refused:
        client.call("retry_task", task_id=made)
    assert refused.value.code == "budget_spent"
    with pytest.raises(Refused) as small:
        client.call("edit_task", task_id=made, max_budget_usd=1)
    assert small.value.code == "budget_too_small"
    assert client.call("edit_task", task_id=made, max_budget_usd=2)["state"] == "queued"
    again = client.claim()
    assert again.job.attempt == 1
    client.complete(again)
    assert client.state(made) == "ready"


@pytest.mark.parametrize("lifecycle", ["board", "review"])
def test_a_spent_budget_blocks_all_queued_tasks_of_the_tree(
    client: OperationsClient, lifecycle: str
) -> None:
    parent = client.submit(lifecycle=lifecycle, max_budget_usd=1)
    above = client.claim()
    first, second = (client.submit(lifecycle=lifecycle, parent_id=parent) for _ in range(2))
    client.charge(above, 1)
    client.complete(above)
    assert client.claims() == []
    for child in (first, second):
        assert (client.state(child), client.task(child)["blocked_by"]) == ("blocked", "budget")
        assert client.reasons(child)["budget"]["detail"]["task"] == parent
    client.call("edit_task", task_id=parent, max_budget_usd=3)
    assert by_task(client.claims()).keys() == {first, second}


def test_a_subtask_with_a_budget_reserves_it_from_its_parent(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=5)
    above = client.claim()
    children = [client.submit(parent_id=parent, max_budget_usd=2) for _ in range(2)]
    client.complete(above)
    held = by_task(client.claims())
    assert held.keys() == set(children)
    free = client.submit(parent_id=parent)
    held |= by_task(client.claims())
    with client.core.store.read() as view:
        lefts = {name: allowance(view, each.task) for name, each in held.items() if each.task}
    # Each of the two may spend its own two dollars; a task without a budget, the unreserved one.
    assert lefts == {children[0]: 2_000_000, children[1]: 2_000_000, free: 1_000_000}
    client.charge(held[free], 1)
    third = client.submit(parent_id=parent, max_budget_usd=2)
    assert client.claims() == []
    assert client.task(third)["blocked_by"] == "budget"
    assert client.reasons(third)["budget"]["looks_again_at"] is not None
    client.later(10)
    assert (client.claims(), client.state(third)) == ([], "blocked")
    client.complete(held[children[0]])
    client.later(15)
    assert by_task(client.claims()).keys() == {third}


def test_subtasks_without_budgets_share_the_remaining_budget(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=7)
    above = client.claim()
    client.charge(above, 1)
    first, second, third = (client.submit(parent_id=parent) for _ in range(3))
    client.complete(above)

    def shares(**held: Claimed) -> dict[str, int | None]:
        with client.core.store.read() as view:
            return {name: allowance(view, each.task) for name, each in held.items() if each.task}

    one = client.claim()  # before the others have begun
    assert shares(one=one) == {"one": 2_000_000}
    two, three = client.claims()
    assert shares(one=one, two=two, three=three) == dict.fromkeys(
        ("one", "two", "three"), 2_000_000
    )
    client.charge(one, 0.5)
    client.complete(one)  # the others may use what it has not spent
    assert shares(two=two, three=three) == {"two": 2_750_000, "three": 2_750_000}
    own = client.submit(parent_id=parent, max_budget_usd=2)
    (four,) = client.claims()
    assert shares(two=two, own=four) == {"two": 1_750_000, "own": 2_000_000}
    assert {each.task.id for each in (one, two, three) if each.task} == {first, second, third}
    assert four.task is not None
    assert four.task.id == own


def test_a_subtask_that_is_added_while_others_run_gets_only_what_is_not_reserved(
    client: OperationsClient,
) -> None:
    parent = client.submit(max_budget_usd=10)
    above = client.claim()
    first, second = (client.submit(parent_id=parent) for _ in range(2))
    client.complete(above)
    one = client.claim()
    assert client.reserve(one) == 5_000_000
    assert client.task(first)["state"] == "running"
    added = [client.submit(parent_id=parent) for _ in range(3)]
    held = by_task(client.claims())
    assert held.keys() == {second, *added}
    parts = {name: client.reserve(each) for name, each in held.items()}
    assert parts == dict.fromkeys((second, *added), 1_250_000)
    client.charge(one, 3)
    late = client.submit(parent_id=parent)
    assert client.claims() == [], "everything is spent or reserved"
    assert client.task(late)["blocked_by"] == "budget"
    client.complete(one)  # it leaves two of its five dollars
    client.later(10)
    assert client.reserve(by_task(client.claims())[late]) == 2_000_000


def test_a_run_without_a_budget_above_it_reserves_nothing(client: OperationsClient) -> None:
    made = client.submit()
    assert client.reserve(client.claim()) is None
    assert "run_reserved" not in client.events(made)


def test_a_share_of_a_budget_is_never_zero(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=0.000001)
    above = client.claim()
    children = {client.submit(parent_id=parent) for _ in range(3)}
    client.complete(above)
    assert by_task(client.claims()).keys() == children


def test_a_plan_waits_for_a_budget_too(client: OperationsClient) -> None:
    plan = {"steps": [{"name": "a", "intent": "build"}]}
    parent = client.submit(max_budget_usd=1)
    above = client.claim()
    child = client.submit(parent_id=parent, options={"plan": plan})
    client.charge(above, 1)
    client.complete(above)
    assert client.claims() == []
    assert client.reasons(child)["wait:funds"]["detail"]["task"] == parent
    client.call("edit_task", task_id=parent, max_budget_usd=2)
    assert client.claim().job.task_id == child


def test_without_a_budget_nothing_is_reserved(client: OperationsClient) -> None:
    made = client.submit()
    held = client.claim()
    assert client.charge(held, 1_000) == "ok"
    client.complete(held)
    assert client.state(made) == "ready"


# ---- raising ---------------------------------------------------------------------------------


def test_an_edit_is_one_transaction(client: OperationsClient) -> None:
    made = client.submit(max_budget_usd=5, priority="P2")
    client.charge(client.claim(), 4)
    before = client.head()
    with pytest.raises(Refused):
        client.call("edit_task", task_id=made, title="new", priority="P0", max_budget_usd=3)
    task = client.task(made)
    assert (task["title"], task["priority"], client.head()) == ("", "P2", before)
    client.call("edit_task", task_id=made, title="new", priority="high", max_budget_usd=6)
    task = client.task(made)
    assert (task["title"], task["priority"], task["budget"]) == ("new", "P0", 6.0)
    assert client.events(made)[-3:] == ["task_edited", "job_reprioritised", "budget_raised"]


def test_the_policy_ask_blocks_until_the_budget_is_raised(client: OperationsClient) -> None:
    made = client.submit(intent="asks")
    held = client.claim()
    assert client.charge(held, 2.5) == "exceeded"
    client.suspend("budget", held, detail={})
    assert client.why(made)["actions"] == ["cancel", "raise"]
    assert [each["id"] for each in client.call("inbox")["items"]] == [made]
    client.call("edit_task", task_id=made, max_budget_usd="5")
    assert client.state(made) == "queued"
    assert client.claim().task is not None


def test_a_retry_with_a_higher_budget_continues_the_subtasks_too(client: OperationsClient) -> None:
    parent = client.submit(intent="asks")
    held = client.claim()
    subtask = client.submit(parent_id=parent)
    spender = client.claim()
    client.charge(spender, 3)
    for each in (spender, held):
        client.suspend("budget", each, detail={"exceeded": True})
    blocked = [client.task(each)["blocked_by"] for each in (parent, subtask)]
    assert blocked == ["budget", "budget"]
    client.call("retry_task", task_id=parent, max_budget_usd=10)
    assert (client.state(parent), client.state(subtask)) == ("queued", "queued")


def test_a_manual_run_without_money_is_refused(client: OperationsClient) -> None:
    parent = client.submit(max_budget_usd=1)
    held = client.claim()
    subtask = client.submit(parent_id=parent)
    client.charge(held, 2)
    with pytest.raises(Refused) as refused:
        client.call("begin_run", job_id=f"{subtask}-j1")
    assert refused.value.code == "budget_spent"
    assert client.task(subtask)["blocked_by"] == "budget"


def test_a_task_that_failed_for_good_says_why(client: OperationsClient) -> None:
    made = client.submit(max_budget_usd=1, lifecycle="review")
    held = client.claim()
    client.charge(held, 2)
    client.fail(held, "budget")
    assert client.task(made)["state"] == "budget_exceeded"
    reason = client.reasons(made)["budget_exceeded"]
    assert reason["how"] == "submit it again with a higher budget"
    assert reason["detail"] == {
        "error_class": "budget",
        "error": "it broke",
        "budget": 1.0,
        "spent": 2.0,
    }


def test_a_task_that_ended_well_or_was_cancelled_has_no_reason(client: OperationsClient) -> None:
    done, cancelled = client.submit(lifecycle="board"), client.submit(lifecycle="board")
    client.complete(client.claim())
    client.call("cancel_task", task_id=cancelled)
    assert client.task(done)["state"] == "done"
    assert client.task(cancelled)["state"] == "cancelled"
    assert client.reasons(done) == client.reasons(cancelled) == {}
