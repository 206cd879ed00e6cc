"""Schedules: created and edited by operators while the keeper fires them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from detent.errors import DetentError
from detent.keeper import scheduler as duty
from detent.operations.schedules import record_firing
from detent.schedule_times import schedule_from
from tests.operations.installation import OURS, Place, placed


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with placed(tmp_path) as made:
        yield made


def titles(place: Place) -> list[str]:
    return [row["title"] for row in place.call("list_tasks")["items"]]


def test_a_new_schedule_has_its_next_time(place: Place) -> None:
    made = place.call("put_schedule", name="often", intent="runQA", every_s=60)
    assert (made["every_s"], made["overlap"], made["paused"]) == (60, "skip", False)
    assert made["next_at"] == "2027-01-15T08:01:00.000Z"
    assert place.call("list_schedules")["items"] == [made]


def test_the_keeper_fires_a_schedule(place: Place) -> None:
    place.call("put_schedule", name="often", intent="runQA", every_s=60, payload={"a": 1})
    place.clock.advance(seconds=60)
    assert duty.run(place.core) == 1
    (task,) = place.call("list_tasks")["items"]
    assert (task["title"], task["payload"], task["source"]) == ("often", {"a": 1}, "heartbeat")
    assert place.call("list_schedules")["items"][0]["last_task"] == task["id"]


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"intent": "unheardOf", "every_s": 60}, "intent"),
        ({"intent": "runQA"}, "cron"),
        ({"intent": "runQA", "cron": "61 * * * *"}, "cron"),
        ({"intent": "runQA", "every_s": 60, "priority": "P9"}, "priority"),
        ({"intent": "runQA", "every_s": 60, "options": {"colour": 1}}, "options.colour"),
    ],
)
def test_an_invalid_submission_is_refused_when_the_schedule_is_created(
    place: Place, fields: dict[str, object], named: str
) -> None:
    with pytest.raises(DetentError) as caught:
        place.call("put_schedule", name="wrong", **fields)
    assert caught.value.details["field"] == named
    assert place.rows("schedules") == {}


def test_replacing_keeps_the_pause_and_what_it_did_last(place: Place) -> None:
    place.call("put_schedule", name="often", intent="runQA", every_s=60)
    place.clock.advance(seconds=60)
    duty.run(place.core)
    place.call("pause_schedule", name="often")
    made = place.call("put_schedule", name="often", intent="review", cron="0 3 * * *")
    assert (made["intent"], made["every_s"], made["paused"]) == ("review", None, True)
    assert made["last_task"] is not None


def test_times_during_a_pause_are_skipped(place: Place) -> None:
    place.call("put_schedule", name="often", intent="runQA", every_s=60, missed="all")
    place.call("pause_schedule", name="often")
    place.clock.advance(seconds=600)
    assert duty.run(place.core) == 0
    resumed = place.call("resume_schedule", name="often")
    assert resumed["next_at"] == "2027-01-15T08:11:00.000Z"
    assert duty.run(place.core) == 0
    place.clock.advance(seconds=60)
    assert duty.run(place.core) == 1


def test_each_trigger_submits_an_additional_task(place: Place) -> None:
    place.call("put_schedule", name="often", intent="runQA", every_s=60)
    first = place.call("trigger_schedule", name="often")["task_id"]
    assert place.call("trigger_schedule", name="often")["task_id"] != first
    assert titles(place) == ["often", "often"]


def test_the_next_times_are_listed(place: Place) -> None:
    place.call(
        "put_schedule", name="daily", intent="runQA", cron="0 3 * * *", timezone="Asia/Tokyo"
    )
    found = place.call("next_times", name="daily", count=2)["times"]
    assert found == ["2027-01-15T18:00:00.000Z", "2027-01-16T18:00:00.000Z"]


def test_an_edit_during_a_firing_is_not_undone(place: Place) -> None:
    place.call("put_schedule", name="often", intent="runQA", every_s=60)
    seen = schedule_from("often", place.rows("schedules")["often"])
    place.clock.advance(seconds=61)
    edited = place.call("put_schedule", name="often", intent="review", every_s=3_600)
    record_firing(place.core, seen, last_at=seen.next_at, last_task="t", next_at=7)
    (row,) = place.call("list_schedules")["items"]
    assert (row["intent"], row["every_s"], row["next_at"]) == ("review", 3_600, edited["next_at"])
    assert row["last_task"] == "t"


def test_a_schedule_that_is_deleted_while_firing_stays_deleted(place: Place) -> None:
    place.call("put_schedule", name="often", intent="runQA", every_s=60)
    seen = schedule_from("often", place.rows("schedules")["often"])
    assert place.call("delete_schedule", name="often")["removed"] is True
    record_firing(place.core, seen, next_at=7)
    assert place.rows("schedules") == {}


def test_a_schedule_with_an_unknown_intent_does_not_block_others(place: Place) -> None:
    place.put("schedules", {"a": {"intent": "gone", "every_s": 60, "next_at": 1}})
    place.call("put_schedule", name="b", intent="runQA", every_s=60)
    place.clock.advance(seconds=60)
    assert duty.run(place.core) == 1
    assert titles(place) == ["b"]
    assert place.rows("schedules")["a"]["next_at"] > place.clock()


def test_a_projects_token_keeps_to_its_project(place: Place) -> None:
    place.call("put_schedule", name="theirs", intent="runQA", every_s=60, project="theirs")
    made = place.call("put_schedule", OURS, name="own", intent="runQA", every_s=60)
    assert made["project"] == "ours"
    assert [row["name"] for row in place.call("list_schedules", OURS)["items"]] == ["own"]
    for name in ("delete_schedule", "pause_schedule", "trigger_schedule", "next_times"):
        with pytest.raises(DetentError) as caught:
            place.call(name, OURS, name="theirs")
        assert caught.value.code == "not_found"
    with pytest.raises(DetentError):
        place.call("put_schedule", OURS, name="theirs", intent="runQA", every_s=1)
    assert place.rows("schedules")["theirs"]["every_s"] == 60
