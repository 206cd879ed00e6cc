"""The review page in real Chromium: comments on lines, drafts, rounds, verdicts, keys, a phone."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Page,
    Route,
    ViewportSize,
    expect,
)

from tests.dashboard.conftest import PATIENCE_MS, sign_in
from tests.dashboard.review_scene import BEFORE, SECOND, ReviewScene, diff_of, git
from tests.dashboard.review_steps import changed, comment, file, number, opened, text
from tests.dashboard.test_accessibility import OF_COLOUR, flaws, wear
from tests.e2e.installation import wait_until

PHONE: ViewportSize = {"width": 375, "height": 740}


# ---- the story -------------------------------------------------------------------------------


def test_a_review_from_the_first_comment_to_the_merge(
    page: Page, browser: Browser, detent: ReviewScene
) -> None:
    task_id = detent.fix(options={"on_accept": "merge"})
    page.goto(f"{detent.url}/tasks/{task_id}")
    expect(page.get_by_role("button", name="Accept and merge")).to_be_visible()
    page.goto(f"{detent.url}/inbox/{task_id}")
    page.get_by_role("link", name="Review the changes line by line").click()
    expect(page.get_by_role("heading", name="Round the total")).to_be_visible()
    for asked in ("total() loses cents", "The result has two digits", "Rounded.", "$0.20"):
        expect(page.get_by_role("main")).to_contain_text(asked)
    comment(page, "shop.py", "Line 2, added", "Why not an integer?")
    comment(page, "shop.py", "Line 5, added", "Two digits, please.")
    comment(page, "notes.txt", "Line 1, added", "What is this for?")
    page.get_by_role("button", name="Request changes (3)").click()
    wait_until(lambda: detent.task(task_id)["rounds"] == 1, "changes are requested")
    detent.wait_for(task_id, "ready")

    expect(page.get_by_text("The task has a newer diff")).to_be_in_viewport()
    page.get_by_role("button", name="Show the current diff").click()
    expect(page.get_by_text("Done, see shop.py.")).to_have_count(3)
    expect(page.get_by_role("main")).to_contain_text(re.compile("Round ?2"))
    expect(page.locator(".rounds")).to_contain_text("3 comments on the diff")
    # The comment is below its line, which is two lines further down.
    thread = page.get_by_role("article", name=re.compile("on line 4$"))
    expect(thread).to_contain_text("Why not an integer?")
    # The line of the second comment has changed: it is outdated, with the line as it was.
    outdated = page.get_by_role("article", name=re.compile("on line 5$"))
    expect(outdated).to_contain_text("Outdated")
    expect(outdated).to_contain_text("return round(result)")
    for left in (2, 1, 0):
        page.get_by_role("button", name="Resolve", exact=True).first.click()
        words = f"{left} open comment" if left else "No open comments"
        expect(page.get_by_role("region", name="Verdict")).to_contain_text(words)
    # One count everywhere: a resolved comment is not counted in the tree either.
    expect(page.locator(".tree-comments")).to_have_count(0)

    see_why_it_is_not_merged(page, detent, task_id)
    with second_reviewer(browser, detent, task_id) as other:
        page.get_by_role("button", name="Accept and merge").click()
        detent.wait_for(task_id, "completed")
        other.release()
        refused = other.page.get_by_role("region", name="Verdict").get_by_role("alert")
        expect(refused).to_contain_text("is completed")
    commit = git(detent.repo, "rev-parse", "main").strip()
    expect(page.get_by_role("region", name="Verdict")).to_contain_text(
        f"Accepted and merged into main: {commit[:10]}"
    )
    assert git(detent.repo, "show", "main:shop.py") == SECOND
    assert f"Detent-Task: {task_id}" in git(detent.repo, "log", "-1", "main")
    accepted = detent.last_event(task_id, "task_accepted")
    assert accepted["data"]["diff"] == detent.get(f"/api/tasks/{task_id}/review")["diff"]["sha256"]


def see_why_it_is_not_merged(page: Page, detent: ReviewScene, task_id: str) -> None:
    """Accept while the target has changes that are not committed; then remove them."""
    (detent.repo / "shop.py").write_text(f"{BEFORE}# not committed\n")
    page.get_by_role("button", name="Accept and merge").click()
    failed = page.get_by_role("alert").filter(has_text="The work was not merged.")
    expect(failed).to_contain_text("shop.py")
    assert detent.task(task_id)["state"] == "ready"
    # The inbox says the same, beside the work.
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(failed.get_by_role("button", name="Accept without the merge")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^changes.diff"))).to_be_visible()
    git(detent.repo, "checkout", "--", "shop.py")
    page.get_by_role("link", name="Review the changes line by line").click()
    expect(file(page, "shop.py")).to_be_visible()


def test_the_inbox_never_shows_the_evidence_of_earlier_rounds(
    page: Page, detent: ReviewScene
) -> None:
    one = diff_of({"a.txt": changed()}, {"a.txt": changed(5)})
    two = diff_of({"a.txt": changed()}, {"a.txt": changed(5, 9)})
    task_id = detent.leave(one, two)
    detent.next_round(task_id)
    held: list[Route] = []
    page.route(f"**/api/tasks/{task_id}/jobs*", lambda route: held.append(route))
    with page.expect_response(f"**/api/tasks/{task_id}/evidence*"):
        page.goto(f"{detent.url}/inbox/{task_id}")
    diffs = page.get_by_role("button", name=re.compile("^changes.diff"))
    expect(page.get_by_role("heading", name="Evidence")).to_be_visible()
    expect(diffs).to_have_count(0)
    assert held
    page.unroute_all()  # which lets the held requests through
    expect(diffs).to_have_count(1)


class HeldVerdict(NamedTuple):
    """A verdict that was clicked and has not reached the server."""

    page: Page
    held: list[Route]

    def release(self) -> None:
        for route in self.held:
            route.continue_()


@contextmanager
def second_reviewer(browser: Browser, detent: ReviewScene, task_id: str) -> Iterator[HeldVerdict]:
    """Another browser, in which the work was accepted at the same moment."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    page = opened(sign_in(context.new_page(), detent), detent, task_id)
    held: list[Route] = []
    page.route("**/accept", lambda route: held.append(route))
    with page.expect_request("**/accept"):
        page.get_by_role("button", name="Accept and merge").click()
    yield HeldVerdict(page, held)
    context.close()


