"""Drafts and verdicts on the review page, in real Chromium."""

import re

from playwright.sync_api import (
    Browser,
    Locator,
    Page,
    Route,
    ViewportSize,
    expect,
)

from tests.dashboard.conftest import PATIENCE_MS, sign_in
from tests.dashboard.review_scene import ReviewScene, diff_of
from tests.dashboard.review_steps import changed, file, number, opened
from tests.dashboard.test_accessibility import flaws
from tests.e2e.installation import wait_until

PHONE: ViewportSize = {"width": 375, "height": 740}
WINDOW: ViewportSize = {"width": 1280, "height": 860}

# ---- drafts ----------------------------------------------------------------------------------


def test_drafts_survive_a_reload_and_are_in_another_browser(
    page: Page, browser: Browser, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    number(page, "app/a.txt", "Line 5, added").click()
    page.keyboard.press("c")
    page.keyboard.type("not finished")
    expect(page.get_by_text("Saved as a draft")).to_be_visible()
    page.reload()
    draft = page.get_by_role("article", name="Draft on line 5")
    expect(draft).to_contain_text("not finished")

    other = browser.new_context()
    other.set_default_timeout(PATIENCE_MS)
    elsewhere = opened(sign_in(other.new_page(), detent), detent, task_id)
    expect(elsewhere.get_by_role("article", name="Draft on line 5")).to_contain_text("not finished")
    other.close()

    draft.get_by_role("button", name="Edit").click()
    page.get_by_label("Comment on line 5").fill("finished")
    expect(page.get_by_text("Saved as a draft")).to_be_visible()
    page.reload()
    expect(draft).to_contain_text("finished")
    draft.get_by_role("button", name="Delete").click()
    expect(draft).to_have_count(0)
    assert detent.get(f"/api/tasks/{task_id}/comments")["drafts"] == []
    assert "comment_added" not in detent.events(task_id)


def test_comments_are_posted_replied_to_resolved_and_reopened(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    number(page, "app/a.txt", "Line 3").click()
    number(page, "app/a.txt", "Line 5, added").click(modifiers=["Shift"])
    page.get_by_role("button", name="Comment on lines 3 to 5").click()
    page.keyboard.type("Look: <b>here</b> and `there`\n```\nx < y\n```")
    page.get_by_role("button", name="Post now").click()
    thread = page.get_by_role("article", name=re.compile("on lines 3 to 5$"))
    expect(thread).to_contain_text("<b>here</b> and there")
    expect(thread.locator("code")).to_have_text("there")
    expect(thread.locator("pre")).to_have_text("x < y")
    assert detent.get(f"/api/tasks/{task_id}/comments")["drafts"] == []

    thread.get_by_role("button", name="Reply").click()
    page.keyboard.type("I agree.")
    page.get_by_role("button", name="Reply now").click()
    expect(thread.locator(".reply")).to_contain_text("I agree.")
    thread.get_by_role("button", name="Resolve").click()
    expect(thread).to_contain_text("Resolved")
    expect(thread.locator(".reply")).to_have_count(0)
    thread.get_by_role("button", name="Show (1 reply)").click()
    expect(thread.locator(".reply")).to_have_count(1)
    thread.get_by_role("button", name="Reopen").click()
    expect(thread.get_by_role("button", name="Resolve")).to_be_visible()
    (found,) = detent.get(f"/api/tasks/{task_id}/comments")["comments"]
    assert (found["state"], found["anchor"]["start"], found["anchor"]["end"]) == ("open", 3, 5)


def written(page: Page, detent: ReviewScene, task_id: str, words: str) -> Locator:
    """An open editor on line 5 of app/a.txt, whose text is stored."""
    opened(page, detent, task_id)
    number(page, "app/a.txt", "Line 5, added").click()
    page.keyboard.press("c")
    page.keyboard.type(words)
    expect(page.get_by_text("Saved as a draft")).to_be_visible()
    return page.get_by_label("Comment on line 5")


def drafts(detent: ReviewScene, task_id: str) -> list[str]:
    return [each["text"] for each in detent.get(f"/api/tasks/{task_id}/comments")["drafts"]]


def comments(detent: ReviewScene, task_id: str) -> list[str]:
    return [each["text"] for each in detent.get(f"/api/tasks/{task_id}/comments")["comments"]]


def test_an_editor_that_is_shown_again_has_its_text(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    field = written(page, detent, task_id, "half of it")
    fold = file(page, "app/a.txt").get_by_role("button", name=re.compile("^(Fold|Unfold) "))
    fold.click()
    expect(field).to_have_count(0)
    fold.click()
    expect(field).to_have_value("half of it")
    page.get_by_role("button", name="Side by side").click()
    expect(page.locator("table.split").first).to_be_visible()
    expect(field).to_have_value("half of it")
    page.get_by_role("button", name="Unified").click()
    expect(page.locator("table.split")).to_have_count(0)
    # A comment of someone else on the same line does not disturb who writes.
    field.focus()
    page.keyboard.press("End")
    page.keyboard.type(", and more")
    shown = detent.get(f"/api/tasks/{task_id}/review")["diff"]["sha256"]
    place = {"diff": shown, "file": "app/a.txt", "side": "after", "start": 5, "end": 5}
    posted = detent.post(f"/api/tasks/{task_id}/comments", {**place, "text": "I was here."})
    assert posted.status_code in (200, 201), posted.text
    expect(page.get_by_role("article", name=re.compile("^Comment by"))).to_be_visible()
    expect(field).to_be_focused()
    expect(field).to_have_value("half of it, and more")
    field.press("Escape")
    draft = page.get_by_role("article", name="Draft on line 5")
    expect(draft).to_contain_text("half of it, and more")
    # The same for a draft that was stored before.
    draft.get_by_role("button", name="Edit").click()
    field.fill("all of it")
    expect(page.get_by_text("Saved as a draft")).to_be_visible()
    fold.click()
    expect(field).to_have_count(0)
    fold.click()
    expect(field).to_have_value("all of it")
    field.press("Escape")
    expect(draft).to_contain_text("all of it")
    assert drafts(detent, task_id) == ["all of it"]


def test_drafts_are_published_as_they_are_typed_and_the_overall_comment_stays(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    field = written(page, detent, task_id, "first")
    overall = page.get_by_label("Comment on the work as a whole")
    overall.fill("For later.")
    held: list[Route] = []
    page.route(re.compile("/drafts/"), lambda route: held.append(route))
    with page.expect_request(re.compile("/drafts/")):
        field.fill("first and last")
    publish = page.get_by_role("button", name="Publish 1 draft")
    publish.click()
    expect(publish).to_be_disabled()
    assert comments(detent, task_id) == []
    for route in held:
        route.continue_()
    expect(page.get_by_role("article", name=re.compile("^Comment by"))).to_be_visible()
    expect(field).to_have_count(0)
    assert (comments(detent, task_id), drafts(detent, task_id)) == (["first and last"], [])
    expect(overall).to_have_value("For later.")


def test_changes_are_requested_with_the_draft_that_is_being_written(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    held: list[Route] = []
    page.route(re.compile("/drafts/"), lambda route: held.append(route))
    number(page, "app/a.txt", "Line 5, added").click()
    page.keyboard.press("c")
    with page.expect_request(re.compile("/drafts/")):
        page.keyboard.type("Not like this.")
    request = page.get_by_role("button", name="Request changes", exact=True)
    request.click()
    expect(request).to_be_disabled()
    for route in held:
        route.continue_()
    wait_until(lambda: detent.task(task_id)["rounds"] == 1, "changes are requested")
    assert (comments(detent, task_id), drafts(detent, task_id)) == (["Not like this."], [])


def test_a_verdict_is_not_given_while_a_draft_cannot_be_saved(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    page.route(re.compile("/drafts/"), lambda route: route.abort())
    number(page, "app/a.txt", "Line 5, added").click()
    page.keyboard.press("c")
    page.keyboard.type("Not like this.")
    expect(page.get_by_role("alert").filter(has_text="Not saved")).to_be_visible()
    page.get_by_role("button", name="Accept", exact=True).click()
    expect(page.get_by_text("A draft is not saved")).to_be_visible()
    field = page.get_by_label("Comment on line 5")
    expect(field).to_have_value("Not like this.")
    assert detent.task(task_id)["state"] == "ready"
    page.unroute(re.compile("/drafts/"))
    field.press("Control+Enter")
    expect(page.get_by_role("article", name="Draft on line 5")).to_contain_text("Not like this.")


# ---- links -----------------------------------------------------------------------------------


def test_selected_lines_have_a_link(page: Page, detent: ReviewScene, simple: str) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    number(page, "app/a.txt", "Line 50, removed").click()
    expect(page).to_have_url(re.compile(r"\?file=app%2Fa.txt&line=before%3A50$"))
    number(page, "app/a.txt", "Line 48").click()
    number(page, "app/a.txt", "Line 50, added").click(modifiers=["Shift"])
    expect(page).to_have_url(re.compile("&line=48-50$"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy link").click()
    expect(page.locator(".toast")).to_contain_text("The link to these lines is copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.reload()
    expect(page.get_by_role("button", name="Comment on lines 48 to 50")).to_be_in_viewport()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"\?file=app%2Fa.txt$"))


def test_a_link_opens_a_folded_file_at_its_line(page: Page, detent: ReviewScene) -> None:
    long = "".join(f"x{at} = {at}\n" for at in range(2_000))
    files = {f"a{at}.txt": "y\n" * 40 for at in range(9)}
    task_id = detent.leave(diff_of({}, {**files, "long.py": long}))
    opened(page, detent, task_id, "?file=long.py&line=1500")
    expect(page.get_by_role("button", name="Comment on line 1500")).to_be_in_viewport()
    expect(number(page, "long.py", "Line 1500, added")).to_be_in_viewport()
    # A link to a line that is not there opens the file.
    opened(page, detent, task_id, "?file=long.py&line=9000")
    expect(file(page, "long.py")).to_be_in_viewport()
    expect(page.get_by_role("button", name=re.compile("^Comment on line"))).to_have_count(0)
    # After it, the tree leads to a folded file and leaves it folded.
    file(page, "a3.txt").get_by_label("Viewed").check()
    expect(file(page, "a3.txt").locator(".code")).to_have_count(0)
    page.get_by_role("navigation", name="Changed files").get_by_text("a3.txt").click()
    expect(page).to_have_url(re.compile("file=a3.txt$"))
    expect(file(page, "a3.txt").get_by_role("button", name="Unfold a3.txt")).to_be_visible()


# ---- verdicts --------------------------------------------------------------------------------


def test_a_verdict_on_a_diff_that_has_changed_is_refused_with_the_files(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    before = {"app/a.txt": changed(), "app/b.py": "x = 1\n"}
    newer = diff_of(before, {"app/a.txt": changed(5, 50), "app/b.py": "x = 3\n"})
    task_id = detent.leave(simple, newer)
    opened(page, detent, task_id)
    expect(file(page, "app/b.py")).to_contain_text("x = 2")
    detent.next_round(task_id)
    expect(page.get_by_text("The task has a newer diff")).to_be_visible()
    # What is read stays on the screen, and only that can be judged.
    expect(file(page, "app/b.py")).to_contain_text("x = 2")
    page.get_by_role("button", name="Accept", exact=True).click()
    refused = page.get_by_role("region", name="Verdict").get_by_role("alert")
    expect(refused).to_contain_text("The work has changed since you read it.")
    expect(refused.get_by_role("listitem")).to_have_text(["app/b.py"])
    assert detent.task(task_id)["state"] == "ready"
    expect(page.get_by_text("The task has a newer diff")).to_have_count(0)  # not both
    refused.get_by_role("button", name="Show the current diff").click()
    expect(file(page, "app/b.py")).to_contain_text("x = 3")
    expect(refused).to_have_count(0)
    page.get_by_role("button", name="Accept", exact=True).click()
    detent.wait_for(task_id, "completed")


def test_newer_work_is_reported_after_a_refusal_for_another_reason(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    newer = diff_of({"app/b.py": "x = 1\n"}, {"app/b.py": "x = 3\n"})
    task_id = detent.leave(simple, newer)
    opened(page, detent, task_id)
    page.get_by_role("button", name="Request changes", exact=True).click()
    refused = page.get_by_role("region", name="Verdict").get_by_role("alert")
    expect(refused).to_be_visible()
    detent.next_round(task_id)
    expect(page.get_by_text("The task has a newer diff")).to_be_visible()
    expect(refused).to_have_count(0)
    page.get_by_role("button", name="Show the current diff").click()
    expect(file(page, "app/b.py")).to_contain_text("x = 3")


def test_the_overall_comment_has_lines_and_survives_a_reload(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    overall = page.get_by_label("Comment on the work as a whole")
    overall.fill("Two things:")
    overall.press("End")
    overall.press("Enter")
    page.keyboard.type("- tests")
    page.reload()
    expect(overall).to_have_value("Two things:\n- tests")
    page.get_by_role("button", name="Request changes", exact=True).click()
    expect(overall).to_have_value("")
    rejected = detent.last_event(task_id, "task_rejected")
    assert rejected["data"]["comment"] == "Two things:\n- tests"


def test_changes_without_any_comment_are_not_requested(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    page.get_by_role("button", name="Request changes", exact=True).click()
    expect(page.get_by_role("region", name="Verdict").get_by_role("alert")).to_be_visible()
    assert detent.task(task_id)["state"] == "ready"
    page.get_by_label("Comment on the work as a whole").fill("Start again, please.")
    page.get_by_role("button", name="Request changes", exact=True).click()
    wait_until(lambda: detent.task(task_id)["rounds"] == 1, "changes are requested")


def test_a_task_without_a_diff_shows_its_evidence(page: Page, detent: ReviewScene) -> None:
    task_id = detent.submit("leave", {"diffs": []}, "blocked", "failed", title="Nothing")
    opened(page, detent, task_id)
    expect(page.get_by_text("There is no diff")).to_be_visible()
    assert flaws(page) == []


def test_a_short_review_has_its_verdict_at_the_lower_edge(page: Page, detent: ReviewScene) -> None:
    task_id = detent.leave("")
    for size in (PHONE, WINDOW):
        page.set_viewport_size(size)
        opened(page, detent, task_id)
        expect(page.get_by_text("The work changed no file.")).to_be_visible()
        edge = page.get_by_role("region", name="Verdict").evaluate(
            "(bar) => innerHeight - bar.getBoundingClientRect().bottom"
        )
        assert abs(edge) < 2
    page.get_by_role("button", name="Accept", exact=True).click()
    detent.wait_for(task_id, "completed")
    page.set_viewport_size(PHONE)
    none = page.get_by_text("No verdict is needed: the task is completed.")
    expect(none).to_be_visible()
    assert none.evaluate("(words) => words.getBoundingClientRect().height") < 50


def test_a_verdict_without_a_diff_is_refused_if_the_task_has_changed(
    page: Page, detent: ReviewScene
) -> None:
    task_id = detent.submit("answer", {}, "ready", title="Only words")
    opened(page, detent, task_id)
    accept = page.get_by_role("button", name="Accept", exact=True)
    expect(accept).to_be_visible()
    detent.next_round(task_id)
    expect(page.get_by_role("main")).to_contain_text(re.compile("Round ?2"))
    accept.click()
    refused = page.get_by_role("region", name="Verdict").get_by_role("alert")
    expect(refused).to_contain_text("The work has changed since you read it.")
    assert detent.task(task_id)["state"] == "ready"
    held: list[Route] = []
    page.route(re.compile("/review$"), lambda route: held.append(route))
    refused.get_by_role("button", name="Show the current state").click()
    # Until that is read, a verdict would name what was refused before.
    expect(accept).to_be_disabled()
    expect(refused).to_be_visible()
    page.unroute_all()  # which lets the held requests through
    expect(refused).to_have_count(0)
    accept.click()
    detent.wait_for(task_id, "completed")
