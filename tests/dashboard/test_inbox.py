"""The inbox: people deal with what waits for them, and the log says so."""

import sqlite3
from typing import Any

from playwright.sync_api import Page, expect

from detent import intake_row
from tests.dashboard.scenes import WORKERS_LOST, Scene
from tests.e2e.installation import wait_until


def open_matter(page: Page, detent: Scene, task_id: str) -> None:
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.locator(".matter")).to_be_visible()


def test_answer_a_question_by_its_button(page: Page, detent: Scene) -> None:
    asked = {"text": "Which colour?", "choices": ["red", "blue"]}
    task_id = detent.submit("ask", asked, "blocked", title="Paint")
    open_matter(page, detent, task_id)
    expect(page.locator(".asked")).to_have_text("Which colour?")
    expect(page.get_by_label("Your answer")).to_have_count(0)
    output = page.get_by_label("Output", exact=True)
    expect(output.locator(".state")).to_have_text("suspended")  # the run that asked is no success
    page.get_by_role("button", name="blue").click()
    expect(page.get_by_role("status").get_by_text("Answered: Paint")).to_be_visible()
    event = detent.last_event(task_id, "task_answered")
    assert (event["data"]["answer"], event["actor"]) == ("blue", "owner")
    detent.wait_for(task_id, "ready")


def test_drop_a_refused_submission_of_another_program(page: Page, detent: Scene) -> None:
    page.goto(detent.url)
    statement, values = intake_row("ask", {"text": 5}, project="shop", style="qmark")
    with sqlite3.connect(detent.data / "detent.db", timeout=60) as theirs:
        theirs.execute(statement, values)
    theirs.close()
    link = page.get_by_role("link", name="shop")
    expect(link).to_contain_text("Refused")
    link.click()
    expect(page.locator(".asked")).to_have_text("payload.text must be text, not 5.")
    page.get_by_role("button", name="Discard").click()
    expect(link).to_have_count(0)
    wait_until(lambda: detent.get("/api/intake") == {"items": []}, "an empty table")


def test_answer_a_job_that_has_no_task(page: Page, detent: Scene) -> None:
    page.goto(detent.url)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    asked = {"text": "Which road?", "choices": ["high", "low"]}
    body = {"intent": "ask", "payload": asked, "project": "alone"}
    job_id = detent.post("/api/jobs", body).json()["id"]
    expect(page.get_by_role("link", name="alone")).to_contain_text("Question")
    page.goto(f"{detent.url}/jobs/{job_id}")
    page.get_by_role("link", name="Answer in the inbox").click()
    expect(page.locator(".asked")).to_have_text("Which road?")
    expect(page.get_by_role("log")).to_contain_text("Comparing the options")
    page.get_by_role("button", name="low", exact=True).click()
    expect(page.get_by_role("link", name="alone")).to_have_count(0)

    def answers() -> list[dict[str, Any]]:
        events = detent.get(f"/api/jobs/{job_id}/events")["events"]
        return [each for each in events if each["name"] == "wait_completed"]

    (answer,) = wait_until(answers, "the answer")
    assert (answer["data"]["value"], answer["actor"]) == ("low", "owner")


def test_answer_with_an_option_or_in_own_words_where_both_are_allowed(
    page: Page, detent: Scene
) -> None:
    asked = {"text": "How many?", "choices": [1, 2], "other": True}
    first, second = (detent.submit("ask", asked, "blocked") for _ in range(2))
    open_matter(page, detent, first)
    page.get_by_role("button", name="2", exact=True).click()
    assert detent.last_event(first, "task_answered")["data"]["answer"] == 2
    open_matter(page, detent, second)
    page.get_by_label("Your answer").fill("a dozen")
    page.get_by_role("button", name="Send the answer").click()
    assert detent.last_event(second, "task_answered")["data"]["answer"] == "a dozen"


def test_answer_in_own_words_with_keys_alone(page: Page, detent: Scene) -> None:
    task_id = detent.submit("ask", {"text": "What is it called?"}, "blocked")
    open_matter(page, detent, task_id)
    page.keyboard.press("Enter")
    page.keyboard.type("jack, or a")
    page.keyboard.press("Control+Enter")
    assert detent.last_event(task_id, "task_answered")["data"]["answer"] == "jack, or a"