def test_what_changed_since_a_round_is_shown(page: Page, detent: ReviewScene) -> None:
    first = diff_of({"a.txt": changed(), "b.txt": "x\n"}, {"a.txt": changed(5), "b.txt": "y\n"})
    second = diff_of({"a.txt": changed(), "b.txt": "x\n"}, {"a.txt": changed(5, 9), "b.txt": "y\n"})
    task_id = detent.leave(first, second)
    detent.next_round(task_id)
    opened(page, detent, task_id)
    expect(page.locator("section.review-file")).to_have_count(2)
    page.get_by_label("Changes", exact=True).select_option(label="since round 1")
    expect(page.locator("section.review-file")).to_have_count(1)
    lines = file(page, "a.txt")
    expect(lines.locator("tr[data-kind=added]")).to_have_count(1)
    expect(lines.locator("tr[data-kind=added]")).to_contain_text("line 9 changed")
    page.reload()
    expect(page.locator("section.review-file")).to_have_count(1)


def test_what_changed_is_never_that_of_another_diff_than_the_one_that_is_read(
    page: Page, detent: ReviewScene
) -> None:
    rounds = [diff_of({"a.txt": changed()}, {"a.txt": changed(*at)}) for at in ((5,), (5, 9), (7,))]
    task_id = detent.leave(*rounds)
    detent.next_round(task_id)
    opened(page, detent, task_id)
    expect(file(page, "a.txt")).to_contain_text("line 9 changed")
    detent.next_round(task_id)
    expect(page.get_by_text("The task has a newer diff")).to_be_visible()
    page.get_by_label("Changes", exact=True).select_option(label="since round 1")
    expect(page.get_by_text("What has changed is known for the newest diff only")).to_be_visible()
    expect(page.locator("section.review-file")).to_have_count(0)
    page.get_by_role("button", name="Show the newest diff").click()
    expect(file(page, "a.txt").locator("tr[data-kind=added]").first).to_contain_text("line 5")
    expect(file(page, "a.txt")).to_contain_text("line 7 changed")
    expect(page.get_by_text("The task has a newer diff")).to_have_count(0)


