"""The transcript of an agent's run: live, folded, searched, and hostile lines as text."""

import json
import re
from pathlib import Path
from typing import Any

from playwright.sync_api import Dialog, Locator, Page, expect

from tests.dashboard.scenes import Scene
from tests.dashboard.test_accessibility import OF_COLOUR, flaws, wear
from tests.e2e.installation import wait_until

RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "All done.",
    "total_cost_usd": 0.18,
    "usage": {"input_tokens": 5_210, "output_tokens": 801},
}


def text(words: str, message_id: str = "m1") -> dict[str, Any]:
    content = [{"type": "text", "text": words}]
    usage = {"input_tokens": 200, "cache_read_input_tokens": 1_000, "output_tokens": 1}
    return {"type": "assistant", "message": {"id": message_id, "content": content, "usage": usage}}


def tool(tool_id: str, name: str, **given: Any) -> dict[str, Any]:
    block = {"type": "tool_use", "id": tool_id, "name": name, "input": given}
    return {"type": "assistant", "message": {"id": "m1", "content": [block]}}


def outcome(tool_id: str, content: str, *, is_error: bool = False) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": tool_id, "content": content}
    return {"type": "user", "message": {"content": [{**block, "is_error": is_error}]}}


class Narration:
    """A run of an agent whose lines a test writes."""

    def __init__(self, detent: Scene, name: str, *lines: dict[str, Any] | str) -> None:
        self.detent = detent
        self.file = Path(detent.let(f"{name}.jsonl"))
        self.file.touch()
        self.write(*lines)
        payload = {"lines": str(self.file)}
        self.task_id = detent.submit("narrate", payload, "running", title=name)
        self.run_id = f"{self.task_id}-j1-r1"

    def write(self, *lines: dict[str, Any] | str) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            for line in lines:
                file.write((line if isinstance(line, str) else json.dumps(line)) + "\n")

    def end(self) -> None:
        self.write(RESULT, "END")
        self.detent.wait_for(self.task_id, "ready")

    def open(self, page: Page) -> Locator:
        """The page of the run; the list of its transcript."""
        run = f"/api/runs/{self.run_id}"
        wait_until(lambda: self.detent.get(run)["session_id"], "the session")
        page.goto(f"{self.detent.url}/runs/{self.run_id}")
        log = page.get_by_role("log", name="Transcript of the run")
        expect(log).to_be_visible()
        return log


def test_it_grows_while_the_agent_works(page: Page, detent: Scene) -> None:
    made = Narration(detent, "grows", text("I begin."), tool("t1", "Bash", command="pytest -q"))
    log = made.open(page)
    expect(log).to_contain_text("I begin.")
    expect(log.locator(".transcript-turn")).to_have_text("Turn 1 · 1,200 tokens in")
    call = log.get_by_role("button", name=re.compile("Bash"))
    expect(call).to_contain_text("no result")
    made.write(outcome("t1", "one\ntwo\n", is_error=True))
    expect(call).to_contain_text("failed, 2 lines")
    expect(log.locator("[data-error=true]")).to_have_count(1)
    expect(log.locator("time").first).to_have_attribute("title", re.compile("UTC"))
    expect(page.get_by_text("2 items, live")).to_be_visible()
    made.end()
    expect(log).to_contain_text("All done.")
    expect(log).to_contain_text("Total so far: $0.18 · 5,210 tokens in · 801 out")
    expect(page.get_by_text("4 items, complete")).to_be_visible()


