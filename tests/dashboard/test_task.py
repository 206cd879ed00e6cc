"""One task: its live output, its plan, its history, and hostile text everywhere."""

import re
from datetime import datetime

import httpx2
import pytest
from playwright.sync_api import Dialog, Page, expect

from tests.dashboard.scenes import Scene
from tests.e2e.installation import wait_until

HOSTILE = "<img src=x onerror=alert(1)>\u202egnp.exe<script>alert(2)</script>"
SHOWN = "<img src=x onerror=alert(1)>\ufffdgnp.exe<script>alert(2)</script>"


def test_follow_a_live_run_and_search_its_output(page: Page, detent: Scene) -> None:
    task_id = detent.submit("talk", {"until": detent.let("quiet")}, "running", title="Talker")
    page.goto(f"{detent.url}/tasks/{task_id}/output")
    log = page.get_by_role("log")
    expect(log).to_contain_text("line 3")
    expect(log.locator(".ink-6").first).to_have_text("line")
    expect(page.get_by_text(re.compile("lines, live"))).to_be_visible()
    (detent.project / "quiet").touch()
    expect(log).to_contain_text("the last line")
    expect(page.locator(".task-head").get_by_text("ready")).to_be_visible()
    expect(page.get_by_text(re.compile("lines, complete"))).to_be_visible()
    page.get_by_label("Search the output").fill("LAST LINE")
    expect(page.get_by_text("1 of 1")).to_be_visible()
    expect(log.locator(".line[data-current] mark")).to_have_text("last line")
    page.get_by_label("times").check()
    expect(log.locator(".line[data-current] time")).to_have_attribute("datetime", re.compile("Z$"))
    detent.last_event(task_id, "run_succeeded")
    page.get_by_label("wrap lines").check()
    expect(log).to_have_attribute("data-wrap", "true")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download raw").click()
    assert "the last line" in download.value.path().read_text()


def test_a_task_that_is_opened_from_another_one_is_live_too(page: Page, detent: Scene) -> None:
    payload = {"mended": detent.let("subtask-mended")}
    parent = detent.submit("family", payload, "blocked", title="Parent")
    page.goto(f"{detent.url}/tasks/{parent}")
    page.get_by_role("link", name="fail", exact=True).click()
    head = page.locator(".task-head")
    expect(head).to_contain_text("Its state is failed")
    task_id = page.url.rpartition("/")[2]
    assert task_id != parent
    # What was begun for the one task is not shown for the other, which is known by now.
    page.go_back()
    page.get_by_role("button", name="Edit and retry").click()
    expect(page.get_by_role("form", name="Edit and retry")).to_be_visible()
    page.get_by_role("link", name="fail", exact=True).click()
    expect(head.get_by_role("heading")).to_have_text("fail")
    expect(page.get_by_role("form", name="Edit and retry")).to_have_count(0)
    # An event of this task alone.
    headers = {"Authorization": f"Bearer {detent.token}"}
    url = f"{detent.url}/api/tasks/{task_id}"
    httpx2.patch(url, json={"title": "Renamed"}, headers=headers, timeout=60).raise_for_status()
    expect(head.get_by_role("heading")).to_have_text("Renamed")
    (detent.project / "subtask-mended").touch()
    detent.post(f"/api/tasks/{task_id}/retry", {})
    detent.last_event(task_id, "run_succeeded")
    expect(head).not_to_contain_text("Its state is failed")