# ---- what is shown ---------------------------------------------------------------------------


def test_hostile_names_and_contents_are_text(page: Page, detent: ReviewScene) -> None:
    name = "<img src=x onerror=document.title='owned'>\u202etxt.py"
    content = "</td><script>document.title = 'owned'</script>\n'&lt;b&gt;' \u202e evil\n"
    markup = "**bold** <a href='javascript:alert(1)'>x</a> [y](javascript:alert(1))"
    given = {"prompt": f"<h1>{markup}</h1>", "tests": {"passed": 2, "failed": 1}}
    diff = diff_of({}, {name: content, "__proto__": "1\n", "a b/ü.md": "# <b>\n", "n\nl\t": "x\n"})
    task_id = detent.submit("leave", {"diffs": [diff], **given}, "ready", title="<b>title</b>")
    opened(page, detent, task_id)
    expect(page.get_by_role("heading", name="<b>title</b>")).to_be_visible()
    expect(file(page, "n\\nl\\t")).to_be_visible()  # not as "n l"
    shown = page.locator("section.review-file").filter(has_text="onerror")
    expect(shown).to_contain_text("<img src=x onerror=document.title='owned'>\ufffdtxt.py")
    expect(shown.locator(".code").first).to_contain_text("</td><script>document.title = 'owned'")
    expect(shown.locator(".code").nth(1)).to_have_text("'&lt;b&gt;' \ufffd evil")
    shown.get_by_role("button", name="Line 1, added").click()
    page.keyboard.press("c")
    page.keyboard.type(markup)
    page.get_by_role("button", name="Post now").click()
    expect(page.get_by_role("article", name=re.compile("^Comment"))).to_contain_text(markup)
    assert page.locator("main img, main script, main b, main h1 b, article a").count() == 0
    expect(page).to_have_title(re.compile(r"^(\(\d+\) )?Review: .* · detent$"))
    expect(page.get_by_text("1 failed, 2 tests passed")).to_be_visible()


def test_the_diff_has_several_views(page: Page, detent: ReviewScene) -> None:
    long = [f"row {at}" for at in range(900)]
    before = {
        "src/space.py": "if x:\n  y = 1\nz = 2\n",
        "src/deep/er/only.py": "a = 1\n",
        "package-lock.json": "{}\n",
        "long.txt": text(*long),
    }
    after = {
        "src/space.py": "if x:\n    y = 1\nz = 3\n",
        "src/deep/er/only.py": "a = 1  # one\n",
        "package-lock.json": '{"a": 1}\n',
        "long.txt": text(*(f"{row}!" for row in long)),
    }
    task_id = detent.leave(diff_of(before, after))
    opened(page, detent, task_id)
    # Generated and long files are folded until they are wanted.
    lock = file(page, "package-lock.json")
    expect(lock.locator(".code")).to_have_count(0)
    lock.get_by_role("button", name="Unfold package-lock.json").click()
    expect(lock.locator(".code")).to_have_count(2)
    expect(file(page, "long.txt").locator(".code")).to_have_count(0)
    # Syntax has colours.
    space = file(page, "src/space.py")
    expect(space.locator(".hljs-keyword").first).to_have_text("if")
    expect(space.locator("tr[data-kind=removed]")).to_have_count(2)
    page.get_by_label("Hide white space changes").check()
    expect(space.locator("tr[data-kind=removed]")).to_have_count(1)
    page.get_by_role("button", name="Side by side").click()
    expect(space.locator("table.split")).to_have_count(1)
    page.reload()
    expect(space.locator("table.split")).to_have_count(1)
    expect(page.get_by_label("Hide white space changes")).to_be_checked()
    page.get_by_label("Hide white space changes").uncheck()
    page.get_by_role("button", name="Unified").click()
    tree = page.get_by_role("navigation", name="Changed files")
    expect(tree.get_by_role("button", name="deep/er")).to_be_visible()
    tree.get_by_label("Filter files by name").fill("only")
    expect(tree.get_by_role("link")).to_have_count(1)
    tree.get_by_role("link").click()
    expect(page).to_have_url(re.compile(r"file=src%2Fdeep%2Fer%2Fonly\.py"))
    expect(file(page, "src/deep/er/only.py")).to_be_in_viewport()


