"""The page of sessions and tokens: what it lists, and that ending one ends it everywhere."""

import httpx2
from playwright.sync_api import BrowserContext, Page, expect

from tests.dashboard.conftest import sign_in
from tests.dashboard.scenes import Scene
from tests.e2e.installation import DEADLINE_S


def test_another_browser_is_signed_out(page: Page, stranger: BrowserContext, detent: Scene) -> None:
    other = sign_in(stranger.new_page(), detent)
    page.goto(f"{detent.url}/access")
    sessions = page.get_by_role("table", name="Sessions").locator("tbody tr")
    own = sessions.filter(has_text="this browser")
    expect(own).to_have_count(1)
    expect(own.get_by_role("button", name="Sign out")).to_be_visible()
    listed = {each["id"]: each["created_at"] for each in detent.json("sessions")["items"]}
    expect(sessions).to_have_count(len(listed))
    newest = max(listed, key=lambda each: listed[each])
    line = page.locator(f'tr[data-id="{newest}"]')
    expect(line).to_contain_text("owner")
    line.get_by_role("button", name="End").click()
    expect(page.get_by_text("The session has ended.")).to_be_visible()
    expect(line).to_have_count(0)
    expect(other.get_by_text("This browser is not signed in.")).to_be_visible()
    expect(own).to_have_count(1)
    assert newest not in [each["id"] for each in detent.json("sessions")["items"]]


def test_a_decision_is_sent_before_its_session_ends(
    stranger: BrowserContext, detent: Scene
) -> None:
    task_id = detent.submit("ask", {"text": "Leave?"}, "blocked", title="Before leaving")
    page = sign_in(stranger.new_page(), detent)
    page.get_by_role("link", name="Before leaving").click()
    page.get_by_label("Your answer").fill("Yes.")
    page.get_by_role("button", name="Send the answer").click()
    page.get_by_role("link", name="Access", exact=True).click()
    own = page.locator("tr").filter(has_text="this browser")
    own.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    assert detent.last_event(task_id, "task_answered")["data"]["answer"] == "Yes."


def test_on_a_phone_every_control_is_within_reach(page: Page, detent: Scene) -> None:
    page.set_viewport_size({"width": 375, "height": 740})
    page.goto(f"{detent.url}/access")
    end = page.get_by_role("table", name="Sessions").get_by_role("button", name="Sign out")
    expect(end).to_be_visible()
    box = end.bounding_box()
    assert box is not None
    assert 0 <= box["x"] <= box["x"] + box["width"] <= 375
    ids = page.get_by_role("table", name="Sessions").locator("td code").first
    assert ids.evaluate("(each) => each.scrollWidth <= each.closest('div').clientWidth")


def test_a_token_is_revoked_after_a_confirmation(page: Page, detent: Scene) -> None:
    made = detent.post("/api/tokens", {"name": "ci", "scopes": ["read"]}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}

    def status() -> int:
        url = f"{detent.url}/api/me"
        return httpx2.get(url, headers=headers, timeout=DEADLINE_S).status_code

    assert status() == 200
    page.goto(f"{detent.url}/access")
    line = page.get_by_role("table", name="Tokens").locator('tr[data-id="ci"]')
    expect(line).to_contain_text("read")
    line.get_by_role("button", name="Revoke").click()
    dialog = page.get_by_role("dialog", name="Revoke the token ci?")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    assert status() == 200
    line.get_by_role("button", name="Revoke").click()
    dialog.get_by_role("button", name="Revoke").click()
    expect(line).to_have_count(0)
    assert status() == 401


def test_without_admin_the_page_has_only_the_own_sessions(
    stranger: BrowserContext, detent: Scene
) -> None:
    made = detent.post("/api/tokens", {"name": "viewer", "scopes": ["read"]}).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    url = f"{detent.url}/api/login/codes"
    code = httpx2.post(url, headers=headers, timeout=DEADLINE_S).json()["code"]
    page = stranger.new_page()
    page.goto(f"{detent.url}/#code={code}")
    page.get_by_role("link", name="Access").click()
    rows = page.get_by_role("table", name="Sessions").locator("tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("viewer")
    expect(page.get_by_role("heading", name="Tokens")).to_have_count(0)
    rows.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
