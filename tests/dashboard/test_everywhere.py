"""What works on every page: the command palette, the list of keys, new tasks, notifications."""

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from tests.dashboard.conftest import sign_in
from tests.dashboard.scenes import Scene
from tests.dashboard.test_accessibility import SCHEMES, flaws, wear
from tests.e2e.installation import wait_until


def palette(page: Page) -> Locator:
    page.keyboard.press("Control+k")
    dialog = page.get_by_role("dialog", name="Command palette")
    expect(dialog.get_by_role("combobox")).to_be_focused()
    return dialog


@pytest.fixture
def board(page: Page, detent: Scene) -> Page:
    page.goto(f"{detent.url}/workers")
    expect(page.get_by_role("heading", name="Workers and resources")).to_be_visible()
    return page


def test_every_page_has_a_title_of_its_own(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Name \u202e the tab")
    titles = {
        "/jobs": "Jobs",
        f"/tasks/{task_id}": "Name \ufffd the tab",
        f"/tasks/{task_id}/review": "Review: Name \ufffd the tab",
        f"/runs/{task_id}-j1-r1": f"Run \u2026{task_id[-4:]}-j1-r1",
        "/lifecycles/board": "Lifecycle board",
        "/nowhere": "There is no such page",
    }
    for path, title in titles.items():
        page.goto(detent.url + path)
        expect(page).to_have_title(re.compile(rf"^(\(\d+\) )?{re.escape(title)} · detent$"))


def test_the_palette_opens_pages_by_keys_alone(board: Page) -> None:
    dialog = palette(board)
    page_count = dialog.get_by_role("option").count()
    assert page_count > 5
    board.keyboard.type("sche")
    expect(dialog.get_by_role("option").first).to_contain_text("Schedules")
    board.keyboard.press("Enter")
    expect(board).to_have_url(re.compile("/schedules$"))
    expect(dialog).to_have_count(0)


def test_the_palette_finds_work_by_title_and_by_short_id(board: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Polish the brass")
    short = f"\u2026{task_id[-10:]}"  # as tables show it
    for typed, name, address in (
        ("the brass", "Polish the brass", f"/tasks/{task_id}"),
        (short, "Polish the brass", f"/tasks/{task_id}"),
        (f"{short}-j1", f"{task_id}-j1", f"/jobs/{task_id}-j1"),
        (f"{short}-j1-r1", f"{task_id}-j1-r1", f"/runs/{task_id}-j1-r1"),
    ):
        board.get_by_role("button", name="Search").click()
        dialog = board.get_by_role("dialog", name="Command palette")
        expect(dialog.get_by_role("combobox")).to_be_focused()
        board.keyboard.type(typed)
        option = dialog.get_by_role("option", name=name)
        expect(option).to_have_attribute("aria-selected", "true")
        board.keyboard.press("Enter")
        expect(board).to_have_url(f"{detent.url}{address}")


def test_the_palette_moves_closes_and_says_that_nothing_matches(board: Page) -> None:
    dialog = palette(board)
    options = dialog.get_by_role("option")
    board.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    board.keyboard.press("ArrowUp")
    board.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    board.keyboard.type("zzzz no such thing")
    expect(dialog.get_by_text("Nothing matches.")).to_be_visible()
    board.keyboard.press("Escape")
    expect(dialog).to_have_count(0)


def test_the_list_of_keys_is_that_of_the_page(page: Page, detent: Scene) -> None:
    detent.submit("change", {}, "ready", title="Keyed")
    page.goto(detent.url)
    expect(page.locator(".matter")).to_be_visible()
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys")
    expect(dialog).to_contain_text("snooze the item")
    expect(dialog).to_contain_text("find a page, an action or a task")
    page.keyboard.press("Escape")
    page.goto(f"{detent.url}/workers")
    expect(page.get_by_role("heading", name="Workers and resources")).to_be_visible()
    page.keyboard.press("?")
    expect(dialog).to_contain_text("create a task")
    expect(dialog).not_to_contain_text("snooze the item")


def test_the_palette_shows_the_keys(board: Page) -> None:
    dialog = palette(board)
    board.keyboard.type("show the keys")
    expect(dialog.get_by_role("option").first).to_contain_text("Show the keys")
    board.keyboard.press("Enter")
    expect(dialog).to_have_count(0)
    keys = board.get_by_role("dialog", name="Keys")
    expect(keys).to_be_visible()
    board.keyboard.press("Escape")
    expect(keys).to_have_count(0)


@pytest.mark.parametrize("key", ["Control+k", "?"])
def test_axe_finds_nothing_in_the_dialogs(board: Page, key: str) -> None:
    board.keyboard.press(key)
    expect(board.get_by_role("dialog")).to_be_visible()
    for scheme in SCHEMES:
        wear(board, scheme)
        assert flaws(board) == []


# ---- new tasks ---------------------------------------------------------------------------------


def test_create_a_task_with_a_field_for_each_argument(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/workers")
    expect(page.get_by_role("heading", name="Workers and resources")).to_be_visible()
    page.keyboard.press("c")
    page.get_by_label("Task type").select_option("ask")
    page.get_by_label("Title (optional)").fill("Made here")
    form = page.get_by_role("form", name="New task")
    form.get_by_label("text").fill("Left or right?")
    form.get_by_label("choices").fill('["left", "right"]')
    form.get_by_label("other").select_option("yes")
    form.get_by_label("Project (optional)").fill("made")
    form.get_by_label("Priority").select_option("P1")
    form.get_by_label("Budget in dollars (optional)").fill("2.5")
    form.get_by_role("button", name="Create the task").click()
    expect(page).to_have_url(re.compile("/tasks/"))
    task = detent.wait_for(page.url.rpartition("/")[2], "blocked")
    found = {name: task[name] for name in ("title", "project", "priority", "budget", "payload")}
    assert found == {
        "title": "Made here",
        "project": "made",
        "priority": "P1",
        "budget": 2.5,
        "payload": {"text": "Left or right?", "choices": ["left", "right"], "other": True},
    }


def test_a_form_stays_as_it_is_when_the_task_types_change(page: Page, detent: Scene) -> None:
    kinds = detent.get("/api/intents")["items"]
    shown = next(each for each in kinds if each["name"] == "hold")
    earlier = {**shown, "name": "a", "arguments": None}
    now = [earlier, {**shown, "arguments": None}]
    asked: list[Route] = []

    def answer(route: Route) -> None:
        asked.append(route)
        route.fulfill(json={"items": now if len(asked) > 1 else [shown]})

    def is_read_again() -> bool:
        page.evaluate("void dispatchEvent(new Event('visibilitychange'))")
        return len(asked) > 1

    page.route("**/api/intents", answer)
    page.goto(f"{detent.url}/new")
    form = page.get_by_role("form", name="New task")
    form.get_by_label("until").fill(detent.let("typed"))
    wait_until(is_read_again, "the task types are read again")
    expect(page.get_by_label("Task type").get_by_role("option")).to_have_count(2)
    expect(page.get_by_label("Task type")).to_have_value("hold")
    expect(form.get_by_label("until")).to_have_value(detent.let("typed"))
    form.get_by_role("button", name="Create the task").click()
    expect(page).to_have_url(re.compile("/tasks/"))
    task = detent.get(f"/api/tasks/{page.url.rpartition('/')[2]}")
    assert (task["intent"], task["payload"]) == ("hold", {"until": detent.let("typed")})
    (detent.project / "typed").touch()


def test_a_page_whose_script_is_missing_can_be_loaded_again(page: Page, detent: Scene) -> None:
    page.goto(detent.url)
    page.route("**/assets/workers-*.js", lambda route: route.abort())
    page.get_by_role("link", name="Workers", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("detent may have been upgraded")
    page.get_by_role("link", name="Board", exact=True).click()
    expect(page.get_by_role("heading", name="Board")).to_be_visible()
    page.get_by_role("link", name="Workers", exact=True).click()
    page.unroute("**/assets/workers-*.js")
    page.get_by_role("button", name="Load the page again").click()
    expect(page.get_by_role("heading", name="Workers and resources")).to_be_visible()


def test_another_task_type_keeps_the_title(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/new?intent=bygone")
    expect(page.get_by_label("Task type")).to_have_value("bygone")
    form = page.get_by_role("form", name="New task")
    form.get_by_label("Title (optional)").fill("Kept")
    page.get_by_label("Task type").select_option("hold")
    expect(form.get_by_label("until")).to_be_visible()
    expect(form.get_by_label("Title (optional)")).to_have_value("Kept")


def test_a_bad_argument_is_reported_and_submits_nothing(page: Page, detent: Scene) -> None:
    before = len(detent.get("/api/tasks?limit=1000")["items"])
    page.goto(f"{detent.url}/new?intent=print")
    form = page.get_by_role("form", name="New task")
    form.get_by_label("files").fill("{no json")
    form.get_by_role("button", name="Create the task").click()
    alerts = form.get_by_role("alert")
    expect(alerts).to_have_text([re.compile("required"), re.compile("This is not JSON")])
    for scheme in SCHEMES:
        wear(page, scheme)
        assert flaws(page) == []
    form.get_by_label("text").fill("hello")
    form.get_by_label("files").fill("[1]")  # JSON, but not what the handler takes
    form.get_by_role("button", name="Create the task").click()
    expect(form.get_by_role("alert")).to_contain_text("payload.files must be")
    assert len(detent.get("/api/tasks?limit=1000")["items"]) == before


def test_a_type_without_declared_arguments_takes_json(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/new?intent=runQA")
    form = page.get_by_role("form", name="New task")
    form.get_by_label("Payload (text or JSON)").fill('{"project": "demo"')
    form.get_by_role("button", name="Create the task").click()
    expect(form.get_by_role("alert")).to_contain_text("This is not JSON")


# ---- notifications -----------------------------------------------------------------------------

STAND_IN = """
window.notified = [];
window.Notification = class {
  static permission = "default";
  static async requestPermission() { return (this.permission = "granted"); }
  constructor(title, more) { window.notified.push(`${title}: ${more.body}`); }
};
Object.defineProperty(document, "hidden", { get: () => window.away === true });
"""


def test_notifications_are_off_until_they_are_wanted(
    stranger: BrowserContext, detent: Scene
) -> None:
    page = stranger.new_page()
    page.add_init_script(STAND_IN)
    sign_in(page, detent)
    switch = page.get_by_role("button", name="Browser notifications")
    page.evaluate("window.away = true")

    def new_item(title: str) -> None:
        detent.submit("ask", {"text": "Well?"}, "blocked", title=title)
        expect(page.get_by_role("link", name=title)).to_be_visible()

    new_item("While it is off")
    assert page.evaluate("window.notified") == []
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "true")
    new_item("While it is on")
    count = detent.get("/api/inbox")["count"]
    assert page.evaluate("window.notified") == [f"detent: {count} items waiting for you"]
    page.evaluate("window.away = false")
    new_item("Seen anyway")
    assert len(page.evaluate("window.notified")) == 1
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "false")


THROWS = STAND_IN.replace("constructor(title, more) {", "constructor() { throw new TypeError();")
ALREADY_ON = """
window.Notification.permission = "granted";
window.away = true;
localStorage.setItem("detent.notifications", "on");
"""


def test_a_browser_that_refuses_notifications_still_shows_the_inbox(
    stranger: BrowserContext, detent: Scene
) -> None:
    page = stranger.new_page()
    page.add_init_script(THROWS + ALREADY_ON)
    sign_in(page, detent)
    detent.submit("ask", {"text": "Well?"}, "blocked", title="On a phone")
    expect(page.get_by_role("link", name="On a phone")).to_be_visible()


def test_known_items_and_refused_decisions_do_not_notify(
    stranger: BrowserContext, detent: Scene
) -> None:
    task_id = detent.submit("change", {}, "ready", title="Known before")
    page = stranger.new_page()
    page.add_init_script(STAND_IN + ALREADY_ON)
    sign_in(page, detent)
    page.route("**/accept", lambda route: route.continue_(post_data='{"seen": 9999}'))
    page.goto(f"{detent.url}/inbox/{task_id}")
    page.get_by_role("button", name="Accept", exact=True).click()
    expect(page.locator(".toast.bad")).to_contain_text("Refused: Known before")
    expect(page.locator(f'.matter-link[href="/inbox/{task_id}"]')).to_be_visible()
    assert page.evaluate("window.notified") == []
    detent.submit("ask", {"text": "Well?"}, "blocked", title="Known later")
    expect(page.get_by_role("link", name="Known later")).to_be_visible()
    assert len(page.evaluate("window.notified")) == 1


def test_the_inbox_opens_without_an_item_in_its_address(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/inbox")
    expect(page.get_by_role("heading", name="Inbox", level=1)).to_be_visible()


@pytest.mark.parametrize(("path", "row"), [("/access", "Pages"), ("/lifecycles/run", "Lifecycles")])
def test_on_a_phone_the_current_link_of_a_row_is_in_view(
    page: Page, detent: Scene, path: str, row: str
) -> None:
    page.set_viewport_size({"width": 300, "height": 740})
    page.goto(detent.url + path)
    current = page.get_by_role("navigation", name=row, exact=True).locator("[aria-current]")
    expect(current).to_be_in_viewport(ratio=1)


def test_on_a_phone_the_search_fits_its_button(page: Page, detent: Scene) -> None:
    page.set_viewport_size({"width": 390, "height": 740})
    page.goto(detent.url)
    search = page.get_by_role("button", name="Search")
    expect(search).to_be_visible()
    assert search.evaluate("(each) => each.scrollWidth <= each.clientWidth")