#: What a busy page gets: the first entry of an element that has come nearer since.
SEVERAL_ENTRIES = """
window.IntersectionObserver = class extends IntersectionObserver {
  constructor(tell, options) {
    super((entries, self) => tell([{ isIntersecting: false }, ...entries], self), options);
  }
};
"""


def test_a_folded_file_is_read_also_on_a_busy_page(page: Page, detent: ReviewScene) -> None:
    task_id = detent.leave(diff_of({}, {"package-lock.json": "{}\n", "a.py": "x = 1\n"}))
    page.add_init_script(SEVERAL_ENTRIES)
    opened(page, detent, task_id)
    file(page, "package-lock.json").get_by_role("button", name="Unfold").click()
    expect(file(page, "package-lock.json").locator(".code")).to_have_text(["{}"])


def test_viewed_files_are_folded_and_stay_viewed(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.leave(simple)
    opened(page, detent, task_id)
    file(page, "app/b.py").get_by_label("Viewed").check()
    expect(file(page, "app/b.py").locator(".code")).to_have_count(0)
    expect(page.get_by_text("2 files, 1 viewed")).to_be_visible()
    wait_until(
        lambda: detent.get(f"/api/tasks/{task_id}/review")["viewed"] == ["app/b.py"], "it is stored"
    )
    page.reload()
    expect(page.get_by_text("2 files, 1 viewed")).to_be_visible()
    expect(file(page, "app/b.py").get_by_label("Viewed")).to_be_checked()


# ---- keys, phone, axe ------------------------------------------------------------------------


def test_keys_act_on_the_file_to_which_the_reader_has_scrolled(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    page.set_viewport_size({"width": 1280, "height": 320})
    opened(page, detent, detent.leave(simple, title="Scrolled by keys"))
    expect(file(page, "app/b.py").locator(".code").first).to_be_visible()
    current = page.locator(".tree-file[aria-current]")
    page.keyboard.press("j")
    expect(current).to_contain_text("b.py")
    page.keyboard.press("Home")
    expect(current).to_contain_text("a.txt")
    page.keyboard.press("v")
    expect(file(page, "app/a.txt").get_by_label("Viewed")).to_be_checked()


def test_a_review_with_keys_alone(page: Page, detent: ReviewScene, simple: str) -> None:
    task_id = detent.leave(simple, title="By keys")
    opened(page, detent, task_id)
    for path in ("app/a.txt", "app/b.py"):
        expect(file(page, path).locator(".code").first).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next, previous file")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    focused = "() => document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == "Fold app/b.py"
    page.keyboard.press("k")
    assert page.evaluate(focused) == "Fold app/a.txt"
    # To the lines of the file, and along them.
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate(focused) == "Line 2"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(page.get_by_role("button", name="Comment on lines 3 to 4")).to_be_visible()
    page.keyboard.press("c")
    page.keyboard.type("jk? v, n: cep")  # letters that are keys elsewhere
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("article", name="Draft on lines 3 to 4")).to_contain_text(
        "jk? v, n: cep"
    )
    page.keyboard.press("r")
    overall = page.get_by_label("Comment on the work as a whole")
    expect(overall).to_be_focused()
    expect(overall).to_have_value("")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Publish 1 draft")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name=re.compile("^Comment by"))).to_be_visible()
    page.keyboard.press("n")
    expect(page.get_by_role("article", name=re.compile("^Comment by"))).to_be_focused()
    page.keyboard.press("v")
    expect(file(page, "app/a.txt").get_by_label("Viewed")).to_be_checked()
    request = page.get_by_role("button", name="Request changes (1)")
    expect(request).to_be_enabled()  # the drafts are published
    page.keyboard.press("r")
    page.keyboard.press("Tab")
    expect(request).to_be_focused()
    page.keyboard.press("Enter")
    wait_until(lambda: detent.task(task_id)["rounds"] == 1, "changes are requested")


def test_the_next_item_is_one_key_away_also_without_a_diff(
    page: Page, detent: ReviewScene, simple: str
) -> None:
    task_id = detent.submit("answer", {}, "ready", title="Only words")
    detent.leave(simple)
    opened(page, detent, task_id)
    expect(page.get_by_role("link", name=re.compile(r"^Inbox [1-9]"))).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next item of the inbox")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("e")
    expect(page).not_to_have_url(re.compile(task_id))


@pytest.fixture
def phone(browser: Browser, detent: ReviewScene) -> Iterator[Page]:
    context: BrowserContext = browser.new_context(viewport=PHONE, has_touch=True, is_mobile=True)
    context.set_default_timeout(PATIENCE_MS)
    yield sign_in(context.new_page(), detent)
    context.close()


def test_a_review_on_a_phone(phone: Page, detent: ReviewScene, simple: str) -> None:
    task_id = detent.leave(simple)
    opened(phone, detent, task_id)
    number(phone, "app/a.txt", "Line 5, added").tap()
    phone.get_by_role("button", name="Comment on line 5").tap()
    phone.get_by_label("Comment on line 5").fill("on the way")
    phone.get_by_role("button", name="Keep as draft").tap()
    expect(phone.get_by_role("article", name="Draft on line 5")).to_be_visible()
    assert phone.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    phone.get_by_text("2 files", exact=True).tap()
    phone.get_by_role("link", name=re.compile("^b.py")).tap()
    expect(file(phone, "app/b.py")).to_be_in_viewport()
    assert flaws(phone) == []
    phone.get_by_role("button", name="Request changes (1)").tap()
    wait_until(lambda: detent.task(task_id)["rounds"] == 1, "changes are requested")


@pytest.mark.parametrize("split", [False, True])
def test_axe_finds_nothing(page: Page, detent: ReviewScene, simple: str, split: bool) -> None:
    task_id = detent.leave(simple, tests={"passed": 4, "failed": 1})
    opened(page, detent, task_id)
    page.get_by_role("button", name="Side by side" if split else "Unified").click()
    comment(page, "app/a.txt", "Line 5, added", "a draft")
    page.get_by_role("button", name="Publish 1 draft").click()
    expect(page.get_by_role("article", name=re.compile("^Comment by"))).to_be_visible()
    comment(page, "app/b.py", "Line 1, added", "another draft")
    number(page, "app/a.txt", "Line 6").click()
    expect(page.get_by_role("button", name="Comment on line 6")).to_be_visible()
    expect(file(page, "app/b.py").locator(".hljs-number").first).to_be_visible()
    wear(page, "light")
    assert flaws(page) == []
    wear(page, "dark")
    assert flaws(page, *OF_COLOUR) == []


def test_the_page_scrolls_as_one(page: Page, detent: ReviewScene, simple: str) -> None:
    """Nothing in the files has a scroll bar of its own."""
    wide = diff_of({}, {"wide.txt": "x" * 4_000 + "\n", "tabs.txt": "\t" * 200 + "end\n"})
    opened(page, detent, detent.leave(wide))
    expect(page.locator(".code").first).to_be_visible()
    inner = """() => [...document.querySelectorAll('.review-files *')].filter((each) =>
        /auto|scroll/.test(getComputedStyle(each).overflow)).map((each) => each.className)"""
    assert page.evaluate(inner) == []
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_its_styles_change_no_other_page(page: Page, detent: ReviewScene, simple: str) -> None:
    look = """() => [...document.querySelectorAll('main .note')].map((each) => {
        const { display, padding, border, maxWidth } = getComputedStyle(each);
        return [display, padding, border, maxWidth];
    })"""
    page.goto(f"{detent.url}/access")
    expect(page.locator("main .note")).to_have_count(2)
    before = page.evaluate(look)
    opened(page, detent, detent.leave(simple))
    expect(page.locator(".code").first).to_be_visible()
    # The styles of the review page stay loaded while the reader goes on.
    page.get_by_role("link", name="Access", exact=True).click()
    expect(page.locator("main .note")).to_have_count(2)
    assert page.evaluate(look) == before


def test_every_style_is_below_the_root_of_the_page() -> None:
    source = Path(__file__).parents[3] / "web" / "src" / "styles" / "review.css"
    selectors = re.findall(r"^ *([.:#a-z*\[].*)(?: \{|,)$", source.read_text(), re.MULTILINE)
    assert len(selectors) > 100
    below = re.compile(r'(:root\[data-theme="dark"\] )?\.review( |$)')
    assert [each for each in selectors if not below.match(each)] == []
