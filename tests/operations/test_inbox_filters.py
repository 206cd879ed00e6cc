"""The order of the inbox, its filters, assignments and snoozes, and its count."""

from typing import Any

import pytest

from detent.errors import Forbidden, Invalid, NotFound
from detent.kernel import commands as c
from detent.kernel.commands import Actor
from detent.operations.installation import figures
from detent.operations.registry import Caller, Scope
from tests.operations.operations_client import OperationsClient

ADA, GRACE = Caller("ada"), Caller("grace")
HOUR_S = 3_600


def reviewed(client: OperationsClient, **fields: Any) -> str:
    """A task that waits for review."""
    made = client.submit(**fields)
    client.complete()
    return made


def listed(client: OperationsClient, caller: Caller = ADA, **filters: Any) -> list[str]:
    found = client.call("inbox", caller, **filters)
    assert found["count"] == len(found["items"]) + len(found["questions"]) + len(found["refused"])
    return [each["id"] for each in found["items"]]


def test_the_highest_priority_is_first_then_the_oldest() -> None:
    client = OperationsClient()
    made = []
    for priority in ("P2", "P0", "P3", "P0", "P2"):
        made.append(reviewed(client, priority=priority))
        client.later(1)
    assert listed(client) == [made[at] for at in (1, 3, 0, 4, 2)]


def test_questions_of_jobs_are_in_the_same_order() -> None:
    client = OperationsClient()
    for priority in ("P3", "P0", "P1"):
        client.call("submit_job", intent="build", priority=priority)
        client.suspend()
        client.later(1)
    found = client.call("inbox")["questions"]
    assert [each["priority"] for each in found] == ["P0", "P1", "P3"]


def test_more_than_the_lists_have_is_counted() -> None:
    client = OperationsClient()
    for _ in range(1_003):
        last = client.submit(options={"retry": {"max_attempts": 1}}, priority="P3")
        client.fail()
    urgent = reviewed(client, priority="P0")
    for each in (urgent, last):  # in the list of another person, and beyond its end
        client.call("snooze_task", ADA, task_id=each, until="1h")
    found = client.call("inbox", ADA)
    assert (found["count"], found["snoozed"], len(found["items"])) == (1_002, 2, 1_000)
    assert listed(client, snoozed=True) == [urgent, last]
    theirs = client.call("inbox", GRACE, item=last)
    assert [each["id"] for each in theirs["items"]] == [last], "it is beyond the end of the list"
    assert client.call("inbox", GRACE)["items"][0]["id"] == urgent
    assert client.call("inbox", GRACE)["count"] == 1_004


def test_one_item_of_a_task_or_of_a_job() -> None:
    client = OperationsClient()
    one, other = (reviewed(client) for _ in range(2))
    client.call("submit_job", intent="build")
    client.suspend()
    (question,) = client.call("inbox")["questions"]
    found = client.call("inbox", item=one)
    assert (found["count"], [each["id"] for each in found["items"]]) == (1, [one])
    assert found["questions"] == []
    found = client.call("inbox", item=question["job_id"])
    assert (found["count"], found["questions"], found["items"]) == (1, [question], [])
    client.call("snooze_task", task_id=other, until="1h")
    assert client.call("inbox", item=other)["count"] == 0
    assert client.call("inbox", item="no-such-task")["count"] == 0


def test_a_filter_finds_what_is_behind_a_thousand_more_urgent_items() -> None:
    client = OperationsClient()
    reviews = [reviewed(client, priority="P0") for _ in range(1_003)]
    hers = reviewed(client, priority="P3")
    client.call("assign_task", task_id=hers, person="ada")
    failure = client.submit(options={"retry": {"max_attempts": 1}}, priority="P3")
    client.fail()
    assert client.call("inbox", kind="review")["count"] == len(reviews) + 1
    assert listed(client, kind="failure") == [failure]
    assert listed(client, kind="quarantine") == []
    assert listed(client, mine=True) == [hers]
    found = client.call("inbox", unassigned=True)
    assert (found["count"], len(found["items"])) == (len(reviews) + 1, 1_001)


# ---- kinds -------------------------------------------------------------------------------------


