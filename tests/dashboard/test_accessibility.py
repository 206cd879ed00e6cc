"""Every page in both themes: axe finds nothing, and it can be used on a phone and by keys alone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.dashboard.conftest import PATIENCE_MS, sign_in
from tests.dashboard.scenes import Scene
from tools.web import MODULES

AXE = MODULES / "axe-core" / "axe.min.js"
PAGES = (
    "/inbox/{question}",
    "/inbox/{review}",
    "/inbox/{failure}",
    "/?group=kind",
    "/new?intent=print",
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
    "/access",
    "/system",
    "/lifecycles/board",
    "/lifecycles/review",
    "/lifecycles/job",
    "/lifecycles/step",
    "/lifecycles/run",
    "/nowhere/at/all",
)
#: The rules of axe about colours that it applies unasked.
OF_COLOUR = ("color-contrast", "link-in-text-block")
Scheme = Literal["light", "dark"]
SCHEMES: tuple[Scheme, ...] = ("light", "dark")


@pytest.fixture(scope="module")
def ids(detent: Scene) -> dict[str, str]:
    asked = {"text": "Which?", "choices": ["this", "that"]}
    return {
        "question": detent.submit("ask", asked, "blocked", title="Choose"),
        "review": detent.submit("change", {}, "ready", title="Judge"),
        "failure": detent.submit("fail", {}, "blocked", lifecycle="board", title="Mend"),
        "plan": detent.submit("release", {}, "running", title="Release"),
    }


@pytest.fixture(scope="module")
def reader(browser: Browser, detent: Scene) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce")
    context.set_default_timeout(PATIENCE_MS)
    yield sign_in(context.new_page(), detent)
    context.close()


@pytest.fixture(scope="module", params=PAGES)
def opened(
    reader: Page, detent: Scene, ids: dict[str, str], request: pytest.FixtureRequest
) -> Page:
    """Each page once, for everything that is to be checked on it."""
    reader.goto(detent.url + request.param.format(**ids))
    expect(reader.get_by_role("main")).to_be_visible()
    settled(reader)
    return reader


def settled(page: Page) -> None:
    expect(page.locator(".loading, [aria-busy=true]")).to_have_count(0)


def flaws(page: Page, *rules: str) -> list[str]:
    """What axe finds, by all of its rules or by some."""
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    only = {"runOnly": list(rules)} if rules else {}
    found: list[dict[str, Any]] = page.evaluate(
        "async (only) => (await axe.run(only)).violations", only
    )
    return [
        f"{each['impact']} {each['id']}: {node['html'][:160]} {node['failureSummary'][:300]}"
        for each in found
        for node in each["nodes"]
    ]


def test_axe_finds_nothing(opened: Page) -> None:
    wear(opened, "light")
    assert flaws(opened) == []


def test_axe_finds_nothing_in_the_dark(opened: Page) -> None:
    """Only colours differ between the themes."""
    wear(opened, "dark")
    assert flaws(opened, *OF_COLOUR) == []


def wear(page: Page, theme: Scheme) -> None:
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)


def test_nothing_is_wider_than_a_phone(opened: Page) -> None:
    wide = opened.viewport_size
    assert wide is not None
    opened.set_viewport_size({"width": 375, "height": 740})
    settled(opened)
    assert opened.evaluate("() => document.documentElement.scrollWidth") <= 375
    assert opened.evaluate("() => document.querySelector('main').scrollWidth") <= 375
    assert opened.locator(".find").evaluate("(find) => find.scrollWidth <= find.clientWidth")
    opened.set_viewport_size(wide)


def test_axe_finds_nothing_before_signing_in(stranger: BrowserContext, detent: Scene) -> None:
    page = stranger.new_page()
    page.goto(detent.url)
    expect(page.get_by_text("This browser is not signed in.")).to_be_visible()
    assert flaws(page) == []


def test_keys_alone_reach_every_page(reader: Page, detent: Scene) -> None:
    reader.goto(detent.url)
    expect(reader.get_by_text("Live", exact=True)).to_be_visible()
    reader.keyboard.press("Tab")
    expect(reader.get_by_text("Skip to content")).to_be_focused()
    reached = []
    for _ in range(10):
        reader.keyboard.press("Tab")
        reached.append(reader.evaluate("() => document.activeElement.getAttribute('href')"))
    assert reached[1:] == [
        "/",
        "/board",
        "/jobs",
        "/runs",
        "/workers",
        "/schedules",
        "/access",
        "/system",
        "/lifecycles",
    ]
    reader.keyboard.press("Enter")
    expect(reader.get_by_role("heading", name="Lifecycles")).to_be_visible()


def test_the_theme_can_be_chosen_and_stays(stranger: BrowserContext, detent: Scene) -> None:
    page = sign_in(stranger.new_page(), detent)
    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    page.get_by_role("button", name="Switch to dark colours").click()
    page.reload()
    expect(page.get_by_role("button", name="Switch to light colours")).to_be_visible()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_the_theme_is_the_systems_until_one_is_chosen(page: Page, detent: Scene) -> None:
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.goto(f"{detent.url}/schedules")
        expect(page.locator("html")).to_have_attribute("data-theme", scheme)


def test_axe_is_installed() -> None:
    assert Path(AXE).is_file(), "run ./dev test, which installs web/node_modules"