def test_a_new_question_appears_by_itself(page: Page, detent: Scene) -> None:
    page.goto(detent.url)
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    task_id = detent.submit("ask", {"text": "Anybody there?"}, "blocked", title="Knock knock")
    expect(page.get_by_role("link", name="Knock knock")).to_contain_text("Question")
    detent.post(f"/api/tasks/{task_id}/answer", {"answer": "yes"})
    expect(page.get_by_role("link", name="Knock knock")).to_contain_text("Review")
    detent.post(f"/api/tasks/{task_id}/accept", {})
    expect(page.get_by_role("link", name="Knock knock")).to_have_count(0)


def test_reject_with_a_comment_then_accept(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {"summary": "Renamed it."}, "ready", title="Rename")
    open_matter(page, detent, task_id)
    expect(page.get_by_text("Renamed it.")).to_be_visible()
    expect(page.get_by_text("self.renewed += 1")).to_be_visible()
    page.get_by_label("Comment (the next run gets it)").fill("Not that name.")
    page.get_by_role("button", name="Reject").click()
    rejected = detent.last_event(task_id, "task_rejected")
    assert rejected["data"] == {"round": 1, "comment": "Not that name.", "diff": None}
    detent.wait_for(task_id, "ready")
    open_matter(page, detent, task_id)
    expect(page.locator(".rounds")).to_contain_text("Not that name.")
    page.get_by_role("button", name="Accept").click()
    detent.last_event(task_id, "task_accepted")
    assert detent.task(task_id)["state"] == "completed"


def test_a_verdict_on_what_has_changed_since_is_refused(page: Page, detent: Scene) -> None:
    task_id = detent.submit("change", {}, "ready", title="Moving target")
    open_matter(page, detent, task_id)
    expect(page.get_by_role("button", name="Accept")).to_be_enabled()
    version = detent.task(task_id)["version"]
    page.route("**/accept", lambda route: route.continue_(post_data=f'{{"seen": {version + 5}}}'))
    page.get_by_role("button", name="Accept").click()
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    assert detent.task(task_id)["state"] == "ready"


def test_keys_move_and_judge(page: Page, detent: Scene) -> None:
    first = detent.submit("change", {}, "ready", title="Older work")
    second = detent.submit("change", {}, "ready", title="Newer work")
    open_matter(page, detent, first)
    place = [each["id"] for each in detent.get("/api/inbox")["items"]]
    assert place.index(second) == place.index(first) + 1
    expect(page.get_by_role("link", name="Newer work")).to_be_visible()
    page.keyboard.press("j")
    expect(page.locator("#matter-title")).to_have_text("Newer work")
    page.keyboard.press("k")
    expect(page.locator("#matter-title")).to_have_text("Older work")
    page.keyboard.press("r")
    expect(page.get_by_label("Comment (the next run gets it)")).to_be_focused()
    page.keyboard.type("a word with a and j")
    assert detent.task(first)["state"] == "ready", "letters typed into a field are no commands"
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("a")
    detent.last_event(first, "task_accepted")


def test_raise_a_budget(page: Page, detent: Scene) -> None:
    task_id = detent.submit("agent", "SPEND", "blocked", title="Spender", max_budget_usd=1)
    assert detent.task(task_id)["blocked_by"] == "budget"
    open_matter(page, detent, task_id)
    expect(page.get_by_text("$1.25 of $1.00 is spent.")).to_be_visible()
    page.get_by_label("New budget in dollars").fill("7.5")
    page.get_by_role("button", name="Raise the budget and continue").click()
    assert detent.last_event(task_id, "budget_raised")["data"]["budget"] == 7_500_000


def test_cancel_instead_of_raising(page: Page, detent: Scene) -> None:
    task_id = detent.submit("agent", "SPEND", "blocked", title="Stopper", max_budget_usd=1)
    open_matter(page, detent, task_id)
    page.get_by_role("button", name="Cancel the task").click()
    assert detent.last_event(task_id, "task_cancelled")["data"]["reason"] == "budget"


def test_confirm(page: Page, detent: Scene) -> None:
    task_id = detent.submit("agent", "DENIED", "blocked", title="Deployer")
    assert detent.task(task_id)["blocked_by"] == "needs_user"
    open_matter(page, detent, task_id)
    expect(page.locator(".asked")).to_contain_text("not allowed to use deploy")
    page.get_by_role("group", name="Answers").get_by_role("button").first.click()
    detent.last_event(task_id, "task_answered")


def test_retry_what_failed(page: Page, detent: Scene) -> None:
    mended = detent.let("mended")
    payload = {"message": "the disk is full", "mended": mended}
    task_id = detent.submit("fail", payload, "blocked", lifecycle="board")
    open_matter(page, detent, task_id)
    expect(page.get_by_text("Failure: the disk is full")).to_be_visible()
    (detent.project / "mended").touch()
    page.get_by_role("button", name="Retry", exact=True).click()
    detent.last_event(task_id, "task_unblocked")
    detent.wait_for(task_id, "done")