def test_every_item_has_a_kind_and_is_found_by_it() -> None:
    client = OperationsClient()
    review = reviewed(client)
    question = client.submit()
    client.suspend("question")
    confirmation = client.submit()
    client.suspend("confirmation")
    failure = client.submit(options={"retry": {"max_attempts": 1}})
    client.fail()
    kinds = {each["id"]: each["kind"] for each in client.call("inbox")["items"]}
    assert kinds == {
        review: "review",
        question: "question",
        confirmation: "confirmation",
        failure: "failure",
    }
    for task_id, kind in kinds.items():
        assert listed(client, kind=kind) == [task_id]
    assert set(listed(client, kind="review, failure")) == {review, failure}
    assert listed(client, kind="quarantine,subtask,budget,refused") == []


def test_an_unknown_kind_is_refused_with_the_kinds() -> None:
    with pytest.raises(Invalid, match="must be one of budget, confirmation, failure") as refused:
        OperationsClient().call("inbox", kind="review,other")
    assert refused.value.details["field"] == "kind"


def test_filters_by_project_and_intent() -> None:
    client = OperationsClient({"build": {}, "check": {}})
    ours = reviewed(client, project="ours")
    checked = reviewed(client, project="ours", intent="check")
    reviewed(client, project="theirs")
    assert listed(client, project="ours") == [ours, checked]
    assert listed(client, project="ours", intent="check") == [checked]
    assert listed(client, intent="nothing") == []


# ---- assignments -------------------------------------------------------------------------------


def test_filters_by_person() -> None:
    client = OperationsClient()
    hers, his, free = (reviewed(client) for _ in range(3))
    client.call("submit_job", intent="build")
    client.suspend()
    client.call("assign_task", task_id=hers, person="ada")
    client.call("assign_task", task_id=his, person="grace")
    assert listed(client, ADA, mine=True) == listed(client, GRACE, assigned_to="ada") == [hers]
    assert listed(client, GRACE, mine=True) == [his]
    found = client.call("inbox", unassigned=True)
    assert [each["id"] for each in found["items"]] == [free]
    assert len(found["questions"]) == 1
    with pytest.raises(Invalid, match="at most one of assigned_to, mine and unassigned"):
        client.call("inbox", mine=True, unassigned=True)


def test_an_assignment_is_shown_with_the_task_and_recorded() -> None:
    client = OperationsClient()
    made = reviewed(client, options={"max_rounds": 3})
    done = client.call("assign_task", GRACE, task_id=made, person="ada")
    assert done["outcome"] == "assigned"
    assert client.call("assign_task", task_id=made, person="ada")["outcome"] == "repeated"
    task = client.task(made)
    assert (task["assigned_to"], task["options"]) == ("ada", {"max_rounds": 3})
    assert client.call("list_tasks")["items"][0]["assigned_to"] == "ada"
    last = client.call("task_events", task_id=made)["events"][-1]
    assert (last["name"], last["data"], last["actor"]) == (
        "task_assigned",
        {"person": "ada"},
        "grace",
    )
    client.call("edit_task", task_id=made, options={"max_rounds": 4})
    assert client.task(made)["assigned_to"] == "ada"
    assert client.call("assign_task", task_id=made)["outcome"] == "unassigned"
    assert client.task(made)["assigned_to"] is None


@pytest.mark.parametrize("person", ["", "two words", "a/b", "x" * 101, "\u202eada", "-ada"])
def test_a_bad_person_is_refused_and_stores_nothing(person: str) -> None:
    client = OperationsClient()
    made = reviewed(client)
    head = client.head()
    with pytest.raises(Invalid) as refused:
        client.call("assign_task", task_id=made, person=person)
    assert refused.value.details["field"] == "person"
    assert client.head() == head


def test_the_name_of_a_person_is_checked() -> None:
    client = OperationsClient()
    made = reviewed(client)
    with pytest.raises(Invalid, match="person must be a name of letters, digits"):
        client.call("assign_task", task_id=made, person="Ada Lovelace")
    with pytest.raises(Invalid, match="assigned_to must be a name of letters, digits"):
        client.call("inbox", assigned_to="Ada Lovelace")


def test_an_assignment_cannot_be_set_as_an_option() -> None:
    client = OperationsClient()
    with pytest.raises(Invalid):
        client.submit(options={"assigned_to": "ada"})


