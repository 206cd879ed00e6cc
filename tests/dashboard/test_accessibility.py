"""Every page in both themes: axe finds nothing, and it can be used on a phone and by keys alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.dashboard.scenes import Scene
from tools.web import MODULES

AXE = MODULES / "axe-core" / "axe.min.js"
PAGES = (
    "/inbox/{question}",
    "/inbox/{review}",
    "/inbox/{failure}",
    "/board",
    "/board?lifecycle=board",
    "/tasks/{review}",
    "/tasks/{review}/timeline",
    "/tasks/{plan}/plan",
    "/tasks/{review}/output",
    "/tasks/{review}/evidence",
    "/tasks/{review}/history",
    "/jobs",
    "/jobs/{review}-j1",
    "/runs",
    "/runs/{review}-j1-r1",
    "/workers",
    "/schedules",
    "/system",
    "/lifecycles/board",
    "/lifecycles/review",
    "/lifecycles/job",
    "/lifecycles/step",
    "/lifecycles/run",
    "/nowhere/at/all",
)
Scheme = Literal["light", "dark"]


@pytest.fixture(scope="module")
def ids(detent: Scene) -> dict[str, str]:
    asked = {"text": "Which?", "choices": ["this", "that"]}
    return {
        "question": detent.submit("ask", asked, "blocked", title="Choose"),
        "review": detent.submit("change", {}, "ready", title="Judge"),
        "failure": detent.submit("fail", {}, "blocked", lifecycle="board", title="Mend"),
        "plan": detent.submit("release", {}, "running", title="Release"),
    }


@pytest.fixture(scope="module", params=["light", "dark"])
def themed(browser: Browser, detent: Scene, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(color_scheme=request.param, reduced_motion="reduce")
    page = context.new_page()
    page.goto(detent.link())
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    yield page
    context.close()


def flaws(page: Page) -> list[str]:
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = page.evaluate("async () => (await axe.run()).violations")
    return [
        f"{each['impact']} {each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(themed: Page, detent: Scene, ids: dict[str, str], path: str) -> None:
    themed.goto(detent.url + path.format(**ids))
    expect(themed.get_by_role("main")).to_be_visible()
    expect(themed.locator(".loading")).to_have_count(0)
    assert flaws(themed) == []


def test_axe_finds_nothing_before_signing_in(browser: Browser, detent: Scene) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(detent.url)
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    assert flaws(page) == []
    context.close()


@pytest.mark.parametrize("path", ["/inbox/{question}", "/board", "/tasks/{review}", "/system"])
def test_nothing_is_wider_than_a_phone(
    browser: Browser, detent: Scene, ids: dict[str, str], path: str
) -> None:
    context = browser.new_context(viewport={"width": 375, "height": 740})
    page = context.new_page()
    page.goto(detent.link())
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.goto(detent.url + path.format(**ids))
    expect(page.locator(".loading")).to_have_count(0)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    context.close()


def test_keys_alone_reach_every_page(themed: Page, detent: Scene) -> None:
    themed.goto(detent.url)
    expect(themed.get_by_text("Live", exact=True)).to_be_visible()
    themed.keyboard.press("Tab")
    expect(themed.get_by_text("Skip to content")).to_be_focused()
    reached = []
    for _ in range(9):
        themed.keyboard.press("Tab")
        reached.append(themed.evaluate("() => document.activeElement.getAttribute('href')"))
    assert reached[1:] == [
        "/",
        "/board",
        "/jobs",
        "/runs",
        "/workers",
        "/schedules",
        "/system",
        "/lifecycles",
    ]
    themed.keyboard.press("Enter")
    expect(themed.get_by_role("heading", name="Lifecycles")).to_be_visible()


def test_the_theme_can_be_chosen_and_stays(page: Page, detent: Scene) -> None:
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    page.get_by_role("button", name="Switch to dark colours").click()
    page.reload()
    expect(page.get_by_role("button", name="Switch to light colours")).to_be_visible()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_axe_is_installed() -> None:
    assert Path(AXE).is_file(), "run ./dev test, which installs web/node_modules"
