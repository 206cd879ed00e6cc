"""Takes the pictures that pages show, from a real installation at work.

`NAME-light.png` is the page NAME of the dashboard in the light scheme; `-dark` and `-phone` are the
other views. Writes `docs/images/`. Starts `detent up` in a temporary directory, and one Chromium.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import httpx2
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.dashboard.conftest import ARGUMENTS, chromium
from tests.dashboard.release_lifecycle import document
from tests.dashboard.review_scene import ReviewScene
from tests.dashboard.scenes import WORKERS_LOST, Scene, scene
from tests.e2e.installation import wait_until
from tools import pictures
from tools.web_past import live_through

IMAGES = pictures.ROOT / pictures.IMAGES
WIDE = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
#: The end of the name of a picture, and how its browser is set.
VIEWS: Mapping[str, Mapping[str, object]] = {
    "light": {"viewport": WIDE, "color_scheme": "light"},
    "dark": {"viewport": WIDE, "color_scheme": "dark"},
    "phone": {"viewport": PHONE, "color_scheme": "light"},
}
#: What the highlighter has coloured.
COLOURED = ".hljs-keyword"
TITLES = (
    "Check the release notes",
    "Renew certificates",
    "Update the price list",
    "Translate the manual",
    "Sweep stale branches",
    "Summarise yesterday's tickets",
)


def fill(detent: Scene) -> dict[str, str]:
    """Create tasks in every kind of state; returns their ids by page."""
    ids: dict[str, str] = {}
    own = {"project": "shop", "tags": ["release"]}
    _past(detent)
    choices = ["PostgreSQL", "SQLite, for now"]
    asked = {
        "text": "The order table grows fast. Which database should it use?",
        "choices": choices,
    }
    ids["question"] = detent.submit("ask", asked, "blocked", title="Choose a database", **own)
    ids["review"] = detent.submit("change", {}, "ready", title="Fix session renewal", **own)
    detent.post(f"/api/tasks/{ids['review']}/reject", {"comment": "Count renewals.", "run": True})
    detent.last_event(ids["review"], "task_rejected")
    detent.wait_for(ids["review"], "ready")
    wish = "Rewrite the importer so that it reads the file in chunks."
    ids["budget"] = detent.submit(
        "agent", wish, "blocked", title="Rewrite the importer", max_budget_usd=1, **own
    )
    wish = "Build the release branch and deploy it to staging."
    ids["confirm"] = detent.submit("agent", wish, "blocked", title="Deploy to staging", **own)
    ids["failure"] = detent.submit(
        "fail", {}, "blocked", title="Send the invoices", lifecycle="board", project="billing"
    )
    with detent.doomed(WORKERS_LOST):
        ids["poison"] = detent.submit("poison", {}, "failed", title="Convert the scans", **own)
    ids["plan"] = detent.submit("release", {}, "running", title="Release 2.4", **own)
    ids["talk"] = detent.submit(
        "talk", {"until": detent.let("quiet")}, "running", title="Migrate the archive", **own
    )
    ids["decision"] = _installed(detent)
    _standing(detent)
    _kept(detent)
    return ids


def _installed(detent: Scene) -> str:
    """Install a lifecycle and create tasks of it; return the one that waits for a decision."""
    detent.post("/api/lifecycles", {"document": document()}).raise_for_status()
    own = {"lifecycle": "release", "project": "shop"}
    done = detent.submit("change", {}, "approval", title="Release 2.2", **own)
    detent.post(f"/api/tasks/{done}/events", {"event": "task_approved"}).raise_for_status()
    decision = detent.submit("change", {}, "approval", title="Release 2.3", **own)
    back = {"event": "task_sent_back", "comment": "The notes do not name the migration."}
    detent.post(f"/api/tasks/{decision}/events", back).raise_for_status()
    detent.wait_for(decision, "approval")
    detent.submit("change", {}, title="Release 2.5", run=False, **own)
    return decision


def _past(detent: Scene) -> None:
    for at in range(24):
        message = {"message": "connection reset by peer"}
        intent, payload = ("fail", message) if at % 9 == 4 else ("change", {})
        lifecycle = "board" if at % 2 else "review"
        task = detent.submit(
            intent, payload, title=TITLES[at % 6], lifecycle=lifecycle, project="shop"
        )
        done = detent.wait_for(task, "done", "blocked", "ready", "failed")
        if done["state"] == "ready":
            detent.post(f"/api/tasks/{task}/accept", {})


def _standing(detent: Scene) -> None:
    """Create tasks that have not started, in both lifecycles."""
    for lifecycle in ("review", "board"):
        for at in range(14):
            run = at % 3 == 0
            detent.submit(
                "hold",
                {"until": detent.let("never")},
                title=TITLES[at % 6],
                lifecycle=lifecycle,
                priority=f"P{at % 4}",
                run=run,
                project="shop" if at % 2 else "billing",
            )


#: Resources and schedules, by the path to which they are put.
KEPT: Mapping[str, Mapping[str, object]] = {
    "resources/gpu-1": {"capabilities": ["gpu", "cuda"], "labels": {"zone": "a"}, "capacity": 2},
    "resources/browser": {"capabilities": ["browser"], "capacity": 4},
    "schedules/nightly": {"intent": "change", "cron": "0 3 * * *", "timezone": "Europe/Berlin"},
    "schedules/sweep": {"intent": "change", "every_s": 3600, "overlap": "skip"},
}


def _kept(detent: Scene) -> None:
    headers = {"Authorization": f"Bearer {detent.token}"}
    with httpx2.Client(base_url=f"{detent.url}/api/", headers=headers) as client:
        for path, body in KEPT.items():
            client.put(path, json=body).raise_for_status()
        for path in ("resources/browser/drain", "schedules/sweep/pause"):
            client.post(path).raise_for_status()


def pages(ids: dict[str, str]) -> dict[str, str]:
    """Every page by the name of its picture."""
    return {
        "inbox-question": f"/inbox/{ids['question']}",
        "inbox-review": f"/inbox/{ids['review']}",
        "inbox-budget": f"/inbox/{ids['budget']}",
        "inbox-confirmation": f"/inbox/{ids['confirm']}",
        "inbox-failure": f"/inbox/{ids['failure']}",
        "inbox-quarantine": f"/inbox/{ids['poison']}",
        "inbox-decision": f"/inbox/{ids['decision']}",
        "board-review": "/board",
        "board-release": "/board?lifecycle=release",
        "board-board": "/board?lifecycle=board",
        "task": f"/tasks/{ids['review']}",
        "task-timeline": f"/tasks/{ids['review']}/timeline",
        "task-plan": f"/tasks/{ids['plan']}/plan?step=sign",
        "task-output": f"/tasks/{ids['talk']}/output",
        "task-evidence": f"/tasks/{ids['review']}/evidence",
        "task-history": f"/tasks/{ids['review']}/history",
        "jobs": "/jobs",
        "job": f"/jobs/{ids['plan']}-j1",
        "runs": "/runs",
        "run": f"/runs/{ids['review']}-j1-r1",
        "workers": "/workers",
        "schedules": "/schedules",
        "access": "/access",
        "health": "/system",
        "lifecycles": "/lifecycles/review",
        "lifecycles-release": "/lifecycles/release",
    }


def shoot(page: Page, url: str, file: Path, shown: str = "main h1") -> None:
    """Take a picture of a page once an element is there."""
    page.goto(url)
    page.locator(shown).first.wait_for()
    page.locator("main h1").first.wait_for()
    page.get_by_text("Live", exact=True).wait_for()
    expect(page.locator(".loading, [aria-busy=true]")).to_have_count(0)
    page.evaluate("() => document.fonts.ready")
    page.screenshot(path=str(file))


def signed_in(browser: Browser, detent: Scene, **how: object) -> Page:
    page = browser.new_context(**how).new_page()  # type: ignore[arg-type]
    page.goto(detent.link())
    page.get_by_text("Live", exact=True).wait_for()
    return page


def take(browser: Browser, detent: Scene, ids: dict[str, str], wanted: set[str]) -> None:
    """Take the pictures of the installation that are wanted."""
    for view, how in VIEWS.items():
        files = {f"{name}-{view}.png": path for name, path in pages(ids).items()}
        if not wanted & set(files):
            continue
        page = signed_in(browser, detent, **how)
        for file in sorted(wanted & set(files)):
            shoot(page, detent.url + files[file], IMAGES / file)
        page.context.close()


def take_the_review(browser: Browser, root: Path, wanted: set[str]) -> None:
    """The review page of a task with a comment on a line."""
    detent = ReviewScene(root)
    detent.prepare()
    detent.up()
    try:
        task_id = detent.fix()
        review, url = f"/api/tasks/{task_id}", f"{detent.url}/tasks/{task_id}/review"
        line = {
            "diff": detent.get(f"{review}/review")["diff"]["sha256"],
            "file": "shop.py",
            "side": "after",
        }
        first = {**line, "start": 2, "end": 2, "text": "Why not an integer number of cents?"}
        detent.post(f"{review}/comments", first).raise_for_status()
        for view, how in VIEWS.items():
            if f"review-{view}.png" in wanted:
                page = signed_in(browser, detent, **how)
                shoot(page, url, IMAGES / f"review-{view}.png", COLOURED)
                page.context.close()
    finally:
        detent.kill()


def main(only: list[str]) -> int:
    """Take all pictures that pages show, or those that are named, such as `health-light`."""
    shown = set(pictures.shown())
    wanted = {name for name in shown if not only or name.removesuffix(".png") in only}
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            take_the_review(browser, Path(directory) / "review", wanted)
            take_the_others(browser, Path(directory) / "scene", wanted)
        finally:
            browser.close()
    if wanted == shown:
        (pictures.ROOT / pictures.TAKEN_FROM).write_text(f"{pictures.sources_digest()}\n")
    flaws = pictures.flaws()
    print("\n".join(flaws) or f"took {len(wanted)} pictures", file=sys.stderr if flaws else None)
    return 1 if flaws else 0


def take_the_others(browser: Browser, root: Path, wanted: set[str]) -> None:
    """The pages of an installation with tasks in every kind of state."""
    detent = scene(root)
    live_through(detent.data)
    detent.up("--concurrency", "4")
    try:
        ids = fill(detent)
        steps = f"/api/tasks/{ids['plan']}/steps"
        wait_until(
            lambda: any(
                each["name"] == "sign" and each["state"] == "running"
                for each in detent.get(steps)["items"]
            ),
            "the plan waits at its step",
        )
        take(browser, detent, ids, wanted)
    finally:
        detent.kill()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
