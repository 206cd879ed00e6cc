"""Best of three on the page that compares variants, in real Chromium, up to the merged commit."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from detent.testing import stand_in_agent
from tests.dashboard.review_scene import BEFORE, ReviewScene, git
from tests.dashboard.test_accessibility import OF_COLOUR, flaws, wear
from tests.e2e.installation import wait_until

AGENT = """
[agents.{name}]
preset = "claude"
argv = ["{python}", "-S", "-E", "{agent}", "-p", "{{prompt}}",
        ["--session-id", "{{session_id}}"], ["--resume", "{{resume_id}}"]]
variables = {{ STAND_IN_SCRIPT = "{script}" }}
repos = ["{repo}"]

[intents.{name}]
agent = "{name}"
prompt = "Fix this bug: {{payload.bug}}"
workspace = "worktree"
"""
TASK = """
[intents.fixBug]
agent = "quick"
prompt = "Fix this bug: {payload.bug}"
workspace = "worktree"
on_accept = "merge"
checker = "check"
variants = ["quick", "careful", "stuck"]
"""
APP = """
import detent

app = detent.App()


@app.intent("check")
def check(run: detent.Run, **payload: object) -> dict:
    return {"accept": "round(result, 2)" in str(payload["changes"])}
"""
QUICK = BEFORE.replace("return result", "return round(result)")
CAREFUL = BEFORE.replace("return result", "return round(result, 2)")
#: What each agent does: the last one never ends.
SCRIPTS: dict[str, list[dict[str, Any]]] = {
    "quick": [
        {"write": {"shop.py": QUICK}},
        {"evidence": {"test-results.json": json.dumps({"passed": 2, "failed": 1})}},
        {"cost": 0.1},
    ],
    "careful": [
        {"write": {"shop.py": CAREFUL, "notes.txt": "two digits\n"}},
        {"evidence": {"test-results.json": json.dumps({"passed": 3, "failed": 0})}},
        {"cost": 0.4},
        {"tokens": [1200, 300]},
    ],
    "stuck": [{"say": "thinking"}, {"hang": 600}],
}


class VariantScene(ReviewScene):
    """`detent up` with three agents, of which one never ends, and a checker."""

    def prepare(self) -> None:
        super().prepare()
        config = TASK
        for name, steps in SCRIPTS.items():
            script = self.project / f"{name}.json"
            script.write_text(json.dumps({"runs": [steps]}))
            places = {"script": script, "repo": self.repo, "agent": stand_in_agent.__file__}
            config += AGENT.format(name=name, python=sys.executable, **places)
        (self.project / "detent.toml").write_text(config)
        (self.project / "own.py").write_text(APP)


@pytest.fixture(scope="module")
def detent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VariantScene]:
    made = VariantScene(Path(tmp_path_factory.mktemp("variants")))
    made.prepare()
    made.up()
    yield made
    made.kill()


def column(page: Page, number: int) -> Locator:
    return page.get_by_role("listitem").filter(
        has=page.get_by_role("heading", name=re.compile(f"^Variant {number}"))
    )


def choose_by_key(page: Page, number: int) -> None:
    """Without a mouse: the number opens the confirmation, Enter confirms it."""
    expect(page.get_by_role("list", name="Keys")).to_have_text("12 choose a variant")
    page.keyboard.press(str(number))
    dialog = page.get_by_role("dialog", name=f"Choose variant {number}?")
    expect(dialog).to_contain_text("1 other variant that still runs is cancelled")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)  # closed, and the page knows it
    page.keyboard.press(str(number))
    expect(dialog.get_by_role("button", name=f"Choose variant {number}")).to_be_focused()
    page.keyboard.press("Enter")


def test_best_of_three_up_to_the_merged_commit(page: Page, detent: VariantScene) -> None:
    payload = {"bug": "total() loses cents"}
    task_id = detent.submit("fixBug", payload, title="Round the total", max_budget_usd=2)
    page.goto(f"{detent.url}/tasks/{task_id}")
    page.get_by_role("link", name="Compare", exact=True).click()

    # The columns fill while the agents work.
    first, second, third = (column(page, number) for number in (1, 2, 3))
    expect(first).to_contain_text("1 failed, 2 passed")
    expect(first.get_by_role("link", name="1 file, +1 −1")).to_be_visible()
    expect(first).to_contain_text("refuses")
    expect(second).to_contain_text("3 passed")
    expect(second).to_contain_text("accepts")
    expect(second).to_contain_text("$0.40")
    expect(second).to_contain_text("1,200 in, 300 out")
    expect(page.locator(".notice")).to_contain_text("1 variant has not ended")
    expect(third.get_by_role("button")).to_have_count(0)
    expect(page.get_by_text("$0.50 of $2.00")).to_be_visible()

    page.set_viewport_size({"width": 360, "height": 740})
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 360, "no column is cut off on a phone"
    assert flaws(page) == []
    wear(page, "dark")
    assert flaws(page, *OF_COLOUR) == []
    page.set_viewport_size({"width": 1280, "height": 860})

    # The review page of a variant shows its diff.
    second.get_by_role("link", name="2 files, +2 −1").click()
    expect(page.get_by_text("return round(result, 2)").first).to_be_visible()
    page.go_back()

    choose_by_key(page, 2)
    expect(page.locator(".notice")).to_contain_text("Variant 2 was chosen.")
    expect(third).to_contain_text("cancelled")
    page.get_by_role("link", name="Review the task").click()
    verdict = page.get_by_label("Verdict")
    verdict.get_by_role("button", name="Accept").click()
    detent.wait_for(task_id, "completed")
    assert git(detent.repo, "show", "main:shop.py") == CAREFUL
    assert f"Detent-Task: {task_id}" in git(detent.repo, "log", "-1", "--format=%B", "main")
    assert detent.events(task_id).count("variant_chosen") == 1


def test_a_choice_that_waits_is_in_the_inbox(page: Page, detent: VariantScene) -> None:
    """The item leads to the comparison; a choice that came later gets a clear answer."""
    options = {"variants": ["quick", "careful"]}
    task_id = detent.submit("fixBug", {"bug": "b"}, "blocked", title="Choose", options=options)
    page.goto(f"{detent.url}/inbox/{task_id}")
    expect(page.get_by_text("Which variant is the best?")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="Compare and choose")).to_be_focused()
    page.keyboard.press("Enter")
    column(page, 1).get_by_role("button", name="Choose variant 1").click()
    answer = detent.post(f"/api/tasks/{task_id}/choose", {"variant": 2})
    assert answer.status_code == 200, answer.text
    page.get_by_role("dialog").get_by_role("button", name="Choose variant 1").click()
    trouble = page.get_by_role("alert").filter(has_text="Variant 2 of task")
    expect(trouble).to_contain_text("was chosen already")
    page.keyboard.press("Escape")
    expect(page.locator(".notice")).to_contain_text("Variant 2 was chosen.")
    wait_until(lambda: detent.task(task_id)["state"] == "ready", "the task takes over the work")
