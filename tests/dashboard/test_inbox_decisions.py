"""Decisions in the inbox: undone, sent later or when the page is left, or for many together."""

import json
import re
from datetime import date, timedelta

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.dashboard.conftest import UNDO_MS, sign_in, stop_clock
from tests.dashboard.scenes import Scene
from tests.dashboard.test_inbox_page import COMMENT, open_item
from tests.e2e.installation import wait_until


def review(detent: Scene, title: str, **fields: object) -> str:
    return detent.submit("change", {}, "ready", title=title, **fields)


@pytest.mark.parametrize("how", ["button", "key"])
def test_undo_takes_a_decision_back(timed: Page, detent: Scene, how: str) -> None:
    page = timed
    first, second = review(detent, f"Undone by {how}"), review(detent, f"Decided after {how}")
    open_item(page, detent, first)
    page.get_by_label(COMMENT).fill("Well done")
    stop_clock(page)
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#matter-title")).not_to_have_text(f"Undone by {how}")
    if how == "button":
        page.get_by_role("button", name="Undo").click()
    else:
        page.locator("h1").click()
        page.keyboard.press("z")
    expect(page.locator("#matter-title")).to_have_text(f"Undone by {how}")
    expect(page).to_have_url(f"{detent.url}/inbox/{first}")
    expect(page.get_by_label(COMMENT)).to_have_value("Well done")
    page.clock.resume()
    open_item(page, detent, second)
    page.get_by_role("button", name="Accept").click()
    detent.last_event(second, "task_accepted")
    assert "task_accepted" not in detent.events(first)


def test_a_decision_is_sent_when_the_page_is_left(context: BrowserContext, detent: Scene) -> None:
    task_id = review(detent, "Left behind")
    page = context.new_page()
    open_item(page, detent, task_id)
    page.get_by_role("button", name="Accept").click()
    expect(page.locator(".toast")).to_contain_text("Accepted: Left behind")
    page.close(run_before_unload=True)
    detent.last_event(task_id, "task_accepted")


def test_a_decision_is_sent_before_the_session_ends(
    stranger: BrowserContext, detent: Scene
) -> None:
    task_id = review(detent, "Signed out")
    page = sign_in(stranger.new_page(), detent)
    open_item(page, detent, task_id)
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("button", name=re.compile("^Sign out")).click()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    assert detent.task(task_id)["state"] == "completed"


def test_a_refused_decision_comes_back_with_the_reason(timed: Page, detent: Scene) -> None:
    page = timed
    task_id, other = review(detent, "Contested"), review(detent, "Shown meanwhile")
    open_item(page, detent, task_id)
    page.route("**/accept", lambda route: route.continue_(post_data='{"seen": 9999}'))
    stop_clock(page)
    page.get_by_role("button", name="Accept").click()
    expect(page).not_to_have_url(re.compile(task_id))
    page.clock.run_for(UNDO_MS)
    toast = page.locator(".toast.bad")
    expect(toast).to_contain_text("Refused: Contested. Task")
    toast.get_by_role("button", name="Show").click()
    page.clock.resume()
    expect(page.locator("#matter-title")).to_have_text("Contested")
    expect(page.get_by_role("alert")).to_contain_text("version 9999 was reviewed")
    assert detent.task(other)["state"] == "ready"


def test_the_count_is_the_same_everywhere(page: Page, detent: Scene) -> None:
    review(detent, "Counted")
    review(detent, "Counted too")
    page.goto(detent.url)
    count = detent.get("/api/inbox")["count"]
    assert detent.json("inbox", "--json")["count"] == count
    assert f"{count} waiting." in detent.run("inbox", "--list").stdout
    expect(page.locator("nav .count")).to_contain_text(str(count))
    expect(page).to_have_title(f"({count}) Inbox · detent")
    expect(page.get_by_text(f"{count} items waiting, the most urgent first")).to_be_visible()
    page.get_by_role("button", name="Accept").first.click()
    expect(page).to_have_title(f"({count - 1}) Inbox · detent")


# ---- many --------------------------------------------------------------------------------------


