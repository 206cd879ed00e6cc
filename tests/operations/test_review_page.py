"""The review of a task: what was asked, its cost, its diff by file, and what changed in a round."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from detent.engine import Engine
from detent.errors import Forbidden, NotFound, TooLarge
from detent.operations import review_diffs, review_rows
from detent.operations.context import Core
from detent.operations.registry import Caller, Scope
from detent.operations.review_diffs import ParsedDiffs
from detent.review.unified_diff import parse_diff
from detent.store.postgres import PostgresStore
from detent.testing.clock import VirtualClock
from tests.operations.installation import (
    INTENTS,
    OURS,
    START_US,
    LocalInstallation,
    local_installation,
)
from tests.operations.reviewed_task import ReviewedTask, digest, patch

FIRST = patch("src/a.py", "one", "two") + patch("uv.lock", "x")
SECOND = patch("src/a.py", "one", "2") + patch("uv.lock", "x") + patch("b.png", "y")


@pytest.fixture
def installation(tmp_path: Path) -> Iterator[LocalInstallation]:
    with local_installation(tmp_path) as made:
        yield made


@pytest.fixture
def task(installation: LocalInstallation) -> ReviewedTask:
    payload = {"prompt": "fix it", "acceptance_criteria": ["tests pass"]}
    return ReviewedTask(installation, title="Fix", payload=payload, project="mine")


def test_a_review_shows_what_was_asked_what_it_cost_and_the_files(task: ReviewedTask) -> None:
    run_id = task.work(changes_diff=FIRST, test_results="")
    found = task.call("review")
    assert (found["title"], found["intent"], found["state"]) == ("Fix", "runQA", "ready")
    assert found["asked"]["acceptance_criteria"] == ["tests pass"]
    assert found["asked"]["payload"]["prompt"] == "fix it"
    assert (found["cost_usd"], found["tokens_in"], found["tokens_out"]) == (0.25, 100, 20)
    assert (found["duration_ms"], found["rounds"], found["earlier"]) == (2_000, 0, [])
    assert found["version"] == task.call("show_task")["version"]
    diff = found["diff"]
    assert (diff["sha256"], diff["run_id"], diff["size"]) == (digest(FIRST), run_id, len(FIRST))
    assert diff["download"] == f"/api/runs/{run_id}/evidence/changes.diff"
    first, second = diff["files"]
    assert (first["path"], first["status"], first["added"], first["removed"]) == (
        *("src/a.py", "modified"),
        *(2, 1),
    )
    assert (first["generated"], second["generated"]) == (False, True)
    assert (first["image"], first["image_before"], first["lines"]) == (False, None, 3)


def test_a_task_without_a_diff_can_be_reviewed(task: ReviewedTask) -> None:
    found = task.call("review")
    assert (found["diff"], found["earlier"], found["viewed"]) == (None, [], [])
    task.work(notes_txt="nothing")
    assert task.call("review")["diff"] is None
    with pytest.raises(NotFound, match="has no diff"):
        task.call("review_file", path="src/a.py")


def test_the_diff_under_review_is_that_of_the_newest_run_that_has_one(task: ReviewedTask) -> None:
    first = task.work(changes_diff=FIRST, test_results="old")
    task.request_changes()
    task.work(notes_txt="no change")
    assert task.call("review")["diff"]["run_id"] == first
    task.request_changes()
    second = task.work(changes_diff=SECOND, coverage_xml="new")
    found = task.call("review")
    assert found["diff"]["run_id"] == second
    assert [(each["round"], each["sha256"]) for each in found["earlier"]] == [(1, digest(FIRST))]
    assert [each["file"] for each in found["tests"]] == ["coverage.xml"]
    assert found["test_counts"] == {"passed": None, "failed": None}
    task.request_changes()
    task.work(**{"test-results_json": '{"passed": 4, "failed": 1}'})
    found = task.call("review")
    assert found["test_counts"] == {"passed": 4, "failed": 1}
    assert (found["rounds"], found["cost_usd"]) == (3, 1.0)


def test_the_limit_of_rounds_is_that_of_the_task(installation: LocalInstallation) -> None:
    limited = ReviewedTask(installation, options={"max_rounds": 3})
    assert limited.call("review")["rounds_limit"] == 3
    assert ReviewedTask(installation).call("review")["rounds_limit"] is None


def test_a_file_is_shown_by_line(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST)
    found = task.call("review_file", path="src/a.py")
    assert (found["diff"], found["truncated"]) == (digest(FIRST), False)
    (hunk,) = found["hunks"]
    assert (hunk["before_start"], hunk["before_count"]) == (1, 1)
    assert (hunk["after_start"], hunk["after_count"]) == (1, 2)
    assert [
        (line["kind"], line["text"], line["before"], line["after"]) for line in hunk["lines"]
    ] == [
        ("removed", "old", 1, None),
        ("added", "one", None, 1),
        ("added", "two", None, 2),
    ]


def test_a_file_of_an_earlier_diff_is_shown(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST)
    task.request_changes()
    task.work(changes_diff=SECOND)
    found = task.call("review_file", path="src/a.py", diff=digest(FIRST))
    assert [line["text"] for line in found["hunks"][0]["lines"]] == ["old", "one", "two"]


def test_images_are_found_in_the_evidence_of_the_run(task: ReviewedTask) -> None:
    names = ("images/before/old.png", "images/after/new.png", "images/after/unused.png")
    renamed = "diff --git a/old.png b/new.png\nrename from old.png\nrename to new.png\n"
    images: dict[str, str | bytes] = dict.fromkeys(names, b"image")
    run_id = task.work(changes_diff=renamed, **images)
    (file,) = task.call("review")["diff"]["files"]
    assert file["image"]
    assert file["image_before"] == {"run_id": run_id, "file": names[0]}
    assert file["image_after"] == {"run_id": run_id, "file": names[1]}


def test_a_long_file_is_cut_and_says_so(
    task: ReviewedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.work(changes_diff=FIRST)
    monkeypatch.setattr(review_rows, "MAX_LINES", 2)
    found = task.call("review_file", path="src/a.py")
    assert (len(found["hunks"][0]["lines"]), found["truncated"]) == (2, True)
    monkeypatch.setattr(review_rows, "MAX_LINES", 3)
    assert not task.call("review_file", path="src/a.py")["truncated"]


def test_a_diff_that_was_cut_off_says_so(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST[: FIRST.index("+two")])
    assert task.call("review_file", path="src/a.py")["truncated"]


def test_what_changed_since_an_earlier_round(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST)
    task.request_changes()
    task.work(changes_diff=SECOND)
    found = task.call("review_between", since=digest(FIRST))
    assert (found["since"], found["diff"]) == (digest(FIRST), digest(SECOND))
    assert found["files"] == [
        {"path": "src/a.py", "old_path": None, "added": 1, "removed": 1, "binary": False},
        {"path": "b.png", "old_path": None, "added": 1, "removed": 1, "binary": False},
    ]
    one = task.call("review_between", since=digest(FIRST), path="src/a.py")
    assert (one["files"], one["base_changed"]) == ([], False)
    assert [(line["kind"], line["text"]) for line in one["hunks"][0]["lines"]] == [
        ("context", "one"),
        ("removed", "two"),
        ("added", "2"),
    ]
    same = task.call("review_between", since=digest(FIRST), path="uv.lock")
    assert same["hunks"] == []


# ---- viewed files ----------------------------------------------------------------------------


def test_a_viewed_file_stays_viewed_until_it_changes(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST)
    seen = {"diff": digest(FIRST), "viewed": True}
    task.call("mark_viewed", path="src/a.py", **seen)
    answer = task.call("mark_viewed", path="uv.lock", **seen)
    assert answer == {"diff": digest(FIRST), "viewed": ["src/a.py", "uv.lock"]}
    assert task.call("review")["viewed"] == ["src/a.py", "uv.lock"]
    task.request_changes()
    task.work(changes_diff=SECOND)
    assert task.call("review")["viewed"] == ["uv.lock"]
    task.call("mark_viewed", path="uv.lock", diff=digest(SECOND), viewed=False)
    assert task.call("review")["viewed"] == []


def test_each_person_has_viewed_other_files(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST)
    other = Caller("other")
    task.call("mark_viewed", other, path="uv.lock", diff=digest(FIRST))
    assert task.call("review", other)["viewed"] == ["uv.lock"]
    assert task.call("review")["viewed"] == []


def test_the_last_mark_that_is_removed_removes_the_row(
    installation: LocalInstallation, task: ReviewedTask
) -> None:
    task.work(changes_diff=FIRST)
    for viewed in (True, False):
        task.call("mark_viewed", path="uv.lock", diff=digest(FIRST), viewed=viewed)
        assert bool(installation.rows("viewed_files")) is viewed


def test_a_review_on_postgresql(postgres_url: str) -> None:
    clock = VirtualClock(START_US)
    store = PostgresStore(postgres_url, clock)
    try:
        task = ReviewedTask(LocalInstallation(Core(store, Engine(store), intents=INTENTS), clock))
        task.work(changes_diff=FIRST)
        task.call("mark_viewed", path="uv.lock", diff=digest(FIRST))
        task.request_changes()
        task.work(changes_diff=SECOND)
        found = task.call("review")
        assert (found["diff"]["sha256"], found["viewed"]) == (digest(SECOND), ["uv.lock"])
        assert [each["round"] for each in found["earlier"]] == [1]
        assert len(task.call("review_between", since=digest(FIRST))["files"]) == 2
    finally:
        store.close()


# ---- wrong input -----------------------------------------------------------------------------

READS: list[tuple[str, dict[str, Any]]] = [
    ("review", {}),
    ("review_file", {"path": "src/a.py"}),
    ("review_between", {"since": digest(FIRST)}),
    ("mark_viewed", {"path": "src/a.py", "diff": digest(FIRST)}),
]


@pytest.mark.parametrize(("name", "arguments"), READS)
def test_a_task_of_another_project_is_not_found(
    task: ReviewedTask, name: str, arguments: dict[str, Any]
) -> None:
    task.work(changes_diff=FIRST)
    with pytest.raises(NotFound) as error:
        task.call(name, OURS, **arguments)
    assert error.value.code == "unknown_task"


def test_an_unknown_path_and_an_unknown_hash_are_clear(
    installation: LocalInstallation, task: ReviewedTask
) -> None:
    task.work(changes_diff=FIRST)
    other = ReviewedTask(installation)
    other.work(changes_diff=SECOND)
    with pytest.raises(NotFound, match=r"no file 'src/b\.py'") as error:
        task.call("review_file", path="src/b.py")
    assert (error.value.code, error.value.known) == ("unknown_file", ("src/a.py", "uv.lock"))
    with pytest.raises(NotFound, match=r"no file 'src/b\.py'"):
        task.call("review_between", path="src/b.py", since=digest(FIRST))
    for unknown in ("0" * 64, digest(SECOND)):  # the second is of another task
        for name, arguments in READS[1:]:
            field = "since" if name == "review_between" else "diff"
            with pytest.raises(NotFound, match=digest(FIRST)) as error:
                task.call(name, **{**arguments, field: unknown})
            assert error.value.code == "unknown_diff"
    assert installation.rows("viewed_files") == {}


def test_a_mark_needs_the_scope_of_reviews(task: ReviewedTask) -> None:
    task.work(changes_diff=FIRST)
    reader = Caller("reader", frozenset({Scope.READ}))
    assert task.call("review", reader)["viewed"] == []
    with pytest.raises(Forbidden):
        task.call("mark_viewed", reader, path="src/a.py", diff=digest(FIRST))


def test_a_diff_over_the_limit_is_not_parsed(
    task: ReviewedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = task.work(changes_diff=FIRST)
    for module in ("review_diffs", "review_page"):
        monkeypatch.setattr(f"detent.operations.{module}.MAX_DIFF_BYTES", len(FIRST) - 1)
    found = task.call("review")["diff"]
    assert (found["too_large"], found["files"]) == (True, [])
    with pytest.raises(TooLarge) as error:
        task.call("review_file", path="src/a.py")
    assert f"/api/runs/{run_id}/evidence/changes.diff" in error.value.hint


def test_a_diff_whose_content_was_deleted_is_clear(
    installation: LocalInstallation, task: ReviewedTask, monkeypatch: pytest.MonkeyPatch
) -> None:
    task.work(changes_diff=FIRST)
    monkeypatch.setattr(review_diffs, "PARSED", ParsedDiffs())
    later = installation.clock() + 10**12
    installation.core.store.blobs.remove([digest(FIRST)], later)
    with pytest.raises(NotFound, match="has been deleted") as error:
        task.call("review_file", path="src/a.py")
    assert error.value.code == "unknown_diff"


# ---- the cache -------------------------------------------------------------------------------


def test_parsed_diffs_are_kept_up_to_a_size() -> None:
    cache, diff = ParsedDiffs(max_bytes=10), parse_diff(b"")
    for name in ("a", "b", "c"):
        cache.put(name, diff, 4)
        assert cache.get("a") is diff
    assert cache.get("b") is None
    assert cache.get("c") is diff
    cache.put("large", diff, 99)
    assert cache.get("large") is diff
    assert cache.get("a") is None