def test_a_reader_who_has_scrolled_up_stays_there(page: Page, detent: Scene) -> None:
    made = Narration(detent, "scrolls", *(text(f"Message {n}.", f"m{n}") for n in range(200)))
    log = made.open(page)
    expect(log).to_contain_text("Message 199.")
    follow = page.get_by_label("scroll to the end")
    expect(follow).to_be_checked()
    log.hover()
    page.mouse.wheel(0, -3_000)
    expect(follow).not_to_be_checked()
    top = settled(log)
    made.write(*(text(f"Message {n}.", f"m{n}") for n in range(200, 300)))
    expect(page.get_by_text("300 items, live")).to_be_visible()
    assert settled(log) == top
    follow.check()
    expect(log).to_contain_text("Message 299.")
    made.write(text("The newest.", "m300"))
    expect(log).to_contain_text("The newest.")
    made.end()


def settled(log: Locator) -> float:
    """Where the list has scrolled to, when it has stopped moving."""
    places: list[float] = []

    def rests() -> bool:
        places.append(log.evaluate("box => box.scrollTop"))
        return len(places) > 3 and len(set(places[-4:])) == 1

    wait_until(rests, "the list to stand still")
    return places[-1]


def test_tools_unfold_and_edits_are_diffs(page: Page, detent: Scene) -> None:
    edit = {"file_path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = 3"}
    made = Narration(
        detent,
        "folds",
        tool("t1", "Bash", command="make\nall"),
        outcome("t1", "built \x1b[32mall\x1b[0m"),
        tool("t2", "Edit", **edit),
        outcome("t2", "ok"),
    )
    made.end()
    log = made.open(page)
    call = log.get_by_role("button", name=re.compile("Bash"))
    expect(call).to_have_attribute("aria-expanded", "false")
    expect(log.get_by_label("Output")).to_have_count(0)
    call.press("Enter")
    expect(call).to_have_attribute("aria-expanded", "true")
    expect(log.get_by_label("Input")).to_contain_text("make\nall")
    expect(log.get_by_label("Output")).to_contain_text("built all")
    diff = log.get_by_label("Diff")
    expect(diff.locator("[data-kind=removed]")).to_have_text("−y = 2")
    expect(diff.locator("[data-kind=added]")).to_have_text("+y = 3")
    head = log.get_by_role("button", name=re.compile("Edit a.py"))
    expect(head).to_contain_text("+1 −1")
    head.click()
    expect(diff).to_have_count(0)


def test_search_counts_marks_and_moves(page: Page, detent: Scene) -> None:
    lines = [text(f"Filler {n}.", f"m{n}") for n in range(150)]
    lines[10] = text("A Needle here.", "m10")
    lines += [tool("t1", "Bash", command="grep"), outcome("t1", "the needle is in the output")]
    made = Narration(detent, "search", *lines, text("needle, needle", "z"))
    made.end()
    log = made.open(page)
    expect(page.get_by_text("complete")).to_be_visible()
    box = page.get_by_label("Search the transcript")
    box.fill("needle")
    status = page.get_by_role("search").get_by_role("status")
    expect(status).to_have_text("1 of 3")
    expect(log.locator("[data-current=true] mark")).to_have_text(["Needle"])
    box.press("Enter")
    expect(status).to_have_text("2 of 3")
    expect(log.locator("[data-current=true]")).to_contain_text("the needle is in the output")
    page.get_by_role("button", name="Next match").click()
    expect(log.locator("[data-current=true] mark")).to_have_text(["needle", "needle"])
    page.get_by_role("button", name="Next match").click()
    expect(status).to_have_text("1 of 3")
    page.get_by_role("button", name="Previous match").click()
    expect(status).to_have_text("3 of 3")
    box.fill("nowhere to be found")
    expect(status).to_have_text("not found")


HOSTILE = (
    "<img src=x onerror=alert(1)>\u202egnp\x00 [link](javascript:alert(2)) \x1b[2J\x1b]0;t\x07"
)
SHOWN = "<img src=x onerror=alert(1)>\ufffdgnp\ufffd [link](javascript:alert(2))"


