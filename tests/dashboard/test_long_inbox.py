"""An inbox with more items than its list has: each can be opened, and the page stays fast."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import CDPSession, Page, expect

from tests.dashboard.scenes import Scene, scene
from tests.e2e.installation import wait_until

LISTED = 1_000
BEYOND = 5
#: Calls of one function for a key and an entry: 3, or 12 if all entries are drawn again.
MAX_CALLS = 5


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = scene(Path(tmp_path_factory.mktemp("long")))
    made.up()
    for _ in range(5):
        made.bulk((LISTED + BEYOND) // 5, intent="print", payload={"text": "x"}, run=True)
    wait_until(lambda: made.get("/api/inbox")["count"] == LISTED + BEYOND, "all items", 180)
    yield made
    made.kill()


def last_item(detent: Scene) -> str:
    """An item that waits and that the list does not have."""
    listed = {each["id"] for each in detent.get("/api/inbox")["items"]}
    newest = detent.get("/api/tasks?state=ready&limit=1000&sort=-created_at")["items"]
    return next(str(each["id"]) for each in newest if each["id"] not in listed)


def test_the_address_of_an_item_beyond_the_list_opens_it(page: Page, detent: Scene) -> None:
    task_id = last_item(detent)
    page.goto(f"{detent.url}/inbox/{task_id}")
    opened = page.get_by_role("link", name="Open the task")
    expect(opened).to_have_attribute("href", f"/tasks/{task_id}")
    expect(page.locator(".matter-entry[data-current=true]")).to_have_count(0)
    expect(page).to_have_url(f"{detent.url}/inbox/{task_id}")
    page.get_by_role("button", name="Accept").click()
    detent.last_event(task_id, "task_accepted")
    expect(page).not_to_have_url(re.compile(task_id))
    expect(page.locator(".matter")).to_be_visible()


def test_the_count_is_that_of_all_items(page: Page, detent: Scene) -> None:
    snoozed = last_item(detent)
    detent.post(f"/api/tasks/{snoozed}/snooze", {"until": "1h"})
    count = f"{detent.get('/api/inbox')['count']:,}"
    assert f"{count.replace(',', '')} waiting. 1 snoozed" in detent.run("inbox", "--list").stdout
    page.goto(detent.url)
    expect(page.get_by_text(f"{count} items waiting, the 1,000 most urgent")).to_be_visible()
    expect(page.locator("nav .count")).to_have_text(f"{count} waiting")
    expect(page).to_have_title(f"({count}) Inbox · detent")
    expect(page.locator(".all-items")).to_have_text(f"All {count} items")


def test_a_key_draws_only_the_entries_that_change(page: Page, detent: Scene) -> None:
    """Judged by the number of calls of each function of the page, which depends on no machine."""
    page.goto(detent.url)
    expect(page.locator(".matter-entry")).to_have_count(LISTED)
    titles = page.locator(".matter-link").evaluate_all("all => all.map((it) => it.pathname)")
    session = page.context.new_cdp_session(page)
    session.send("Profiler.enable")
    session.send("Profiler.startPreciseCoverage", {"callCount": True, "detailed": False})
    for path in titles[1:11]:
        page.keyboard.press("j")
        expect(page).to_have_url(detent.url + path)
    each = most_calls(session) / 10
    assert each < MAX_CALLS * LISTED, f"a key calls one function {each:,.0f} times"


def most_calls(session: CDPSession) -> int:
    """How often the function that was called most often was called."""
    scripts = session.send("Profiler.takePreciseCoverage")["result"]
    functions = [function for script in scripts for function in script["functions"]]
    return max(int(function["ranges"][0]["count"]) for function in functions)