def test_only_reviewers_assign_and_no_run_its_own_task() -> None:
    client = OperationsClient()
    made = reviewed(client)
    reader = Caller("reader", frozenset({Scope.READ}))
    with pytest.raises(Forbidden):
        client.call("assign_task", reader, task_id=made, person="ada")
    agent = Caller("agent", frozenset(Scope), root_id=made)
    assert agent.actor == Actor("agent", made)
    with pytest.raises(Forbidden) as refused:
        client.call("assign_task", agent, task_id=made, person="ada")
    assert refused.value.code == "own_work"


# ---- snoozes -----------------------------------------------------------------------------------


def test_a_snoozed_task_is_hidden_from_one_person_and_comes_back() -> None:
    client = OperationsClient()
    made, other = reviewed(client), reviewed(client)
    head = client.head()
    client.call("snooze_task", ADA, task_id=made, until="2h")
    found = client.call("inbox", ADA)
    assert ([each["id"] for each in found["items"]], found["snoozed"]) == ([other], 1)
    assert found["count"] == 1
    assert listed(client, GRACE) == [made, other]
    (snoozed,) = client.call("inbox", ADA, snoozed=True)["items"]
    assert snoozed["id"] == made
    assert snoozed["snoozed_until"].endswith("Z")
    client.later(2 * HOUR_S - 1)
    assert listed(client, ADA) == [other]
    client.later(1)
    assert listed(client, ADA) == [made, other]
    assert client.call("inbox", ADA)["items"][0]["snoozed_until"] is None
    assert client.head() == head, "a snooze is personal: the log does not have it"


def test_the_health_counts_what_one_person_has_snoozed() -> None:
    client = OperationsClient()
    made = reviewed(client)
    client.call("snooze_task", ADA, task_id=made, until="2h")
    assert figures(client.core).waiting_for_people == client.call("inbox", GRACE)["count"] == 1


def test_a_snooze_ends_early_and_can_be_moved() -> None:
    client = OperationsClient()
    made = reviewed(client)
    client.call("snooze_task", ADA, task_id=made, until="2h")
    moved = client.call("snooze_task", ADA, task_id=made, until="2030-06-01T09:00:00+02:00")
    assert moved == {"id": made, "snoozed_until": "2030-06-01T07:00:00.000Z"}
    assert client.call("snooze_task", ADA, task_id=made) == {"id": made, "snoozed_until": None}
    assert listed(client, ADA) == [made]


def test_snoozes_that_are_over_are_removed() -> None:
    client = OperationsClient()
    made, other = reviewed(client), reviewed(client)
    client.call("snooze_task", ADA, task_id=made, until="1h")
    client.later(HOUR_S)
    client.call("snooze_task", GRACE, task_id=other, until="1h")
    with client.core.store.read() as view:
        assert list(view.rows("snoozes")) == [f"{other}/grace"]


@pytest.mark.parametrize(
    "until", ["", "soon", "0s", "367d", "2020-01-01T00:00:00Z", "2030-01-01T12:00:00"]
)
def test_a_bad_time_is_refused_and_stores_nothing(until: str) -> None:
    client = OperationsClient()
    made = reviewed(client)
    with pytest.raises(Invalid) as refused:
        client.call("snooze_task", task_id=made, until=until)
    assert refused.value.details["field"] == "until"
    with client.core.store.read() as view:
        assert view.rows("snoozes") == {}


def test_a_task_of_another_project_cannot_be_snoozed_or_assigned() -> None:
    client = OperationsClient()
    made = reviewed(client, project="theirs")
    stranger = Caller("stranger", frozenset(Scope), project="ours")
    for operation, given in (("snooze_task", {"until": "1h"}), ("assign_task", {"person": "ada"})):
        with pytest.raises(NotFound):
            client.call(operation, stranger, task_id=made, **given)


def test_an_edit_keeps_an_assignment_that_its_editor_has_not_seen() -> None:
    client = OperationsClient()
    made = reviewed(client)
    client.call("assign_task", task_id=made, person="ada")
    edit = c.EditTask(made, {"options": {"max_rounds": 2, "assigned_to": "grace"}})
    client.core.engine.do(edit, Actor("editor"))
    assert client.call("show_task", task_id=made)["assigned_to"] == "ada"
