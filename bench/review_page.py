"""The review page with 300 files and 20,000 lines, in real Chromium: `./dev bench review-page`.

Prints when the first lines of code are on the screen, the input delay of keys that are pressed
while the other files load, and the longest task of the page. Needs the built dashboard, git and
Chromium.
"""

import json
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from tests.dashboard.conftest import ARGUMENTS, PATIENCE_MS, chromium, sign_in
from tests.dashboard.main_thread import longest_ms
from tests.dashboard.review_scene import ReviewScene, diff_of

FILES, LINES = 300, 56
#: One of this many lines is replaced.
CHANGED = 5
REPETITIONS = 3
#: Whether this number of files have their lines.
LOADED = "(files) => document.querySelectorAll('.review-file .lines').length >= files"
#: Records, in the page, when code appears first, and the timing of keys.
OBSERVERS = """
(() => {
  window.measured = { first: null, keys: [], long: [] };
  new MutationObserver((_, self) => {
    if (!document.querySelector('.lines .code')) return;
    self.disconnect();
    requestAnimationFrame(() => setTimeout(() => { measured.first = performance.now(); }));
  }).observe(document, { childList: true, subtree: true });
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) {
      if (each.name === 'keydown') {
        measured.keys.push([each.processingStart - each.startTime, each.duration]);
      }
    }
  }).observe({ type: 'event', durationThreshold: 16, buffered: true });
  new PerformanceObserver((list) => {
    for (const each of list.getEntries()) measured.long.push(each.duration);
  }).observe({ type: 'longtask', buffered: true });
})();
"""


def code(at: int, after: bool) -> str:
    """A module of Python."""
    lines = []
    for line in range(LINES):
        changed = after and line % CHANGED == 0
        lines.append(
            f"    value_{line} = compute({at}, {line!r}){'  # changed' if changed else ''}"
        )
    return "def part() -> None:\n" + "\n".join(lines) + "\n"


def large_diff() -> str:
    def files(after: bool) -> Mapping[str, str]:
        return {f"src/part{at % 20}/module_{at}.py": code(at, after) for at in range(FILES)}

    return diff_of(files(False), files(True))


def visit(page: Page, url: str) -> Mapping[str, Any]:
    """Open the review; press keys and type while it loads."""
    page.goto(url, wait_until="commit")
    page.locator(".lines .code").first.wait_for()
    for _ in range(15):
        page.keyboard.press("j")
    page.keyboard.press("c")
    page.keyboard.type("A comment that is typed while the other files are loading.", delay=20)
    page.keyboard.press("Escape")
    # Not by role: the search for a name among all elements would be the longest task of the page.
    page.wait_for_function(LOADED, arg=FILES - 10)
    for _ in range(15):
        page.keyboard.press("j")
    found: Mapping[str, Any] = json.loads(page.evaluate("() => JSON.stringify(measured)"))
    return found


def report(visits: Sequence[Mapping[str, Any]]) -> str:
    delays = [key[0] for each in visits for key in each["keys"]]
    durations = [key[1] for each in visits for key in each["keys"]]
    first = [each["first"] for each in visits]
    longest = [max(each["long"], default=0) for each in visits]
    rows = {
        "first lines of code, ms after navigation (median)": statistics.median(first),
        "keys that took 16 ms or more": len(delays),
        "input delay of those keys, ms (median)": statistics.median(delays or [0]),
        "input delay of those keys, ms (longest)": max(delays, default=0),
        "key to next frame, ms (longest)": max(durations, default=0),
        "longest task of the page, ms": max(longest),
    }
    return "\n".join(row(name, value) for name, value in rows.items())


def row(name: str, value: float) -> str:
    return f"{name:55} {value:8.0f}"


def traced(browser: Browser, page: Page, url: str) -> float:
    """The longest task of another visit, which other work of the machine does not prolong."""
    page.goto("about:blank")  # leaving the page before is no task of this one
    browser.start_tracing(page=page, categories=["toplevel"])
    visit(page, url)
    return longest_ms(browser.stop_tracing())


def main(_arguments: Sequence[str] = ()) -> int:
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        scene = ReviewScene(Path(directory) / "scene")
        scene.prepare()
        scene.up()
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            task_id = scene.leave(large_diff())
            files = scene.get(f"/api/tasks/{task_id}/review")["diff"]["files"]
            print(f"{len(files)} files, {sum(each['lines'] for each in files):,} lines")
            context = browser.new_context(viewport={"width": 1280, "height": 860})
            context.set_default_timeout(PATIENCE_MS)
            page = sign_in(context.new_page(), scene)
            page.add_init_script(OBSERVERS)
            url = f"{scene.url}/tasks/{task_id}/review"
            print(report([visit(page, url) for _ in range(REPETITIONS)]))
            print(row("longest task, ms of processor time", traced(browser, page, url)))
        finally:
            browser.close()
            scene.kill()
    return 0
