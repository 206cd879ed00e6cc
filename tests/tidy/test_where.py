"""The table "Where things are" in CONTRIBUTING.md: each operation passes through its function."""

import re
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from detent import App, Run, feed
from detent.engine import Engine
from detent.store.sqlite import SqliteStore
from detent.testing.conformance.work_actions import claim_one, submit_job
from detent.testing.harness import Harness
from tests.gateway.installation import installed
from tests.tidy.call_trace import ROOT, Call, traced

PAGE = ROOT / "CONTRIBUTING.md"
HEADING = "## Where things are"
ROW = re.compile(r"^\| (?P<question>[^|`]+) \| `(?P<file>[\w/.]+)`[^|]* \| `(?P<function>[\w.]+)`")


def table() -> dict[str, Call]:
    section = PAGE.read_text("utf-8").partition(HEADING)[2].partition("\n## ")[0]
    found = (ROW.match(line) for line in section.splitlines())
    return {row["question"]: Call(row["file"], row["function"]) for row in found if row}


# ---- the operations ----------------------------------------------------------------------------


def retry_a_failed_run(_: Path) -> None:
    """A handler fails once, and its next attempt succeeds."""
    app, attempts = App(), Counter[str]()

    @app.intent("dig", retry={"retries": 1})
    def dig(run: Run) -> None:
        attempts[run.job_id] += 1
        if attempts[run.job_id] == 1:
            raise OSError("the handle broke")

    harness = Harness(app)
    harness.submit("dig")
    harness.drain(advance=True)
    assert list(attempts.values()) == [2]


def claim_a_job(directory: Path) -> None:
    store = SqliteStore(directory / "detent.db")
    engine = Engine(store)
    submit_job(engine)
    claim_one(engine)
    store.close()


def send_a_request(directory: Path) -> None:
    with installed(directory) as gateway:
        assert gateway.client().get("/api/me").status_code == 200


def read_the_feed(directory: Path) -> None:
    store = SqliteStore(directory / "detent.db")
    submit_job(Engine(store))
    delivered = threading.Event()
    follower = feed.Follower(store, "reader", lambda _: delivered.set())
    follower.start(0)
    assert delivered.wait(60)
    follower.stop()
    follower.join()
    store.close()


def answer_a_question(_: Path) -> None:
    app = App()

    @app.intent("dig")
    def dig(run: Run) -> Any:
        return run.ask("How deep?")

    harness = Harness(app)
    handle = harness.submit("dig")
    harness.drain()
    handle.answer("2 m")


OPERATIONS: dict[str, Callable[[Path], None]] = {
    "Where is the delay of a retry decided?": retry_a_failed_run,
    "Where is the SQL of a claim?": claim_a_job,
    "Where is an exception of a handler caught?": retry_a_failed_run,
    "Where is a token checked?": send_a_request,
    "Where does the cursor of the feed move?": read_the_feed,
    "Where is a question answered?": answer_a_question,
}


def test_the_table_answers_each_question() -> None:
    assert list(table()) == list(OPERATIONS), f'update "{HEADING}" in {PAGE.name}, or OPERATIONS'


@pytest.mark.parametrize("question", OPERATIONS)
def test_the_operation_passes_through_the_named_function(question: str, tmp_path: Path) -> None:
    answer = table()[question]
    with traced() as called:
        OPERATIONS[question](tmp_path)
    in_the_file = sorted({each.function for each in called if each.file == answer.file})
    assert answer in called, (
        f'"{question}" was not answered by {answer.function} in src/detent/{answer.file}. '
        f'Update the row in {PAGE.name}, section "{HEADING[3:]}", to the file and function that '
        f"do this now. Functions of that file that were called: {in_the_file or 'none'}."
    )
