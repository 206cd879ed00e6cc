"""The inbox page: keys, messages and the address while a person works through the items."""

import re

import pytest
from playwright.sync_api import Locator, Page, ViewportSize, expect

from tests.dashboard.conftest import stop_clock
from tests.dashboard.scenes import Scene

DESKTOP: ViewportSize = {"width": 1280, "height": 860}
PHONE: ViewportSize = {"width": 375, "height": 740}
COMMENT = "Comment (the next run gets it)"


@pytest.fixture(params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def sized(page: Page, request: pytest.FixtureRequest) -> Page:
    page.set_viewport_size(request.param)
    return page


def open_item(page: Page, detent: Scene, task_id: str) -> None:
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.locator(".matter")).to_be_visible()


def test_a_key_that_opens_a_field_is_not_typed_into_it(page: Page, detent: Scene) -> None:
    open_item(page, detent, detent.submit("change", {}, "ready", title="Typed"))
    comment = page.get_by_label(COMMENT)
    expect(comment).to_be_visible()
    page.keyboard.press("r")
    expect(comment).to_be_focused()
    expect(comment).to_have_value("")
    page.keyboard.type("really")
    expect(comment).to_have_value("really")


def test_enter_in_an_open_field_is_typed(page: Page, detent: Scene) -> None:
    open_item(page, detent, detent.submit("ask", {"text": "Why?"}, "blocked", title="Lines"))
    answer = page.get_by_label("Your answer")
    expect(answer).to_be_visible()
    page.keyboard.press("Enter")
    expect(answer).to_be_focused()
    page.keyboard.type("one")
    page.keyboard.press("Enter")
    page.keyboard.type("two")
    expect(answer).to_have_value("one\ntwo")


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
def test_a_message_covers_no_control_of_the_next_item(
    timed: Page, detent: Scene, size: ViewportSize
) -> None:
    timed.set_viewport_size(size)
    first = detent.submit("change", {}, "ready", title="Judged")
    detent.submit("change", {}, "ready", title="Judged next")
    open_item(timed, detent, first)
    stop_clock(timed)
    timed.get_by_role("button", name="Accept").click()
    toast = timed.locator(".toast")
    expect(toast).to_contain_text("Judged")
    expect(timed).not_to_have_url(re.compile(first))
    buttons = timed.locator(".matter button")
    expect(buttons.first).to_be_visible()
    for button in buttons.all():
        button.scroll_into_view_if_needed()
        assert not overlap(toast, button)


def overlap(one: Locator, other: Locator) -> bool:
    a, b = one.bounding_box(), other.bounding_box()
    assert a is not None
    assert b is not None
    apart_x = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
    apart_y = a["y"] + a["height"] <= b["y"] or b["y"] + b["height"] <= a["y"]
    return not (apart_x or apart_y)


def test_the_address_is_that_of_the_open_item(page: Page, detent: Scene) -> None:
    first = detent.submit("change", {}, "ready", title="Accepted here")
    detent.submit("change", {}, "ready", title="Opened next")
    open_item(page, detent, first)
    page.get_by_role("button", name="Accept").click()
    expect(page.locator("#matter-title")).not_to_have_text("Accepted here")
    expect(page).not_to_have_url(re.compile(first))
    expect(page).to_have_url(address_of_open_item(page, detent))
    page.goto(f"{detent.url}/inbox/{first}")  # a bookmark of what is settled
    expect(page.get_by_text("This item is not in the inbox (any more).")).to_be_visible()
    expect(page.locator(".matter")).to_have_count(0)
    page.keyboard.press("j")
    expect(page.locator(".matter")).to_be_visible()
    expect(page).to_have_url(address_of_open_item(page, detent))


def address_of_open_item(page: Page, detent: Scene) -> str:
    return f"{detent.url}{page.locator('.matter-link[aria-current]').get_attribute('href')}"


@pytest.mark.parametrize("path", ["/inbox/{id}", "/jobs?task={id}", "/tasks/{id}"])
def test_no_message_is_clipped(sized: Page, detent: Scene, path: str) -> None:
    words = "the upload of the report was refused because " * 12 + "x" * 120
    title = "Upload the report of the whole quarter " * 3 + "y" * 80
    task_id = detent.submit("fail", {"message": words}, "failed", title=title)
    sized.goto(detent.url + path.format(id=task_id))
    shown = sized.locator(".matter section > .block, .message-cell")
    expect(shown.filter(has_text="x" * 120).first).to_be_visible()
    parts = ".matter-title, .matter-where, #matter-title, .matter section > .block, .message-cell"
    parts += ", .task-link, .status-words, .overview .block, h1"
    for part in sized.locator(parts).all():
        clipped = part.evaluate(
            "(it) => it.scrollWidth > it.clientWidth + 1 || it.scrollHeight > it.clientHeight + 1"
        )
        assert not clipped, part.inner_text()