def test_many_are_accepted_and_refusals_are_listed(page: Page, detent: Scene) -> None:
    tasks = [review(detent, f"Batch {at}", project="batch") for at in range(3)]
    failed = detent.submit("fail", {}, "failed", title="Batch failed", project="batch")

    def stale(route: Route) -> None:
        body = json.loads(route.request.post_data or "")
        body["seen"][tasks[1]] += 5
        route.continue_(post_data=json.dumps(body))

    page.route("**/api/many/accept", stale)
    page.goto(f"{detent.url}/?project=batch")
    expect(page.locator(".matter-entry")).to_have_count(4)
    page.keyboard.press("x")
    for title in ("Batch 1", "Batch 2", "Batch failed"):
        page.get_by_role("checkbox", name=f"Select {title}").check()
    bar = page.get_by_role("group", name="Selected rows")
    expect(bar).to_contain_text("4 selected")
    expect(bar.get_by_role("button", name="Retry 1")).to_be_visible()
    bar.get_by_role("button", name="Accept 3").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("3 items of the 4 selected allow this")
    dialog.get_by_role("button", name="Accept 3").click()
    refused = page.get_by_role("list", name="Refused").get_by_role("listitem")
    expect(refused).to_have_count(1)
    expect(refused).to_contain_text("has changed")
    assert [detent.task(each)["state"] for each in tasks] == ["completed", "ready", "completed"]
    assert detent.task(failed)["state"] == "failed"


def test_refusals_are_shown_when_no_selected_item_is_left(page: Page, detent: Scene) -> None:
    task_id = review(detent, "Taken by another", project="taken")

    def overtake(route: Route) -> None:
        detent.post(f"/api/tasks/{task_id}/accept", {})
        route.continue_()

    page.route("**/api/many/accept", overtake)
    page.goto(f"{detent.url}/?project=taken")
    page.get_by_role("checkbox", name="Select Taken by another").check()
    page.get_by_role("button", name="Accept 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Accept 1").click()
    expect(page.get_by_text("No item matches the filters.")).to_be_visible()
    expect(page.get_by_role("list", name="Refused").get_by_role("listitem")).to_have_count(1)
    page.get_by_role("dialog").get_by_role("button", name="Close").click()
    expect(page.get_by_role("group", name="Selected rows")).to_have_count(0)


def test_many_are_assigned_and_snoozed(page: Page, detent: Scene) -> None:
    titles = [f"Later {at}" for at in range(2)]
    tasks = [review(detent, title, project="later-many") for title in titles]

    def choose() -> None:
        for title in titles:
            page.get_by_role("checkbox", name=f"Select {title}").check()

    page.goto(f"{detent.url}/?project=later-many")
    choose()
    page.get_by_role("button", name="Assign 2…").click()
    dialog = page.get_by_role("dialog", name="Assign 2 items")
    dialog.get_by_role("combobox").fill("kim")
    dialog.get_by_role("button", name="Assign", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("Assigned to kim: 2 items")
    assert [detent.task(each)["assigned_to"] for each in tasks] == ["kim", "kim"]
    expect(page.get_by_role("group", name="Selected rows")).to_have_count(0)

    choose()
    page.get_by_role("button", name="Snooze 2…").click()
    page.get_by_role("dialog", name="Snooze 2 items").get_by_role("button", name="for 1").click()
    expect(page.get_by_text("No item matches the filters.")).to_be_visible()
    waiting = detent.get("/api/inbox")["items"]
    assert not {each["id"] for each in waiting} & set(tasks)
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.get_by_role("checkbox", name="Select Later 1")).to_be_visible()
    expect(page.locator(".toast")).to_contain_text("In the inbox again: 2 items")


def test_a_refused_assignment_of_many_is_reported(page: Page, detent: Scene) -> None:
    review(detent, "Not for them", project="refused-many")
    page.goto(f"{detent.url}/?project=refused-many")
    page.get_by_role("checkbox", name="Select Not for them").check()
    page.get_by_role("button", name="Assign 1…").click()
    page.route("**/assign", lambda route: route.abort())
    page.get_by_role("dialog").get_by_role("button", name="Assign", exact=True).click()
    expect(page.locator(".toast.bad")).to_contain_text("0 items. 1 refused: ")


