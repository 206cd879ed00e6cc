"""The pages about other systems have one form, and their examples work as the pages say."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from detent.app.handle import Handle
from detent.testing.harness import Harness
from tests.docs.pages import ROOT, Reader, blocks, imported

ALTERNATIVES = ROOT / "docs" / "alternatives"
PAGES = sorted(page.stem for page in ALTERNATIVES.glob("*.md") if page.stem != "index")
#: The sections of every page, in this order.
SECTIONS = ["Concepts", "Differences", "What * better", "How to move"]


class Example(NamedTuple):
    """The handler of a page: what is submitted, what happens while it waits, and its result."""

    intent: str
    payload: dict[str, Any]
    result: Any
    meanwhile: Callable[[Handle[Any]], object] = Handle.state


def _answer_yes(handle: Handle[Any]) -> None:
    handle.answer("yes")


def _pay(handle: Handle[Any]) -> None:
    handle.signal("pay")


EXAMPLES = {
    "celery": Example("resize", {"path": "a.png", "width": 800}, "a.png@800"),
    "redis-queues": Example("send-invoice", {"order": 7}, "invoice 7"),
    "postgres-queues": Example("import-orders", {"day": "2030-01-01"}, 2),
    "dbos": Example("checkout", {"order": 7}, "shipped after payment of 7"),
    "temporal": Example("order", {"order": 7}, "reservation 7 is paid", _pay),
    "restate": Example("checkout", {"order": 7}, "payment of 7: yes", _answer_yes),
    "durable-platforms": Example("onboard", {"name": "Ada"}, "reminded"),
    "airflow": Example("etl", {}, {"extract": [1, 2], "load": 3}),
    "prefect-dagster": Example("report", {"day": "2030-01-01"}, "published 3"),
    "ci": Example("deploy", {"environment": "test"}, "shop:1.4 is deployed", _answer_yes),
    "agent-frameworks": Example(
        "article", {"topic": "tides"}, "published: a draft about tides", _answer_yes
    ),
}
#: Pages that are followed with a running detent, and what their commands print.
LIVE = {"cron": "backup of 20", "make-slurm": "2 "}
#: Its steps are those of the tutorial, whose commands are tested.
BY_THE_TUTORIAL = {"agent-loops"}


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_example_of_a_page_works(tmp_path: Path, page: str) -> None:
    text = (ALTERNATIVES / f"{page}.md").read_text("utf-8")
    module = imported(next(each for each in blocks(text) if each.title == "work.py"), tmp_path)
    example = EXAMPLES[page]
    harness = Harness(module.app)
    handle = harness.submit(example.intent, example.payload)
    harness.drain()
    example.meanwhile(handle)
    harness.drain(advance=True)
    assert handle.result(timeout=0) == example.result


@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", LIVE)
def test_a_page_is_followed(tmp_path: Path, page: str) -> None:
    with Reader(tmp_path / "home") as reader:
        assert LIVE[page] in reader.follow(ALTERNATIVES / f"{page}.md")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_the_same_sections(page: str) -> None:
    text = (ALTERNATIVES / f"{page}.md").read_text("utf-8")
    found = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert [re.sub("^What .* better$", "What * better", each) for each in found] == SECTIONS


def test_every_page_is_in_the_index_and_has_a_tested_example() -> None:
    index = (ALTERNATIVES / "index.md").read_text("utf-8")
    assert [page for page in PAGES if f"({page}.md)" not in index] == []
    assert set(PAGES) == {*EXAMPLES, *LIVE, *BY_THE_TUTORIAL}
