"""The README's first task and its handler work as printed, and so does the site's first page."""

import json
from pathlib import Path

import pytest

from detent.kernel import commands as c
from detent.testing.harness import Harness
from tests.docs.pages import ROOT, Block, Reader, blocks, imported

README = (ROOT / "README.md").read_text("utf-8")


def section(title: str) -> list[Block]:
    _, _, rest = README.partition(f"## {title}\n")
    return list(blocks(rest.partition("\n## ")[0]))


@pytest.fixture
def handler() -> Block:
    return next(block for block in section("A durable handler") if block.title == "work.py")


def test_the_first_task_of_the_readme_runs_tests_and_leaves_a_report(tmp_path: Path) -> None:
    first, second = section("Run a first task")
    with Reader(tmp_path / "home") as reader:
        reader.start("terminal", "detent up")
        for block in (first, second):
            text = block.text.replace(".venv/bin/", "").replace("5680", str(reader.port))
            reader.do(block, text)
        output = "".join(reader.output)
        reader.enter("detent tasks --json > tasks.json")
        tasks = json.loads((reader.place / "tasks.json").read_text())["items"]
    assert "a_discount_is_taken_off" in output
    assert "Decision: PASS" in output
    assert "QA-DECISION.md" in output
    assert {(each["project"], each["intent"]) for each in tasks} == {("demo", "runQA")}
    assert {each["state"] for each in tasks} <= {"todo", "doing", "done", "ready"}


def test_the_handler_of_the_readme_is_typed_as_printed(tmp_path: Path) -> None:
    with Reader(tmp_path / "home") as reader:
        *_, commands = printed = section("A durable handler")
        for block in printed[:-1]:
            reader.do(block, block.text)
        for line in commands.text.splitlines():
            # The exit code of a wait says that the task needs a person.
            waits = line.startswith("detent wait")
            reader.enter(f"({line}\n) || test $? = 11" if waits else line)
        output = "".join(reader.output)
    assert "Ship 1.4.0? (yes, no)" in output
    assert "completed" in output
    assert (reader.place / "uploaded-shop-1.4.0.zip").read_text()


def test_the_handler_of_the_readme_survives_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, handler: Block
) -> None:
    monkeypatch.chdir(tmp_path)
    harness = Harness(imported(handler, tmp_path).app)
    harness.crash(after="build")
    handle = harness.submit("release", {"version": "1.4.0"}, lifecycle="review")
    harness.drain(advance=True)
    task = handle.task()
    assert task is not None
    assert (task.state, task.blocked_by) == ("blocked", "question")
    harness.engine.do(c.AnswerTask(task.id, "yes"), c.Actor("person"))
    harness.drain(advance=True)
    assert handle.result(timeout=0) == "shop-1.4.0.zip"
    assert handle.state() == "ready"
    assert Path("uploaded-shop-1.4.0.zip").read_text()


def test_the_handler_of_the_first_page_of_the_site_works(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    module = imported(next(each for each in blocks(page) if each.title == "work.py"), tmp_path)
    harness = Harness(module.app)
    handle = harness.submit("release", {"version": "1.4.0"})
    harness.drain()
    handle.answer("yes")
    harness.drain()
    assert handle.result(timeout=0) == "shop-1.4.0.zip"
