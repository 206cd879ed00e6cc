"""The inbox: everything that waits for a person, with what tells one matter from another."""

from tests.operations.desk import Desk

LEASE_S = 31


def quarantine(desk: Desk, **fields: object) -> str:
    """Work that is lost with its worker until no worker is given it any more."""
    made = desk.submit(**fields)
    while desk.task(made)["error_class"] is None:
        desk.claim()
        desk.later(LEASE_S)
    return made


def test_a_quarantine_is_told_from_any_number_of_failures() -> None:
    desk = Desk()
    poison = quarantine(desk)
    card = quarantine(desk, lifecycle="board")
    for _ in range(520):
        desk.submit(options={"retry": {"max_attempts": 1}})
        desk.fail()
    items = desk.ask("inbox")["items"]
    assert len(items) == 522
    assert [each["id"] for each in items if each["error_class"] == "lost"] == [poison, card]
    assert {each["error_class"] for each in items} == {"lost", "error"}


def test_what_goes_on_has_no_failure() -> None:
    desk = Desk()
    poison = quarantine(desk)
    desk.ask("retry_task", task_id=poison)
    assert desk.task(poison)["error_class"] is None
    (listed,) = desk.ask("list_tasks")["items"]
    assert listed["error_class"] is None