def test_hostile_lines_stay_text(page: Page, detent: Scene) -> None:
    messages: list[str] = []

    def hear(dialog: Dialog) -> None:
        messages.append(dialog.message)
        dialog.dismiss()

    page.on("dialog", hear)
    made = Narration(
        detent,
        "hostile",
        text(HOSTILE),
        tool(HOSTILE, HOSTILE, file_path=HOSTILE, old_string=HOSTILE, new_string="x"),
        tool("t1", HOSTILE, command=HOSTILE),
        outcome("t1", HOSTILE, is_error=True),
        "<script>alert(3)</script>",
        text("long " + "x" * 1_000_000),
        "y" * 1_000_000,
    )
    made.end()
    log = made.open(page)
    expect(log).to_contain_text(SHOWN)
    expect(log).to_contain_text("<script>alert(3)</script>")
    log.locator("[data-kind=tool_call] button").click()
    expect(log.get_by_label("Output")).to_contain_text(SHOWN)
    assert log.locator("img, script, a, iframe").count() == 0
    assert messages == []


def test_its_forms_its_lines_and_its_file(page: Page, detent: Scene) -> None:
    made = Narration(detent, "forms", text("One long line. " * 40))
    made.end()
    page.goto(f"{detent.url}/tasks/{made.task_id}/output")
    log = page.get_by_role("log")
    expect(log).to_have_attribute("data-wrap", "true")
    narrow = log.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.get_by_label("wrap lines").uncheck()
    expect(log).to_have_attribute("data-wrap", "false")
    assert narrow
    assert not log.evaluate("box => box.scrollWidth <= box.clientWidth")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download raw").click()
    assert download.value.suggested_filename == f"{made.run_id}.log"
    assert '"One long line. ' in Path(download.value.path()).read_text()
    page.get_by_role("button", name="Raw").click()
    expect(page.get_by_role("log", name="Output of the run")).to_contain_text('"total_cost_usd"')
    other = detent.submit("change", {}, "ready")
    page.goto(f"{detent.url}/tasks/{other}/output")
    expect(page.get_by_role("log", name="Output of the run")).to_contain_text("41 passed")
    expect(page.get_by_role("button", name="Transcript")).to_have_count(0)


def test_the_inbox_shows_the_end_of_it(page: Page, detent: Scene) -> None:
    agent = Narration(detent, "broken", *(text(f"message {at}", f"m{at}") for at in range(30)))
    agent.write({**RESULT, "subtype": "error_during_execution", "is_error": True}, "END")
    detent.wait_for(agent.task_id, "failed")
    page.goto(f"{detent.url}/inbox/{agent.task_id}")
    log = page.get_by_role("log", name="Transcript of the run")
    expect(log.get_by_text("message 29", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("searchbox", name="Search the transcript")).to_have_count(0)
    expect(page.get_by_role("main")).not_to_contain_text('"type": "assistant"')


def test_axe_finds_nothing_and_a_phone_is_wide_enough(page: Page, detent: Scene) -> None:
    edit = {"file_path": "a.py", "old_string": "x = 1\ny = 2", "new_string": "x = 1\ny = 3"}
    made = Narration(
        detent,
        "axe",
        {"type": "system", "subtype": "init", "model": "opus", "session_id": "s", "cwd": "/r"},
        {"type": "user", "message": {"content": "Fix the failing test."}},
        text("I run the tests first."),
        tool("t1", "Bash", command="pytest -q tests/unit"),
        outcome("t1", "1 failed in 0.3 s\nassert 2 == 3", is_error=True),
        tool("t2", "Edit", **edit),
        outcome("t2", "ok"),
        "a warning on stderr",
        text("The test passes now.", "m2"),
    )
    made.end()
    log = made.open(page)
    log.get_by_role("button", name=re.compile("Bash")).click()
    page.get_by_label("Search the transcript").fill("test")
    expect(log.locator("mark").first).to_be_visible()
    wear(page, "light")
    assert flaws(page) == []
    wear(page, "dark")
    assert flaws(page, *OF_COLOUR) == []
    page.set_viewport_size({"width": 375, "height": 740})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