def test_a_refused_name_says_in_words_what_is_allowed(page: Page, detent: Scene) -> None:
    open_item(page, detent, review(detent, "For a full name"))
    page.get_by_role("button", name="Assign…").click()
    page.get_by_role("dialog").get_by_label("Person").fill("Ada Lovelace")
    page.get_by_role("dialog").get_by_role("button", name="Assign").click()
    expect(page.locator(".toast.bad")).to_have_text(
        "person must be a name of letters, digits and . _ : @ - without spaces, at most 100 "
        "characters, not 'Ada Lovelace'."
    )


def test_many_are_rejected_with_one_comment(page: Page, detent: Scene) -> None:
    tasks = [review(detent, f"Weak {at}", project="weak") for at in range(2)]
    page.goto(f"{detent.url}/?project=weak")
    for at in range(2):
        page.get_by_role("checkbox", name=f"Select Weak {at}").check()
    page.get_by_role("button", name="Reject 2").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Comment (the next run of each gets it)").fill("Add tests.")
    dialog.get_by_role("button", name="Reject 2").click()
    for task_id in tasks:
        rejected = detent.last_event(task_id, "task_rejected")
        assert rejected["data"]["comment"] == "Add tests."
        detent.wait_for(task_id, "ready")


# ---- failures ----------------------------------------------------------------------------------

#: The buttons of a failure, by the action that the server must allow.
BUTTONS = {
    "retry": ("Retry", "Edit and retry"),
    "cancel": ("Cancel the task",),
    "delete": ("Delete the task",),
    "dismiss": ("Dismiss",),
}


def failed_subtask(detent: Scene) -> str:
    parent = detent.submit("family", {}, "blocked", title="Parent of a failure")
    (child,) = detent.get(f"/api/tasks/{parent}/subtasks")["items"]
    detent.wait_for(child["id"], "failed")
    return str(child["id"])


@pytest.mark.parametrize("lifecycle", ["review", "board", "subtask"])
def test_a_failure_offers_every_legal_action(page: Page, detent: Scene, lifecycle: str) -> None:
    if lifecycle == "subtask":
        task_id = failed_subtask(detent)
    else:
        task_id = detent.submit(
            "fail", {}, "failed", "blocked", lifecycle=lifecycle, title="Broken"
        )
    items = detent.get("/api/inbox")["items"]
    (item,) = [each for each in items if each["id"] == task_id]
    legal = [each["action"] for each in item["actions"]]
    assert "retry" in legal
    open_item(page, detent, task_id)
    matter = page.get_by_role("region", name="Failed")
    expect(matter.get_by_role("button", name="Retry", exact=True)).to_be_visible()
    for action, names in BUTTONS.items():
        for name in names:
            button = matter.get_by_role("button", name=name, exact=True)
            expect(button).to_have_count(1 if action in legal else 0)


def test_edit_and_retry(page: Page, detent: Scene) -> None:
    task_id = detent.submit("fail", {"message": "no disk"}, "failed", title="Mistyped")
    mended = detent.let("edited")
    (detent.project / "edited").touch()
    open_item(page, detent, task_id)
    page.keyboard.press("e")
    form = page.get_by_role("form", name="Edit and retry")
    expect(form.get_by_label("message")).to_have_value("no disk")
    expect(form.get_by_label("message")).to_be_focused()
    form.get_by_label("mended").fill(mended)
    form.get_by_label("New budget in dollars").fill("2.5")
    form.get_by_role("button", name="Save and retry").click()
    detent.wait_for(task_id, "ready")
    task = detent.task(task_id)
    assert task["payload"] == {"message": "no disk", "mended": mended}
    assert task["budget"] == 2.5


# ---- assignment and snooze ---------------------------------------------------------------------


