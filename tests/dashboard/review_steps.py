"""Steps of the tests of the review page: open it, find a file or a line, comment on it."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.dashboard.review_scene import ReviewScene

LINES = [f"line {at}" for at in range(1, 61)]


def text(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def changed(*numbers: int) -> str:
    return text(*(f"{line} changed" if at in numbers else line for at, line in enumerate(LINES, 1)))


def opened(page: Page, detent: ReviewScene, task_id: str, query: str = "") -> Page:
    page.goto(f"{detent.url}/tasks/{task_id}/review{query}")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.locator(".loading, [aria-busy=true]")).to_have_count(0)
    return page


def file(page: Page, path: str) -> Locator:
    return page.get_by_role("region", name=path, exact=True)


def number(page: Page, path: str, label: str) -> Locator:
    """The number of a line: `Line 5, added`."""
    return file(page, path).get_by_role("button", name=label, exact=True)


def comment(page: Page, path: str, label: str, words: str) -> None:
    """Comment on a line, as a draft."""
    number(page, path, label).click()
    page.get_by_role("button", name=re.compile("^Comment on line")).click()
    page.keyboard.type(words)
    expect(page.get_by_text("Saved as a draft")).to_be_visible()
    page.get_by_role("button", name="Keep as draft").click()
    expect(page.get_by_role("button", name="Keep as draft")).to_have_count(0)
    expect(file(page, path).get_by_text(words)).to_be_visible()
