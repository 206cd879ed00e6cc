"""Schedules in the dashboard: created, edited and deleted, with the tasks that they submitted."""

import re
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.dashboard.scenes import Scene
from tests.dashboard.test_accessibility import SCHEMES, flaws, wear
from tests.e2e.installation import wait_until

REFUSAL = {"detail": "Not for you.", "code": "forbidden", "hint": ""}


def test_create_edit_and_delete_a_schedule(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/schedules")
    page.get_by_role("button", name="New schedule").click()
    page.get_by_label("Task type").select_option("print")
    form = page.get_by_role("form", name="Schedule")
    form.get_by_label("Name").fill("hourly")
    form.get_by_label("Cron expression").fill("not a cron")
    form.get_by_label("text").fill("hello")
    form.get_by_role("button", name="Save the schedule").click()
    expect(form.get_by_role("alert")).to_be_visible()
    assert detent.get("/api/schedules")["items"] == []
    form.get_by_label("Cron expression").fill("0 * * * *")
    for scheme in SCHEMES:
        wear(page, scheme)
        assert flaws(page) == []
    form.get_by_role("button", name="Save the schedule").click()
    row = page.locator('tr[data-id="hourly"]')
    expect(row).to_contain_text("0 * * * *")
    row.get_by_role("button", name="Edit").click()
    expect(form.get_by_label("text")).to_have_value("hello")
    form.get_by_label("Or an interval in seconds").fill("7200")
    form.get_by_label("text").fill("hello again")
    form.get_by_role("button", name="Save the schedule").click()
    expect(row).to_contain_text("every 2 h")
    (schedule,) = detent.get("/api/schedules")["items"]
    assert (schedule["payload"], schedule["cron"]) == ({"text": "hello again"}, None)
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the schedule").click()
    expect(row).to_have_count(0)
    assert detent.get("/api/schedules")["items"] == []


def test_axe_finds_nothing_in_the_form(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/schedules")
    page.get_by_role("button", name="New schedule").click()
    page.get_by_label("Task type").select_option("print")
    form = page.get_by_role("form", name="Schedule")
    form.get_by_label("Name").fill("without a text")
    form.get_by_role("button", name="Save the schedule").click()
    expect(form.get_by_role("alert").first).to_be_visible()
    for scheme in SCHEMES:
        wear(page, scheme)
        assert flaws(page) == []
    page.set_viewport_size({"width": 375, "height": 740})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375


def test_a_new_schedule_replaces_no_other(page: Page, detent: Scene) -> None:
    def saved() -> dict[str, Any]:
        return {each["name"]: each for each in detent.get("/api/schedules")["items"]}

    detent.put_schedule("taken", intent="print", cron="0 3 * * *", payload={"text": "kept"})
    page.goto(f"{detent.url}/schedules")
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("form", name="Schedule")
    page.get_by_label("Task type").select_option("nap")
    form.get_by_label("Name").fill("taken")
    form.get_by_role("button", name="Save the schedule").click()
    expect(form.get_by_role("alert")).to_contain_text("A schedule taken exists.")
    assert saved()["taken"]["payload"] == {"text": "kept"}
    form.get_by_label("Name").fill("free")
    form.get_by_label("Lifecycle").select_option("review")
    form.get_by_role("button", name="Save the schedule").click()
    row = page.locator('tr[data-id="free"]')
    expect(row).to_be_visible()
    assert saved()["free"]["lifecycle"] == "review"
    row.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Task type")).to_be_focused()
    form.get_by_label("Lifecycle").select_option("board")
    form.get_by_role("button", name="Save the schedule").click()
    expect(form).to_have_count(0)
    assert saved()["free"]["lifecycle"] == "board"
    for name in ("taken", "free"):
        detent.run("schedules", "delete", name)


def test_another_task_type_keeps_the_rest_of_the_form(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/schedules")
    page.get_by_role("button", name="New schedule").click()
    form = page.get_by_role("form", name="Schedule")
    form.get_by_label("Name").fill("kept")
    form.get_by_label("Cron expression").fill("5 * * * *")
    page.get_by_label("Task type").select_option("print")
    expect(form.get_by_label("files")).to_be_visible()
    page.get_by_label("Task type").select_option("hold")
    expect(form.get_by_label("until")).to_have_value("")
    expect(form.get_by_label("files")).to_have_count(0)
    expect(form.get_by_label("Name")).to_have_value("kept")
    expect(form.get_by_label("Cron expression")).to_have_value("5 * * * *")


def test_a_task_type_that_is_gone_is_not_replaced(page: Page, detent: Scene) -> None:
    detent.put_schedule("old", intent="talk", payload={"until": "x"}, cron="0 3 * * *")

    def without_it(route: Route) -> None:
        answer = route.fetch()
        items = [each for each in answer.json()["items"] if each["name"] != "talk"]
        route.fulfill(response=answer, json={"items": items})

    page.route("**/api/intents", without_it)
    page.goto(f"{detent.url}/schedules")
    row = page.locator('tr[data-id="old"]')
    row.get_by_role("button", name="Edit").click()
    expect(page.get_by_label("Task type")).to_have_value("talk")
    form = page.get_by_role("form", name="Schedule")
    form.get_by_label("Cron expression").fill("0 4 * * *")
    form.get_by_role("button", name="Save the schedule").click()
    expect(row).to_contain_text("0 4 * * *")
    (saved,) = [each for each in detent.get("/api/schedules")["items"] if each["name"] == "old"]
    assert (saved["intent"], saved["payload"]) == ("talk", {"until": "x"})


def test_task_types_that_cannot_be_read_are_reported(page: Page, detent: Scene) -> None:
    page.route("**/api/intents", lambda route: route.fulfill(status=403, json=REFUSAL))
    page.goto(f"{detent.url}/schedules")
    page.get_by_role("button", name="New schedule").click()
    expect(page.get_by_role("alert")).to_contain_text("Not for you.")


def test_the_focus_returns_when_a_dialog_closes_by_itself(page: Page, detent: Scene) -> None:
    detent.put_schedule("stays", intent="print", payload={"text": "x"}, cron="0 3 * * *")
    page.route("**/api/schedules/stays", lambda route: route.fulfill(status=403, json=REFUSAL))
    page.goto(f"{detent.url}/schedules")
    button = page.locator('tr[data-id="stays"]').get_by_role("button", name="Delete")
    button.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the schedule").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(button).to_be_focused()


def test_a_schedule_shows_its_past_tasks(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/schedules")
    page.get_by_role("button", name="New schedule").click()
    page.get_by_label("Task type").select_option("change")
    form = page.get_by_role("form", name="Schedule")
    form.get_by_label("Name").fill("nightly")
    form.get_by_role("button", name="Save the schedule").click()
    past = page.get_by_role("list", name="Past tasks of nightly")
    row = page.locator('tr[data-id="nightly"]')
    row.get_by_role("button", name="Trigger now").click()
    expect(page).to_have_url(re.compile("/tasks/"))
    task_id = page.url.rpartition("/")[2]
    wait_until(lambda: detent.task(task_id)["source"] == "schedule", "the task of the schedule")
    page.goto(f"{detent.url}/schedules")
    expect(past.get_by_role("link")).to_have_attribute("href", f"/tasks/{task_id}")