def test_the_state_lights_up_and_the_way_is_drawn(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Wanderer")
    page.goto(f"{detent.url}/tasks/{task_id}")
    expect(page.get_by_role("heading", name="Evidence")).to_be_visible()
    expect(page.locator(".diagram")).to_have_count(0)
    page.get_by_text("States and diagram").click()
    expect(page.locator(".diagram .box.lit")).to_have_attribute("data-state", "ready")
    expect(page.locator(".arrow.taken")).to_have_count(4)
    detent.post(f"/api/tasks/{task_id}/accept", {})
    expect(page.locator(".diagram .box.lit")).to_have_attribute("data-state", "completed")
    expect(page.locator(".arrow.taken")).to_have_count(5)
    expect(page.get_by_label("Status", exact=True)).to_contain_text("The task is completed")


def test_its_state_at_an_earlier_event(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Historic")
    page.goto(f"{detent.url}/tasks/{task_id}/history")
    then = page.get_by_label("State after this event")
    expect(then).to_contain_text("The task is")
    expect(then.locator(".state").first).to_have_text("ready")
    page.get_by_role("button", name=re.compile("task_queued")).click()
    expect(then).to_contain_text("The task was")
    expect(then.locator(".state").first).to_have_text("queued")
    events = detent.get(f"/api/tasks/{task_id}/events")["events"]
    queued = next(each["position"] for each in events if each["name"] == "task_queued")
    assert page.url.endswith(f"?at={queued}")
    page.keyboard.press("k")
    expect(then.locator(".state").first).to_have_text("pending")
    page.goto(f"{detent.url}/tasks/{task_id}/history?at={queued}")
    expect(then.locator(".state").first).to_have_text("queued")


def test_a_plan_shows_its_steps_as_they_go(page: Page, detent: Scene) -> None:
    task_id = detent.submit("release", {}, "running", title="Release")
    page.goto(f"{detent.url}/tasks/{task_id}/plan")
    sign = page.locator('[data-step="sign"]')
    expect(sign).to_have_attribute("data-state", "running")
    expect(page.locator('[data-step="publish"]')).to_have_attribute("data-state", "waiting_deps")
    sign.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Step sign")).to_contain_text("resource local")
    (detent.project / "signed").touch()
    expect(page.locator('[data-step="publish"]')).to_have_attribute("data-state", "succeeded")
    expect(page.get_by_text("7 of 7 steps succeeded")).to_be_visible()
    detent.wait_for(task_id, "ready")
    page.get_by_role("link", name="Overview").click()
    work = page.get_by_role("table", name="Jobs, steps, runs and waits")
    expect(work.locator("tr[data-kind=step] + tr[data-kind=run]")).to_have_count(7)
    expect(work.locator("tr[data-kind=run] .depth-2")).to_have_count(7)


def test_the_timeline_has_a_row_for_everything(page: Page, detent: Scene) -> None:
    task_id = detent.submit("ask", {"text": "Wait?"}, "blocked", title="Waiter")
    page.goto(f"{detent.url}/tasks/{task_id}/timeline")
    status = page.get_by_label("Status", exact=True)
    expect(status).to_contain_text("It asks: Wait?")
    expect(status.get_by_role("link", name="Answer")).to_be_visible()
    rows = page.locator(".gantt-row [role=rowheader]")
    expect(rows).to_have_text(["task", "job 1", "run 1", "wait: question"])
    detent.post(f"/api/tasks/{task_id}/answer", {"answer": "no"})
    expect(rows).to_have_text(["task", "job 1", "run 1", "wait: question", "run 2"])


def test_actions_are_what_is_legal_and_cancel_asks_first(page: Page, detent: Scene) -> None:
    task_id = detent.submit("hold", {"until": detent.let("never")}, "running", title="Holder")
    page.goto(f"{detent.url}/tasks/{task_id}")
    expect(page.locator(".actions").get_by_role("button")).to_have_text(["Cancel"])
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Close").click()
    assert detent.task(task_id)["cancel_reason"] is None
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel the task").click()
    detent.last_event(task_id, "task_cancel_requested")


def test_sleeping_work_is_shown_as_waiting_until_when_and_why(page: Page, detent: Scene) -> None:
    task_id = detent.submit("nap", {}, "running", title="Sleeper")
    due = detent.last_event(task_id, "wait_begun")["data"]["due_at"]
    detent.last_event(task_id, "job_parked")
    page.goto(f"{detent.url}/tasks/{task_id}")
    expect(page.locator(".task-head .state").first).to_have_text("waiting")
    status = page.get_by_label("Status", exact=True)
    expect(status).to_contain_text("It sleeps: night window.")
    until = status.locator("time").first.get_attribute("datetime") or ""
    assert datetime.fromisoformat(until).timestamp() == pytest.approx(due / 1e6, abs=0.01)
    job = page.locator("tr[data-kind=job]")
    expect(job.locator(".state")).to_have_text("waiting")
    expect(job.locator(".message-cell")).to_contain_text("timer, until")


def test_a_step_that_sleeps_is_shown_as_waiting(page: Page, detent: Scene) -> None:
    task_id = detent.submit("overnight", {}, "running", title="Overnight")
    detent.last_event(task_id, "job_parked")
    page.goto(f"{detent.url}/tasks/{task_id}")
    status = page.get_by_label("Status", exact=True)
    expect(status).to_contain_text("It sleeps: night window.")
    step = page.locator("tr[data-kind=step]")
    expect(step.locator(".state")).to_have_text("waiting")
    expect(step.locator(".message-cell")).to_contain_text("night window, until")
    page.goto(f"{detent.url}/tasks/{task_id}/plan")
    expect(page.locator('[data-step="rest"]')).to_contain_text("waiting · nap")


def test_a_failed_task_is_edited_and_deleted_on_its_page(page: Page, detent: Scene) -> None:
    task_id = detent.submit("fail", {"message": "413 too large"}, "failed", title="Failure")
    page.goto(f"{detent.url}/tasks/{task_id}")
    status = page.get_by_label("Status", exact=True)
    expect(status).to_contain_text("413 too large")
    buttons = ["Run", "Retry", "Edit and retry", "Delete"]
    expect(page.locator(".actions").get_by_role("button")).to_have_text(buttons)
    page.get_by_role("button", name="Edit and retry").click()
    page.get_by_label("message").fill("404 not found")
    page.get_by_role("button", name="Save and retry").click()
    expect(status).to_contain_text("404 not found")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the task").click()
    page.wait_for_url("**/board")


def test_hostile_text_stays_text(page: Page, detent: Scene) -> None:
    messages: list[str] = []

    def hear(dialog: Dialog) -> None:
        messages.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", hear)
    files = {"note.md": HOSTILE, "page.html": HOSTILE, "x.svg": f"<svg>{HOSTILE}</svg>"}
    payload = {"text": f"\x1b]0;evil\x07\x1b[2J{HOSTILE}", "files": files}
    task_id = detent.submit("print", payload, "ready", title=HOSTILE, tags=["<b>tag"])
    for path in ("", "/output", "/evidence", "/history", "/timeline"):
        page.goto(f"{detent.url}/tasks/{task_id}{path}")
        expect(page.locator("h1")).to_have_text(SHOWN)
        expect(page.locator(".loading")).to_have_count(0)
    page.goto(f"{detent.url}/tasks/{task_id}/output")
    expect(page.get_by_role("log")).to_contain_text(SHOWN)
    for file in files:
        page.goto(f"{detent.url}/tasks/{task_id}/evidence")
        page.get_by_role("button", name=re.compile(re.escape(file))).click()
        expect(page.locator(".viewer pre")).to_contain_text("onerror=alert(1)")
    page.goto(f"{detent.url}/board")
    expect(page.get_by_text(SHOWN).first).to_be_visible()
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.locator("#matter-title")).to_have_text(SHOWN)
    assert page.locator("img[src=x], main script").count() == 0
    assert messages == []


def test_an_empty_result_is_called_so(page: Page, detent: Scene) -> None:
    task_id = detent.submit("print", {"text": ""}, "ready", title="Silent")
    page.goto(f"{detent.url}/tasks/{task_id}")
    expect(page.get_by_role("region", name="Outcome")).to_contain_text("An empty text.")
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.locator(".matter")).to_contain_text("An empty text.")


def test_evidence_of_each_kind_in_its_form(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Evident")
    page.goto(f"{detent.url}/tasks/{task_id}/evidence")
    expect(page.locator(".diff-lines [data-kind=added]")).to_have_count(5)
    page.get_by_role("button", name=re.compile("test-results.json")).click()
    expect(page.locator(".viewer pre")).to_contain_text('"passed": 41')
    page.get_by_role("button", name=re.compile("page.png")).click()
    picture = page.locator(".viewer img")
    expect(picture).to_be_visible()
    wait_until(lambda: picture.evaluate("image => image.naturalWidth") == 16, "the picture")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    assert download.value.suggested_filename == "page.png"


def test_a_task_that_is_not_there(page: Page, detent: Scene) -> None:
    page.goto(f"{detent.url}/tasks/unknown")
    expect(page.get_by_role("alert")).to_contain_text("There is no task")
    expect(page.get_by_role("link", name="Open the board")).to_be_visible()


def test_times_are_in_the_viewers_zone_with_utc_beside(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready")
    page.goto(f"{detent.url}/tasks/{task_id}")
    moment = page.locator("main time").first
    exact = detent.task(task_id)["state_at"]
    expect(moment).to_have_attribute("title", re.compile(re.escape(exact)))
