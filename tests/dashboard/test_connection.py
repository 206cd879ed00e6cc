"""Losing the gateway and finding it again, without anybody reloading the page."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.dashboard.conftest import sign_in
from tests.dashboard.scenes import Scene, scene
from tests.dashboard.test_accessibility import SCHEMES, flaws, wear
from tests.e2e.installation import wait_until
from tests.ports import free_port

DIFF = """diff --git a/shop.py b/shop.py
--- a/shop.py
+++ b/shop.py
@@ -1 +1 @@
-price = 1
+price = 2
"""


@pytest.fixture
def detent(tmp_path: Path) -> Iterator[Scene]:
    made = scene(tmp_path)
    made.up("--port", str(free_port()))
    yield made
    made.kill()


def flawless(page: Page) -> None:
    """The rules of axe hold in both themes, and nothing is wider than a phone."""
    for scheme in SCHEMES:
        wear(page, scheme)
        assert flaws(page) == []
    wide = page.viewport_size
    assert wide is not None
    page.set_viewport_size({"width": 375, "height": 740})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    page.set_viewport_size(wide)


def test_lose_and_regain_the_connection(stranger: BrowserContext, detent: Scene) -> None:
    page = sign_in(stranger.new_page(), detent)
    page.get_by_role("link", name="Runs", exact=True).click()
    expect(page.get_by_text("There are no runs yet.")).to_be_visible()
    page.get_by_role("link", name="Board", exact=True).click()
    expect(page.get_by_text("There are no tasks of the lifecycle review yet.")).to_be_visible()
    port = detent.url.rpartition(":")[2]
    detent.kill()
    expect(page.get_by_role("alert")).to_contain_text("Connection lost.")
    flawless(page)
    expect(page.get_by_text("Not live")).to_be_visible()
    detent.up("--port", port)
    task_id = detent.submit("ask", {"text": "Back?"}, "blocked", title="While you were offline")
    expect(page.get_by_text("Connected again.")).to_be_visible()
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.get_by_text("While you were offline")).to_be_visible()
    page.get_by_role("link", name="Inbox 1 waiting").click()
    page.get_by_label("Your answer").fill("Yes.")
    page.get_by_role("button", name="Send the answer").click()
    assert detent.last_event(task_id, "task_answered")["data"]["answer"] == "Yes."


def test_a_page_keeps_what_was_typed_while_the_gateway_does_not_answer(
    stranger: BrowserContext, detent: Scene
) -> None:
    """A decision that cannot be sent comes back with its comment, and the page goes on."""
    task_id = detent.submit("change", {}, "ready", title="Decided without a gateway")
    page = sign_in(stranger.new_page(), detent)
    page.goto(f"{detent.url}/inbox/{task_id}")
    page.get_by_label("Comment (the next run gets it)").fill("Name the lease.")
    page.get_by_role("button", name="Reject").click()
    expect(page.get_by_role("button", name="Undo")).to_be_visible()
    port = detent.url.rpartition(":")[2]
    detent.kill()
    expect(page.get_by_text("Not sent: Decided without a gateway")).to_be_visible()
    flawless(page)
    expect(page.get_by_label("Comment (the next run gets it)")).to_have_value("Name the lease.")
    detent.up("--port", port)
    expect(page.get_by_text("Connected again.")).to_be_visible()
    expect(page.get_by_label("Comment (the next run gets it)")).to_have_value("Name the lease.")
    page.get_by_role("button", name="Reject").click()
    assert detent.last_event(task_id, "task_rejected")["data"]["comment"] == "Name the lease."


def test_a_draft_is_saved_when_the_gateway_is_back(stranger: BrowserContext, detent: Scene) -> None:
    files = {"changes.diff": DIFF}
    task_id = detent.submit("print", {"text": "done", "files": files}, "ready")
    page = sign_in(stranger.new_page(), detent)
    page.goto(f"{detent.url}/tasks/{task_id}/review")
    page.get_by_role("button", name="Comment on the file shop.py").click()
    expect(page.get_by_role("textbox", name="Comment on the file")).to_be_focused()
    port = detent.url.rpartition(":")[2]
    detent.kill()
    page.keyboard.type("Why 2?")
    unsaved = page.get_by_role("alert").filter(has_text="Not saved")
    expect(unsaved).to_be_visible()
    detent.up("--port", port)
    expect(unsaved).to_have_count(0)

    def stored() -> list[str]:
        return [each["text"] for each in detent.get(f"/api/tasks/{task_id}/comments")["drafts"]]

    wait_until(lambda: stored() == ["Why 2?"], "the draft is stored")