def test_assign_and_filter_by_person(page: Page, detent: Scene) -> None:
    mine = review(detent, "For me", project="people")
    hers = review(detent, "For Ada", project="people")
    open_item(page, detent, mine)
    page.keyboard.press("m")
    assert detent.last_event(mine, "task_assigned")["data"] == {"person": "owner"}
    open_item(page, detent, hers)
    page.keyboard.press("p")
    page.get_by_role("dialog").get_by_label(re.compile("^Person")).fill("ada")
    page.get_by_role("dialog").get_by_role("button", name="Assign").click()
    assert detent.last_event(hers, "task_assigned")["data"] == {"person": "ada"}
    page.goto(f"{detent.url}/?project=people&group=person")
    expect(page.locator(".group-name")).to_have_text(["owner 1", "ada 1"])
    page.get_by_label("Filter by person").select_option("me")
    expect(page.locator(".matter-title")).to_have_text(["For me"])
    page.get_by_label("Filter by person").select_option("ada")
    expect(page.locator(".matter-title")).to_have_text(["For Ada"])
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".matter-entry")).not_to_have_count(1)


def test_a_snoozed_item_is_hidden_until_it_is_wanted_again(page: Page, detent: Scene) -> None:
    task_id = review(detent, "Not now", project="later")
    page.goto(f"{detent.url}/?project=later")
    expect(page.locator("#matter-title")).to_have_text("Not now")
    page.keyboard.press("s")
    dialog = page.get_by_role("dialog", name="Snooze this item")
    expect(dialog.get_by_role("button", name="for 1 hour")).to_be_focused()
    # Closed without a choice, it leaves the other keys as they were.
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    # The palette has the actions on the open item too.
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Command palette")
    expect(palette.get_by_role("combobox")).to_be_focused()
    page.keyboard.type("snooze the")
    expect(palette.get_by_role("option").first).to_contain_text("Snooze the item")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("button", name="for 1 hour")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("No item matches the filters.")).to_be_visible()
    expect(page.locator(".toast")).to_contain_text("Snoozed until")
    assert task_id not in [each["id"] for each in detent.get("/api/inbox")["items"]]
    page.get_by_role("button", name="1 snoozed").click()
    expect(page.locator("#matter-title")).to_have_text("Not now")
    page.get_by_role("button", name="End the snooze").click()
    expect(page.get_by_text("No item matches the filters.")).to_be_visible()
    page.get_by_role("button", name="Back to the inbox").click()
    expect(page.locator("#matter-title")).to_have_text("Not now")


def test_a_snooze_until_another_time_is_undone(timed: Page, detent: Scene) -> None:
    page = timed
    some_day = date.today() + timedelta(days=100)
    task_id = review(detent, "Some day", project="someday")
    page.goto(f"{detent.url}/inbox/{task_id}?project=someday")
    page.get_by_role("button", name="Snooze").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Another time").fill(f"{some_day}T12:30")
    stop_clock(page)
    dialog.get_by_role("button", name="Snooze").click()
    found = wait_until(
        lambda: detent.get("/api/inbox?snoozed=true&project=someday")["items"], "the snooze"
    )
    assert found[0]["snoozed_until"].startswith(f"{some_day}T")
    page.get_by_role("button", name="Undo").click()
    page.clock.resume()
    expect(page.locator("#matter-title")).to_have_text("Some day")
    assert detent.get("/api/inbox?snoozed=true&project=someday")["items"] == []


def test_groups_and_keys_follow_the_order_on_the_screen(page: Page, detent: Scene) -> None:
    for title, priority, intent in (
        ("One", "P1", "change"),
        ("Two", "P0", "print"),
        ("Three", "P2", "change"),
        ("Four", "P0", "change"),
    ):
        payload = {"text": "hello"} if intent == "print" else {}
        fields = {"title": title, "priority": priority, "project": "ordered"}
        detent.submit(intent, payload, "ready", **fields)
    page.goto(f"{detent.url}/?project=ordered")
    titles = page.locator(".matter-title")
    expect(titles).to_have_text(["Two", "Four", "One", "Three"])
    page.get_by_label("Group by").select_option("intent")
    expect(page.locator(".group-name")).to_have_text(["print 1", "change 3"])
    expect(titles).to_have_text(["Two", "Four", "One", "Three"])
    page.locator("h1").click()
    for title in ("Four", "One", "Three", "Three"):
        page.keyboard.press("j")
        expect(page.locator("#matter-title")).to_have_text(title)
    expect(page).to_have_url(re.compile("project=ordered&group=intent"))
