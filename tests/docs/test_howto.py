"""The commands of the how-to pages work, typed at an installation that has what they speak of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Reader

HOWTO = ROOT / "docs" / "howto"
CONFIGURATION = """
[intents.sweep]
command = ["true"]

[intents.broken]
command = ["false"]
retry = { retries = 0 }
"""
#: Something of every kind that the pages speak of.
WORK = """
detent submit broken --tag nightly --wait || true
detent submit sweep --project demo --hold
detent cancel $(detent submit sweep --project demo --hold)
ID=$(detent submit sweep)
detent logs -f $ID
"""
#: What one page has set in motion is not in the way of the next.
AT_REST = """
until [ $(detent jobs --state queued,running --json | grep -c '"id"') = 0 ]; do sleep 0.2; done
"""
#: Pages that are tried while detent runs, one after another on one installation.
LIVE = (
    *("schedule", "many-at-once", "pause", "projects", "own-lifecycle", "resources"),
    *("rotate-tokens", "audit", "upgrade"),
)
#: Many real processes, each of which takes its time on a busy machine.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    with Reader(tmp_path / "home") as made:
        (made.place / "detent.toml").write_text(CONFIGURATION)
        yield made


def test_pages_about_an_installation_that_runs(reader: Reader) -> None:
    reader.start("terminal", "detent up")
    reader.enter(WORK)
    for page in LIVE:
        reader.follow(HOWTO / f"{page}.md")
        reader.enter(AT_REST)
    reader.follow(HOWTO / "from-queue-jsonl.md")
    output = reader.enter("detent tasks --source chat")
    assert output.count("sweep") == 3


def test_a_backup_is_restored(reader: Reader) -> None:
    reader.enter("detent submit sweep --hold --title kept")
    output = reader.follow(HOWTO / "back-up.md")
    assert "Clean: the log" in output
    assert "kept" in reader.enter("detent tasks")


def test_everything_moves_to_postgresql(reader: Reader, empty_postgres_url: str) -> None:
    reader.replaced["postgresql://localhost/detent"] = empty_postgres_url
    reader.enter("detent submit sweep --hold --title kept")
    reader.follow(HOWTO / "move-to-postgresql.md")
    assert "kept" in reader.enter("detent tasks")


def test_a_plan_from_a_file(reader: Reader) -> None:
    files = HOWTO / "plans.md"
    reader.write_files(files)
    reader.start("terminal", "detent up --app work:app")
    output = reader.follow(files)
    assert "e2e tests of shop-1.4.0 passed" in output


def test_a_celery_application_is_moved(tmp_path: Path) -> None:
    with Reader(tmp_path / "home") as reader:
        reader.follow(HOWTO / "from-celery.md")


def test_a_review_in_rounds(reader: Reader) -> None:
    output = reader.follow(HOWTO / "review.md")
    assert "resolved" in output
    assert "Done." in output


def test_the_best_of_three_is_merged(reader: Reader) -> None:
    output = reader.follow(HOWTO / "best-of-n.md")
    assert "3 passed, 1 failed" in output
    assert 'greeting = "Good morning"' in output


def test_a_lifecycle_is_checked_with_tlc(reader: Reader) -> None:
    page = HOWTO / "lifecycle-tla.md"
    reader.write_files(page)
    output = reader.follow(page)
    assert "distinct: no error" in output
    assert "RoundLimit = 2" in output


@pytest.mark.parametrize(
    "page", ["test-handlers", "critics", "pydantic-ai", "langgraph", "openai-agents"]
)
def test_tests_of_handlers_pass(tmp_path: Path, page: str) -> None:
    with Reader(tmp_path / "home") as reader:
        assert "passed" in reader.follow(HOWTO / f"{page}.md")
