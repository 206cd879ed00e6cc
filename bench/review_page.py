"""The review page with 300 files and 20,000 lines, in real Chromium: `python -m bench.review_page`.

Prints when the first lines of code are on the screen, and the input delay of keys that are pressed
while the other files load. Needs the built dashboard, git and Chromium.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.dashboard.conftest import ARGUMENTS, PATIENCE_MS, chromium, sign_in
from tests.dashboard.review_scene import ReviewScene, diff_of

FILES, LINES = 300, 56
#: One of this many lines is replaced.
CHANGED = 5
REPETITIONS = 3
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
    page.get_by_role("region", name=f"src/part9/module_{FILES - 11}.py").locator(
        ".code"
    ).first.wait_for(state="attached")
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
    return "\n".join(f"{name:55} {value:8.0f}" for name, value in rows.items())


def main() -> int:
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
        finally:
            browser.close()
            scene.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
