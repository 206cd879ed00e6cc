"""The sync with Notion: each page once, only changes, rate-limited, no duplicates after a crash."""

import itertools
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from detent.engine.claims import ClaimRequest
from detent.errors import Misconfigured, Unavailable
from detent.integrations.notion import notion_sync as syncing
from detent.integrations.notion.notion_api import LONGEST_PAUSE_S, MAX_TRIES, Uncertain
from detent.integrations.notion.notion_sync import Synced
from detent.kernel import commands as c
from tests.integrations.notion_world import PERSON, World
from verification.notion.notion_server import Reply


class Killed(BaseException):
    """Simulates the end of the process."""


@pytest.fixture
def world() -> World:
    return World()


# ---- pages -----------------------------------------------------------------------------------


def test_tasks_runs_and_state_become_pages(world: World) -> None:
    world.submit("t1", title="Dig, deep", queue=True, priority="P1", payload={"depth": 3})
    world.submit("t2", intent="a,b")
    run = world.complete()
    world.set_state(queue_length=2, health="ok", secret_of_ours=1)
    assert world.run() == Synced(created=5)
    tasks = world.rows("tasks")
    assert tasks["t1"]["Title"] == "Dig, deep"
    assert (tasks["t1"]["State"], tasks["t1"]["Priority"]) == ("done", "P1")
    assert (tasks["t2"]["Title"], tasks["t2"]["State"]) == ("t2", "inbox")
    assert tasks["t2"]["Intent"] == "a;b"
    one = world.rows("runs")[run]
    assert (one["State"], one["Task"], one["Attempt"], one["Exit code"]) == (
        "succeeded",
        "t1",
        1,
        0,
    )
    state = world.rows("state")
    assert {name: row["Value"] for name, row in state.items()} == {
        "queue_length": "2",
        "health": '"ok"',
    }
    (page,) = [each for each in world.server.pages.values() if each.properties["ID"] == "t1"]
    (block,) = page.children
    assert block["code"]["rich_text"][0]["text"]["content"] == '{"depth":3}'


def test_the_time_of_the_sync_is_stored(world: World) -> None:
    world.run()
    with world.core.store.read() as view:
        assert view.rows("system_state")["last_sync_notion"].endswith("Z")


def test_only_changes_are_written_and_a_page_is_created_once(world: World) -> None:
    world.submit("t1", queue=True)
    world.submit("t2")
    world.run()
    world.server.asked.clear()
    assert world.run() == Synced()
    assert world.server.asked == []
    world.complete()
    assert world.run() == Synced(created=1, updated=1)
    task, *_, run = world.server.pages
    assert world.server.asked == [
        f"PATCH /v1/pages/{task}",
        f"GET /v1/blocks/{world.server.parent}/children",
        "POST /v1/databases",
        "POST /v1/pages",
    ]
    assert world.server.pages[run].properties["Task"] == "t1"
    assert world.rows("tasks")["t1"]["State"] == "done"
    assert [page.edits for page in world.server.pages.values()] == [1, 0, 0]


def test_the_page_of_a_parent_follows_a_dismissal(world: World) -> None:
    world.submit("p", queue=True)
    world.submit("c", parent_id="p")
    world.core.engine.do(c.CancelTask("c"), PERSON)
    world.complete()
    world.run()
    row = world.rows("tasks")["p"]
    assert (row["State"], row["Blocked by"]) == ("blocked", "subtasks")
    world.core.engine.do(c.DismissSubtask("c"), PERSON)
    assert world.run() == Synced(updated=1)
    row = world.rows("tasks")["p"]
    assert (row["State"], row["Blocked by"]) == ("done", None)
    assert world.rows("tasks")["c"]["State"] == "cancelled"


def test_a_log_that_is_longer_than_a_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(syncing, "MAX_EVENTS", 3)
    for number in range(10):
        world.submit(f"t{number}")
    sync = world.sync()
    assert not sync.run(max_batches=2).complete
    assert len(world.rows("tasks")) == 6
    assert sync.run().complete
    assert len(world.rows("tasks")) == 10


def test_pages_of_deleted_tasks_are_moved_to_the_trash(world: World) -> None:
    world.submit("t1", queue=True)
    world.complete()
    world.run()
    world.core.engine.do(c.DeleteTask("t1", "not wanted"), PERSON)
    assert world.run().trashed >= 1
    assert world.rows("tasks") == {}


def test_a_page_that_a_person_trashed_is_not_created_again(world: World) -> None:
    world.submit("t1")
    world.run()
    (page,) = world.server.pages.values()
    page.in_trash = True
    world.core.engine.do(c.QueueTask("t1"), PERSON)
    assert world.run() == Synced()
    assert world.run() == Synced()
    assert len(world.server.pages) == 1
    assert page.in_trash


def test_a_database_that_a_person_deleted_is_created_again(world: World) -> None:
    world.submit("t1")
    world.run()
    world.server.databases.clear()
    world.submit("t2")
    assert world.run().failed == 1
    world.core.engine.do(c.QueueTask("t2"), PERSON)
    assert world.run().created == 1
    assert "t2" in world.rows("tasks")


def test_a_refused_page_does_not_stop_the_others(world: World, caplog: Any) -> None:
    world.submit("t1")
    world.submit("t2")
    world.run()
    world.core.engine.do(c.QueueTask("t1"), PERSON)
    world.core.engine.do(c.QueueTask("t2"), PERSON)
    refusal = {"object": "error", "code": "validation_error", "message": "No."}
    world.server.answers.append(Reply(400, refusal))
    assert world.run() == Synced(updated=1, failed=1)
    assert "Notion refused the request: No." in caplog.text


