"""Fixtures of the browser tests: one real installation and one real Chromium a module."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.dashboard.scenes import Scene, scene

#: What Chromium does by itself and a test has no use for.
ARGUMENTS = (
    "--no-sandbox",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--metrics-recording-only",
    "--no-first-run",
    "--no-pings",
    "--process-per-site",  # pages of one context share a process, while one of them is open
)
#: How long a page may take on a machine that is busy with other things.
PATIENCE_MS = 60_000
#: How far a clock is moved when it is stopped; less than the feed may be silent.
AHEAD_MS = 10_000
#: How long a decision of the inbox can be undone.
UNDO_MS = 5_000
#: The first one found is used. Without the code for windows, Chromium takes half the CPU time.
PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
MISSING = (
    f"Chromium is missing. On Debian: apt-get install {PROGRAMS[0]}. Else set CHROMIUM to its path."
)


def chromium() -> str:
    found = [os.environ.get("CHROMIUM"), *map(shutil.which, PROGRAMS)]
    for path in filter(None, found):
        return path
    raise AssertionError(MISSING)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Not for the whole session: while it is open an event loop runs in this thread, and tests of
    coroutines elsewhere could not have theirs."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        yield started
        started.close()


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    made = scene(Path(tmp_path_factory.mktemp("dashboard")))
    made.up()
    yield made
    made.kill()  # some runs never end, and a stop would wait for them


@pytest.fixture
def stranger(browser: Browser, detent: Scene) -> Iterator[BrowserContext]:
    """A browser that is not signed in."""
    made = _context(browser)
    yield made
    made.close()


@pytest.fixture(scope="module")
def context(browser: Browser, detent: Scene) -> Iterator[BrowserContext]:
    """A browser that is signed in, once for all tests of the module.

    A page without a script stays open, so that the process of the pages does: another one would
    have to be started for each test, and compile the scripts of the dashboard again.
    """
    made = _context(browser)
    sign_in(made.new_page(), detent).goto(f"{detent.url}/favicon.svg")
    yield made
    made.close()


def _context(browser: Browser) -> BrowserContext:
    """Without motion: a light that breathes is drawn sixty times a second while a page is open."""
    size: ViewportSize = {"width": 1280, "height": 860}
    made = browser.new_context(viewport=size, reduced_motion="reduce")
    made.set_default_timeout(PATIENCE_MS)
    return made


@pytest.fixture
def timed(stranger: BrowserContext, detent: Scene) -> Page:
    """A page whose clock can be stopped: nothing that disappears by itself does so meanwhile."""
    opened = stranger.new_page()
    opened.clock.install()
    return sign_in(opened, detent)


def stop_clock(page: Page) -> None:
    """Stop the clock of the page a little later than now; what is in the past is refused."""
    page.clock.pause_at((page.evaluate("Date.now()") + AHEAD_MS) / 1_000)


def sign_in(page: Page, detent: Scene) -> Page:
    """Through a one-time link, to the inbox."""
    page.goto(detent.link())
    page.get_by_text("Live", exact=True).wait_for()
    return page


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    """An empty page of a browser that is signed in; one that reports an error fails its test."""
    opened = context.new_page()
    wrong: list[Any] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.on(
        "console",
        lambda line: wrong.append(line.text) if "Content Security Policy" in line.text else None,
    )
    yield opened
    opened.close()
    assert wrong == []
