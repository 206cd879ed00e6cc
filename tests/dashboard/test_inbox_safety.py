"""No decision about an item that was not shown: held keys, double clicks, late answers, drafts."""

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.dashboard.conftest import UNDO_MS, stop_clock
from tests.dashboard.scenes import Scene
from tests.dashboard.test_inbox_page import COMMENT, open_item

TIMES = 4


def reviews(page: Page, detent: Scene, project: str) -> None:
    """Open the inbox with three reviews of the project, and stop the clock."""
    for at in range(3):
        detent.submit("change", {}, "ready", title=f"Unseen {at}", project=project)
    page.goto(f"{detent.url}/?project={project}")
    expect(page.locator(".matter-entry")).to_have_count(3)
    expect(page.get_by_text("self.renewed += 1")).to_be_visible()
    stop_clock(page)


def hold(page: Page, key: str) -> None:
    for _ in range(TIMES):
        page.keyboard.down(key)
    page.keyboard.up(key)


def test_a_held_key_decides_about_one_item(timed: Page, detent: Scene) -> None:
    reviews(timed, detent, "held")
    hold(timed, "a")
    expect(timed.locator("#matter-title")).to_have_text("Unseen 1")
    expect(timed.locator(".matter-entry")).to_have_count(2)


def test_a_held_key_moves_on_and_on(timed: Page, detent: Scene) -> None:
    reviews(timed, detent, "moved")
    hold(timed, "j")
    expect(timed.locator("#matter-title")).to_have_text("Unseen 2")


def test_a_held_enter_gives_no_answer(timed: Page, detent: Scene) -> None:
    asked = {"text": "Which?", "choices": ["left", "right"]}
    for at in range(2):
        detent.submit("ask", asked, "blocked", title=f"Asked {at}", project="enter")
    timed.goto(f"{detent.url}/?project=enter")
    expect(timed.locator(".matter-entry")).to_have_count(2)
    stop_clock(timed)
    hold(timed, "Enter")
    expect(timed.get_by_role("button", name="left")).to_be_focused()
    expect(timed.locator(".matter-entry")).to_have_count(2)
    timed.keyboard.press("Enter")
    expect(timed.locator(".matter-entry")).to_have_count(1)


def test_a_double_click_decides_about_one_item(timed: Page, detent: Scene) -> None:
    reviews(timed, detent, "double")
    accept = timed.get_by_role("button", name="Accept", exact=True)
    accept.click()
    expect(timed.locator("#matter-title")).to_have_text("Unseen 1")
    accept.dispatch_event("click", {"detail": 2})  # the second click, in the same place
    expect(timed.locator("#matter-title")).to_have_text("Unseen 1")
    expect(timed.locator(".matter-entry")).to_have_count(2)


def test_the_comment_of_a_round_is_not_that_of_the_next(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Two rounds", project="rounds")
    page.goto(f"{detent.url}/?project=rounds")
    page.get_by_label(COMMENT).fill("Once more.")
    page.get_by_role("button", name="Reject").click()
    detent.last_event(task_id, "task_rejected")
    expect(page.locator(".rounds")).to_contain_text("Once more.")  # by itself, in the same page
    expect(page.get_by_label(COMMENT)).to_have_value("")


def test_the_comment_stays_when_the_item_is_assigned(page: Page, detent: Scene) -> None:
    open_item(page, detent, detent.submit("change", {}, "ready", title="Mine now"))
    page.get_by_label(COMMENT).fill("Half a sentence")
    page.get_by_role("button", name="Assign to me").click()
    expect(page.get_by_text("Assigned to owner")).to_be_visible()
    expect(page.get_by_label(COMMENT)).to_have_value("Half a sentence")


def test_an_answer_names_its_question(timed: Page, detent: Scene) -> None:
    asked = {"text": "Which?", "choices": ["left", "right"]}
    task_id = detent.submit("ask", asked, "blocked", title="Named")
    wait = detent.task(task_id)["blocked_detail"]["wait"]
    open_item(timed, detent, task_id)
    stop_clock(timed)
    timed.get_by_role("button", name="left").click()
    with timed.expect_request("**/answer") as sent:
        timed.clock.run_for(UNDO_MS)
    assert sent.value.post_data_json == {"question": wait, "answer": "left"}
    detent.last_event(task_id, "task_answered")


def test_a_verdict_is_about_the_version_whose_evidence_is_shown(timed: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Seen so far")
    version = detent.task(task_id)["version"]
    open_item(timed, detent, task_id)
    expect(timed.get_by_text("self.renewed += 1")).to_be_visible()
    held: list[Route] = []
    timed.route(f"**/api/tasks/{task_id}/evidence", lambda route: held.append(route))
    detent.post(f"/api/tasks/{task_id}/assign", {"person": "ada"})
    expect(timed.get_by_text("Assigned to ada")).to_be_visible()
    stop_clock(timed)
    timed.get_by_role("button", name="Accept", exact=True).click()
    with timed.expect_request("**/accept") as sent:
        timed.clock.run_for(UNDO_MS)
    assert json.loads(sent.value.post_data or "")["seen"] == version
    expect(timed.locator(".toast.bad")).to_contain_text("Refused: Seen so far")
    for route in held:
        route.continue_()
    timed.unroute(f"**/api/tasks/{task_id}/evidence")
    timed.locator(".toast.bad").get_by_role("button", name="Show").click()
    timed.clock.resume()
    expect(timed.locator("#matter-title")).to_have_text("Seen so far")
    open_item(timed, detent, task_id)
    timed.get_by_role("button", name="Accept", exact=True).click()
    detent.last_event(task_id, "task_accepted")


@pytest.mark.parametrize("how", ["button", "key"])
def test_undo_says_that_a_decision_was_sent(timed: Page, detent: Scene, how: str) -> None:
    task_id = detent.submit("change", {}, "ready", title="Gone")
    open_item(timed, detent, task_id)
    stop_clock(timed)
    timed.get_by_role("button", name="Accept", exact=True).click()
    expect(timed).not_to_have_url(re.compile(task_id))
    timed.evaluate("dispatchEvent(new Event('pagehide'))")
    detent.last_event(task_id, "task_accepted")
    if how == "button":
        timed.get_by_role("button", name="Undo").click()
    else:
        timed.locator("h1").click()
        timed.keyboard.press("z")
    expect(timed.locator(".toast")).to_contain_text("Already sent")