def failed_below(detent: Scene, title: str) -> tuple[str, str]:
    """A parent that waits, and its subtask, which has failed."""
    parent = detent.submit("family", {}, "blocked", title=title)
    (child,) = detent.get(f"/api/tasks/{parent}/subtasks")["items"]
    detent.wait_for(child["id"], "failed")
    return parent, child["id"]


def test_dismiss_a_failed_subtask(page: Page, detent: Scene) -> None:
    parent, child = failed_below(detent, "Family")
    open_matter(page, detent, child)
    matter = page.get_by_role("region", name="Failed")
    expect(matter).to_contain_text("Its parent is waiting for it.")
    expect(matter.get_by_role("link", name="Its parent")).to_have_attribute(
        "href", f"/tasks/{parent}"
    )
    expect(matter.get_by_role("button", name="Retry", exact=True)).to_be_visible()
    matter.get_by_label("Reason (optional)").fill("this part is not needed")
    matter.get_by_role("button", name="Dismiss").click()
    dismissed = detent.last_event(parent, "subtask_dismissed")
    assert dismissed["data"]["task_id"] == child
    assert dismissed["data"]["reason"] == "this part is not needed"
    detent.wait_for(parent, "ready")
    assert detent.task(child)["state"] == "failed"
    expect(page.locator(f'a[href="/inbox/{child}"]')).to_have_count(0)
    expect(page.locator(f'a[href="/inbox/{parent}"]')).to_be_visible()


def test_a_cancelled_subtask_can_only_be_dismissed(page: Page, detent: Scene) -> None:
    first = detent.submit("hold", {"until": detent.let("first")}, "running")
    parent = detent.submit("hold", {"until": detent.let("held")}, "running", title="Holder")
    waiting = {"parent_id": parent, "depends_on": [first], "title": "Given up"}
    child = detent.submit("part", {}, "queued", **waiting)
    detent.post(f"/api/tasks/{child}/cancel", {})
    (detent.project / "held").touch()
    (detent.project / "first").touch()
    detent.wait_for(parent, "blocked")
    open_matter(page, detent, child)
    matter = page.get_by_role("region", name="Subtask")
    expect(matter).to_contain_text("It was cancelled and cannot run again.")
    expect(matter.get_by_role("button", name="Retry", exact=True)).to_have_count(0)
    expect(page.get_by_role("list", name="Keys")).to_contain_text("enter dismiss")
    matter.get_by_role("button", name="Dismiss").click()
    detent.wait_for(parent, "ready")


def test_let_go_what_was_quarantined(page: Page, detent: Scene) -> None:
    payload = {"cured": detent.let("cured")}
    with detent.doomed(WORKERS_LOST + 1):
        task_id = detent.submit("poison", payload, "failed", title="Poison")
        assert detent.last_event(task_id, "job_failed")["data"]["quarantined"]
        assert detent.events(task_id).count("run_started") == WORKERS_LOST
        open_matter(page, detent, task_id)
        expect(page.get_by_role("link", name="Poison")).to_contain_text("Quarantine")
        matter = page.get_by_role("region", name="Quarantine")
        expect(matter).to_contain_text("No worker claims it any more")
        expect(matter).to_contain_text("workers were lost without progress")
        expect(matter.get_by_role("log")).to_contain_text("about to die")
        (detent.project / "cured").touch()
        page.get_by_role("button", name="Retry", exact=True).click()
        detent.last_event(task_id, "task_retried")
        detent.wait_for(task_id, "ready")


def test_enter_leads_to_the_options(page: Page, detent: Scene) -> None:
    asked = {"text": "Left or right?", "choices": ["left", "right"]}
    task_id = detent.submit("ask", asked, "blocked", title="Fork")
    open_matter(page, detent, task_id)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="left")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert detent.last_event(task_id, "task_answered")["data"]["answer"] == "right"


def test_a_refusal_says_what_is_allowed(page: Page, detent: Scene) -> None:
    asked = {"text": "Which one?", "choices": ["a", "b"]}
    task_id = detent.submit("ask", asked, "blocked", title="Overtaken")
    open_matter(page, detent, task_id)
    page.route("**/answer", lambda route: route.continue_(post_data='{"answer": "c"}'))
    page.get_by_role("button", name="a", exact=True).click()
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_role("alert").first).to_contain_text("Its options are: a, b.")
    assert detent.task(task_id)["state"] == "blocked"
