"""A lifecycle from a document: its board, its gate and its limits, without code of its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.dashboard.conftest import sign_in
from tests.dashboard.release_lifecycle import document
from tests.dashboard.scenes import Scene, scene
from tests.dashboard.test_accessibility import SCHEMES, flaws, settled, wear
from tests.ports import free_port

COLUMNS = ["draft", "In work", "blocked", "To approve", "released", "cancelled"]


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = scene(Path(tmp_path_factory.mktemp("lifecycles")))
    made.up("--port", str(free_port()))
    install(made)
    yield made
    made.kill()


def install(detent: Scene, **how: Any) -> None:
    answer = detent.post("/api/lifecycles", {"document": document(**how)})
    assert answer.status_code < 300, answer.text


def built(detent: Scene, title: str) -> str:
    """A release that waits for its approval."""
    return detent.submit("change", {}, "approval", title=title, lifecycle="release")


def column(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def send_back(detent: Scene, task_id: str, comment: str) -> None:
    body = {"event": "task_sent_back", "comment": comment}
    assert detent.post(f"/api/tasks/{task_id}/events", body).status_code == 200
    detent.wait_for(task_id, "approval")


def test_the_board_has_its_columns_and_cards_move_by_its_events(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/board")
    page.get_by_label("Lifecycle", exact=True).select_option("release")
    expect(page).to_have_url(f"{detent.url}/board?lifecycle=release")
    body = {"intent": "hold", "payload": {"until": detent.let("build")}, "title": "Version 7"}
    task_id = detent.post("/api/tasks", {**body, "lifecycle": "release"}).json()["id"]
    expect(column(page, "draft").get_by_text("Version 7")).to_be_visible()
    expect(page.locator(".column h2 .state")).to_have_text(COLUMNS)
    page.get_by_role("link", name="Version 7").click()
    page.get_by_role("button", name="Run", exact=True).click()
    detent.wait_for(task_id, "building")
    page.go_back()
    expect(column(page, "In work").get_by_role("link", name="Version 7")).to_contain_text(
        "building"
    )
    (detent.project / "build").touch()
    expect(column(page, "To approve").get_by_text("Version 7")).to_be_visible()
    detent.post(f"/api/tasks/{task_id}/events", {"event": "task_approved"})
    expect(column(page, "released").get_by_text("Version 7")).to_be_visible()


def test_the_board_shows_the_lifecycle_that_has_tasks(page: Page, detent: Scene) -> None:
    """No task of the default lifecycle exists here."""
    built(detent, "Only releases")
    page.goto(f"{detent.url}/board")
    expect(page.get_by_label("Lifecycle", exact=True)).to_have_value("release")


def test_decide_in_the_inbox(page: Page, detent: Scene) -> None:
    task_id = built(detent, "Version 8")
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.get_by_role("link", name="Version 8")).to_contain_text("Review")
    matter = page.get_by_role("region", name="Review")
    choices = matter.get_by_role("list", name="Decisions").get_by_role("listitem")
    expect(choices).to_have_count(2)
    expect(choices.nth(0)).to_contain_text("to released")
    expect(choices.nth(1)).to_contain_text("it must be built again")
    expect(matter.get_by_role("button", name="Accept")).to_have_count(0)
    matter.get_by_label("Comment (the next run gets it)").fill("The notes are missing.")
    matter.get_by_role("button", name="Sent back").click()
    expect(page.get_by_role("status").get_by_text("Sent back: Version 8")).to_be_visible()
    event = detent.last_event(task_id, "task_sent_back")
    assert (event["actor"], event["data"]["comment"]) == ("owner", "The notes are missing.")
    assert event["data"]["round"] == 1
    detent.wait_for(task_id, "approval")
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.locator(".rounds")).to_contain_text("Round 1, sent back by owner")
    expect(matter).to_contain_text("1 of 2 rounds used.")
    page.locator("h1").click()
    page.keyboard.press("Enter")
    expect(matter.get_by_role("button", name="Approved")).to_be_focused()
    page.keyboard.press("Enter")
    detent.last_event(task_id, "task_approved")
    assert detent.task(task_id)["state"] == "released"


def test_decide_on_the_page_of_the_task(page: Page, detent: Scene) -> None:
    task_id = built(detent, "Version 9")
    page.goto(f"{detent.url}/tasks/{task_id}")
    page.get_by_role("button", name="Sent back").click()
    dialog = page.get_by_role("dialog", name="Sent back?")
    expect(dialog).to_contain_text("Version 9 goes to queued: it must be built again.")
    assert flaws(page) == []
    dialog.get_by_label("Comment (optional; the next run gets it)").fill("Once more.")
    dialog.get_by_role("button", name="Sent back").click()
    assert detent.last_event(task_id, "task_sent_back")["data"]["comment"] == "Once more."
    detent.wait_for(task_id, "approval")
    page.get_by_role("button", name="Approved").click()
    page.get_by_role("dialog").get_by_role("button", name="Approved").click()
    page.get_by_text("States and diagram").click()
    expect(page.locator(".diagram .box.lit")).to_have_attribute("data-state", "released")
    expect(page.locator(".way .state").last).to_have_text("released")
    assert detent.last_event(task_id, "task_approved")["actor"] == "owner"


def test_the_limit_of_rounds_is_shown_and_kept(page: Page, detent: Scene) -> None:
    task_id = built(detent, "Version 10")
    for comment in ("first", "second"):
        send_back(detent, task_id, comment)
    page.goto(f"{detent.url}/inbox/{task_id}")
    matter = page.get_by_role("region", name="Review")
    expect(matter).to_contain_text("No round is left, so Sent back is refused.")
    expect(matter.get_by_role("button", name="Sent back")).to_have_count(0)
    # A page that is not up to date would send it nevertheless.
    page.route(
        f"**/{task_id}/events",
        lambda route: route.continue_(post_data='{"event": "task_sent_back"}'),
    )
    matter.get_by_role("button", name="Approved").click()
    expect(page.locator(".toast.bad")).to_contain_text("has had 2 rounds, which is its limit")
    assert detent.task(task_id)["state"] == "approval"


@pytest.mark.parametrize("theme", SCHEMES)
def test_axe_finds_nothing(page: Page, detent: Scene, theme: str) -> None:
    task_id = built(detent, "Version 11")
    send_back(detent, task_id, "again")
    for address in (
        "/board?lifecycle=release",
        f"/inbox/{task_id}",
        f"/tasks/{task_id}",
        "/lifecycles/release",
    ):
        page.goto(detent.url + address)
        expect(page.get_by_role("main")).to_be_visible()
        settled(page)
        wear(page, theme)  # type: ignore[arg-type]
        assert flaws(page) == [], address
        page.set_viewport_size({"width": 375, "height": 740})
        settled(page)
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
        page.set_viewport_size({"width": 1280, "height": 860})


def test_its_rules_are_a_table(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/lifecycles/release")
    rules = page.get_by_role("table", name="Rules").locator("tbody tr")
    expect(rules).to_have_count(4)
    expect(rules.nth(0)).to_contain_text("run started")
    expect(rules.nth(0)).to_contain_text("task_started")
    timer = page.get_by_role("table", name="Timers").locator("tbody tr")
    expect(timer).to_contain_text("approval3dtask_cancelled")
    expect(page.get_by_text("task_sent_back counts a round.")).to_contain_text("After 2 rounds")
    expect(page.locator(".diagram .box[data-state]")).to_have_count(7)


def test_the_health_page_counts_its_tasks(page: Page, detent: Scene) -> None:
    counts = detent.get("/api/counts")["lifecycles"]["release"]
    page.goto(f"{detent.url}/system")
    row = page.get_by_role("table", name="Tasks by lifecycle").locator("tr", has_text="release")
    expect(row.locator("td").nth(4)).to_have_text(str(counts.get("released", 0)))
    built(detent, "Version 13")
    expect(row.locator("td").nth(3)).to_have_text(str(counts.get("approval", 0) + 1))
    row.get_by_role("link").click()
    expect(column(page, "To approve").get_by_text("Version 13")).to_be_visible()


def test_a_server_that_is_killed_goes_on_with_it(
    context: BrowserContext, page: Page, detent: Scene
) -> None:
    held = {"until": detent.let("resumed")}
    task_id = detent.submit("hold", held, "building", title="Version 12", lifecycle="release")
    page.goto(f"{detent.url}/board?lifecycle=release")
    expect(column(page, "In work").get_by_text("Version 12")).to_be_visible()
    port = detent.url.rpartition(":")[2]
    detent.kill()
    expect(page.get_by_role("alert")).to_contain_text("Connection lost.")
    (detent.project / "resumed").touch()
    detent.up("--port", port)
    expect(page.get_by_text("Connected again.")).to_be_visible()
    expect(column(page, "To approve").get_by_text("Version 12")).to_be_visible()
    page.get_by_role("link", name="Version 12").click()
    page.get_by_role("button", name="Approved").click()
    page.get_by_role("dialog").get_by_role("button", name="Approved").click()
    detent.last_event(task_id, "task_approved")
    page.go_back()
    expect(column(page, "released").get_by_text("Version 12")).to_be_visible()
    verified = detent.run("verify")
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_two_versions_and_a_timer(stranger: BrowserContext, tmp_path: Path) -> None:
    """The second version gives up after a second; tasks of the first stay on it."""
    own = scene(tmp_path)
    own.up()
    try:
        page = sign_in(stranger.new_page(), own)
        page.goto(f"{own.url}/board")
        lifecycle = page.get_by_label("Lifecycle", exact=True)
        expect(lifecycle).to_be_visible()
        install(own)
        first = own.submit("change", {}, "approval", title="Old", lifecycle="release")
        lifecycle.select_option("release")  # the page was not loaded again
        expect(column(page, "To approve").get_by_text("Old")).to_be_visible()
        install(own, version=2, after="1s")
        second = own.submit("change", {}, "cancelled", title="New", lifecycle="release")
        assert own.task(second)["lifecycle"] == "release@2"
        lifecycle.select_option("release, version 2")
        expect(column(page, "cancelled").get_by_text("New")).to_be_visible()
        expect(page.locator(".card", has_text="Old")).to_have_count(0)
        page.goto(f"{own.url}/lifecycles/release@2")
        versions = page.get_by_role("navigation", name="Versions").get_by_role("link")
        expect(versions).to_have_text(["Version 2 1 task", "Version 1 1 task"])
        versions.nth(1).click()
        expect(page.get_by_role("table", name="Timers")).to_contain_text("3d")
        assert own.task(first)["state"] == "approval"
    finally:
        own.kill()