@pytest.mark.parametrize("length", [1_999, 2_000, 2_001, 100_000])
def test_long_texts_are_truncated_to_notions_limits(world: World, length: int) -> None:
    world.submit("t1", queue=True, payload="x" * length, options={"retry": {"retries": 0}})
    (claimed,) = world.core.engine.claim(ClaimRequest("w", "nonce", 1))
    failed = c.FailRun(claimed.grant, claimed.job.run_id or "", "error", "y" * length, 1)
    world.core.engine.do(failed, PERSON)
    assert world.run().failed == 0
    (run,) = world.rows("runs").values()
    assert run["Error"] == "y" * min(length, 40_000)


# ---- rate limits and retries -----------------------------------------------------------------


def test_at_most_three_requests_per_second(world: World) -> None:
    for number in range(20):
        world.submit(f"t{number}")
    world.run()
    assert len(world.server.asked) == 22
    assert world.now >= 20 / 3
    assert not any(seconds >= 1 for seconds in world.slept)


@pytest.mark.parametrize("status", [429, 529])
def test_the_pause_is_that_of_retry_after(world: World, status: int) -> None:
    world.submit("t1")
    world.run()
    world.submit("t2")
    busy = Reply(status, {"code": "busy", "message": "later"}, {"Retry-After": "17"})
    world.server.answers.extend([busy, busy])
    world.slept.clear()
    assert world.run().created == 1
    assert world.slept.count(17) == 2
    assert len(world.rows("tasks")) == 2


def test_the_pause_is_bounded(world: World) -> None:
    world.submit("t1")
    busy = Reply(429, {"code": "rate_limited", "message": "later"}, {"Retry-After": "9999"})
    world.server.answers.extend([busy] * MAX_TRIES)
    with pytest.raises(Unavailable):
        world.run()
    assert world.slept.count(LONGEST_PAUSE_S) == MAX_TRIES - 1
    assert world.run().created == 1


def test_requests_that_are_safe_to_repeat_are_retried(world: World) -> None:
    world.submit("t1")
    world.run()
    world.core.engine.do(c.QueueTask("t1"), PERSON)
    world.server.answers.extend([Reply(502, {}), Reply(409, {"code": "conflict_error"})])
    world.slept.clear()
    assert world.run().updated == 1
    assert [seconds for seconds in world.slept if seconds >= 1] == [1.0, 2.0]


def test_a_page_that_may_exist_is_searched_for_first(world: World) -> None:
    world.submit("t1")
    world.run()
    world.submit("t2")

    def lost(when: str, _: int) -> None:
        if when == "after":
            raise httpx2.ReadTimeout("no answer")

    world.hook = lost
    with pytest.raises(Uncertain):
        world.run()
    world.hook = lambda *_: None
    assert world.run() == Synced(updated=1)
    assert len(world.rows("tasks")) == 2


@pytest.mark.parametrize("status", [401, 403])
def test_a_wrong_token_is_a_configuration_error(world: World, status: int) -> None:
    world.submit("t1")
    world.server.answers.append(Reply(status, {"code": "unauthorized", "message": "No."}))
    with pytest.raises(Misconfigured, match="does not accept the token"):
        world.run()


# ---- crashes ---------------------------------------------------------------------------------


def story(world: World) -> Iterator[None]:
    """Some work, and a sync after each part of it."""
    world.submit("t1", queue=True, title="first")
    world.submit("t2")
    world.set_state(health="ok")
    yield
    world.complete()
    world.core.engine.do(c.CancelTask("t2", "not wanted"), PERSON)
    yield


def expected() -> tuple[Any, ...]:
    world = World()
    for _ in story(world):
        world.run()
    return picture(world)


def picture(world: World) -> tuple[Any, ...]:
    assert len(world.server.databases) == 3
    return tuple(world.rows(title) for title in ("tasks", "runs", "state"))


def requests_of(part: int) -> int:
    world = World()
    for number, _ in enumerate(story(world)):
        world.server.asked.clear()
        world.run()
        if number == part:
            return len(world.server.asked)
    raise AssertionError


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_request_leaves_no_page_twice(part: int, moment: str) -> None:
    right = expected()
    for fatal in range(requests_of(part)):
        world = World()

        def die(when: str, number: int, fatal: int = fatal) -> None:
            if (when, number) == (moment, fatal):
                raise Killed

        for number, _ in enumerate(story(world)):
            if number == part:
                world.hook = die
                with pytest.raises(Killed):
                    world.run()
                world.hook = lambda *_: None
            world.run()
        assert picture(world) == right, f"killed {moment} request {fatal}"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_crash_at_any_write_leaves_no_page_twice(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = expected()
    for fatal in itertools.count():
        world = World()
        sync = world.sync()
        keep, writes = sync._save, itertools.count()

        def dying(*what: Any, keep: Any = keep, writes: Any = writes, fatal: int = fatal) -> None:
            last = next(writes) == fatal
            if last and moment == "before":
                raise Killed
            keep(*what)
            if last:
                raise Killed

        monkeypatch.setattr(sync, "_save", dying)
        parts = story(world)
        next(parts)
        try:
            sync.run()
        except Killed:
            world.run()
        else:
            break
        next(parts)
        world.run()
        assert picture(world) == right, f"killed {moment} write {fatal}"
    assert fatal == 10
